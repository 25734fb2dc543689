"""Slots for special tokens to come, and their names: no id changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.derived import (
    of_size,
    rename_special_tokens,
    slots_of,
    with_reserved_slots,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken

WORDS = WordCounts.from_mapping({b" lower": 5, b" lowest": 3, b" newest": 4, b" wider": 6})
TEXT = " lower newest <|end|> unseen"


def trained(size: int = 270) -> Tokenizer:
    return train_bpe(WORDS, size, special_tokens=["<|end|>"])


def test_slots_follow_the_highest_id_and_fill_a_multiple() -> None:
    base = trained()
    made = with_reserved_slots(base, 3)
    assert slots_of(made) == {"<|reserved_0|>": 270, "<|reserved_1|>": 271, "<|reserved_2|>": 272}
    assert made.encode(TEXT) == base.encode(TEXT)
    assert with_reserved_slots(base, 3, 128).vocab_size == 384
    assert with_reserved_slots(base, 0, 270) is base
    assert with_reserved_slots(base, 1, 270).vocab_size == 540
    assert made.digest != base.digest


def test_names_that_are_taken_are_passed_over() -> None:
    twice = with_reserved_slots(with_reserved_slots(trained(), 1), 2)
    assert list(slots_of(twice)) == ["<|reserved_0|>", "<|reserved_1|>", "<|reserved_2|>"]
    taken = train_bpe(WORDS, 270, special_tokens=["<|reserved_0|>"])
    assert list(slots_of(with_reserved_slots(taken, 1))) == ["<|reserved_0|>", "<|reserved_1|>"]


def test_a_name_changes_no_id_here_and_in_tokenizers(tmp_path: Path) -> None:
    made = with_reserved_slots(trained(), 2)
    named = rename_special_tokens(made, {"<|reserved_1|>": "<|tool|>"})
    assert named.special_tokens == {"<|end|>": 0, "<|reserved_0|>": 270, "<|tool|>": 271}
    assert {id_ for id_ in made.vocab if made.vocab[id_] != named.vocab[id_]} == {271}
    text = f"{TEXT}<|tool|><|reserved_0|>"
    path = tmp_path / "tokenizer.json"
    named.save(path, "hf")
    theirs = tokenizers.Tokenizer.from_file(str(path))
    ids = named.encode(text, allowed_special="all")
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert ids[-2:] == [271, 270]
    # What was read from a file of others takes names and slots, too.
    read = Tokenizer.load(path)
    again = rename_special_tokens(with_reserved_slots(read, 1), {"<|tool|>": "<|call|>"})
    assert again.encode("<|call|><|reserved_1|> lower") == [271, 272, *read.encode(" lower")]


def test_smaller_sizes_lose_slots_first() -> None:
    base = trained()
    made = with_reserved_slots(base, 3)
    assert of_size(made, 270).digest == base.digest
    assert of_size(made, 265).digest == trained(265).digest
    assert list(slots_of(of_size(made, 272))) == ["<|reserved_0|>", "<|reserved_1|>"]
    # One that has a name is a special token as any other.
    named = rename_special_tokens(made, {"<|reserved_0|>": "<|tool|>"})
    assert of_size(named, 266).special_tokens == {"<|end|>": 0, "<|tool|>": 270}


@pytest.mark.parametrize(
    "names",
    [
        {"<|nothing|>": "<|tool|>"},
        {"<|end|>": " lower"},
        {"<|end|>": "x"},
        {"<|end|>": ""},
        {"<|end|>": "<|reserved_0|>"},
        {"<|end|>": "<|a|>", "<|reserved_0|>": "<|a|>"},
    ],
)
def test_names_that_cannot_be_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(InvalidSpecialToken):
        rename_special_tokens(with_reserved_slots(trained(), 1), names)


def test_a_token_that_a_template_names_keeps_its_name(tmp_path: Path) -> None:
    trained().save(tmp_path / "tokenizer.json", "hf")
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|end|> $A", special_tokens=[("<|end|>", 0)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InvalidSpecialToken, match=r"'<\|end\|>'"):
        rename_special_tokens(Tokenizer.load(tmp_path / "tokenizer.json"), {"<|end|>": "<|eos|>"})


def test_numbers_out_of_range_are_refused() -> None:
    for asked in ({"reserve": -1}, {"round_to": 0}, {"reserve": True}):
        with pytest.raises(InvalidOption):
            with_reserved_slots(trained(), **asked)
    with pytest.raises(InvalidOption):
        rename_special_tokens(trained(), {})
