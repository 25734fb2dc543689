"""The names that other people's scripts rely on."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from fresh_python import output_of

import bpeline
from bpeline import tokenizer_core


def test_the_public_names_are_these_and_all_can_be_imported() -> None:
    trainers = ["train_bpe", "train_char_bpe", "train_frequency_bpe", "train_from_iterator"]
    classes = ["ParityRule", "SplitPattern", "TokenShards", "Tokenizer", "WordCounts"]
    later = ["train_parity_bpe", "train_superbpe", "train_wordpiece"]
    counting = ["count_texts", "count_words", "evaluate", "superword_lines"]
    expected = [*classes, *counting, *trainers, *later]
    of_the_registry = ["compare", "configure", "load_tokenizer", "promote", "train"]
    assert tokenizer_core.__all__ == expected
    assert bpeline.__all__ == sorted([*expected, *of_the_registry])
    for package in (tokenizer_core, bpeline):
        for name in package.__all__:
            assert callable(getattr(package, name))
            assert name in dir(package)
        with pytest.raises(AttributeError, match="no_such"):
            package.no_such  # noqa: B018


def test_signatures_are_as_promised() -> None:
    def parameters(function: object) -> list[str]:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    tokenizer = tokenizer_core.Tokenizer
    assert parameters(tokenizer)[:4] == ["vocab", "merges", "special_tokens", "pattern"]
    assert parameters(tokenizer.encode) == [
        "self", "text", "allowed_special", "on_special", "add_special_tokens",
    ]  # fmt: skip
    assert parameters(tokenizer.encode_ordinary) == ["self", "text"]
    assert parameters(tokenizer.encode_with_offsets)[:2] == ["self", "text"]
    assert parameters(tokenizer.truncate)[:3] == ["self", "text", "max_tokens"]
    assert parameters(tokenizer.explain) == ["self", "text"]
    assert parameters(tokenizer.encode_padded)[:4] == ["self", "texts", "max_length", "pad_id"]
    assert parameters(tokenizer.decode_batch) == ["self", "batch", "errors"]
    assert parameters(tokenizer.decode_stream) == ["self", "errors"]
    assert parameters(tokenizer.is_special) == ["self", "id_"]
    assert parameters(tokenizer.encode_batch)[:3] == ["self", "texts", "threads"]
    assert parameters(tokenizer.encode_iterable)[:2] == ["self", "chunks_of_text"]
    assert parameters(tokenizer.decode) == ["self", "ids", "errors"]
    assert parameters(tokenizer.save) == ["self", "path", "format"]
    assert parameters(tokenizer.load)[:2] == ["path", "format"]
    assert parameters(tokenizer_core.count_words)[:3] == ["paths", "pattern", "special_tokens"]
    assert parameters(tokenizer_core.train_bpe)[:2] == ["counts", "vocab_size"]


def test_every_public_thing_says_what_it_does() -> None:
    for name in tokenizer_core.__all__:
        thing = getattr(tokenizer_core, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for member, value in inspect.getmembers(thing):
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{member}"


def test_importing_the_package_loads_no_compiler() -> None:
    program = "import sys, tokenizer_core, tokenizer_core.errors; print('numba' in sys.modules)"
    beside = Path(tokenizer_core.__file__).parent.parent
    assert output_of(program, cwd=beside) == "False\n"


def test_text_becomes_a_tokenizer_and_ids_and_text_again(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("low lower lowest <|end|> newest widest\n" * 50)
    counts = tokenizer_core.count_words([str(tmp_path / "corpus.txt")], "gpt2", ["<|end|>"])
    tokenizer = tokenizer_core.train_bpe(counts, 270, special_tokens=["<|end|>"])
    assert tokenizer.special_tokens == {"<|end|>": 0}
    text = "the lowest newest <|end|>"
    assert tokenizer.encode(text, "all")[-1] == 0
    tokenizer.save(tmp_path / "kept")
    loaded = tokenizer_core.Tokenizer.load(tmp_path / "kept")
    assert loaded.decode(loaded.encode(text)) == text
    assert loaded.encode(text) == tokenizer.encode(text)
