"""Where special tokens are not allowed, no door finds one, in any text and of any kind."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END, LEFT, RIGHT, TWICE = "<|end|>", "<|left|>", "<|right|>", "<|end|><|end|>"
SPECIAL = (END, LEFT, RIGHT, TWICE)
AROUND = "[x<|end|>y]"  # an added token that is not special, with a special one inside
PARTS = (*SPECIAL, AROUND, "ab", " ", "  \n", "é", "<|en", "d|>", "x")
TEXTS = ["".join(parts) for parts in itertools.product(PARTS, repeat=3)][::7]


def trained() -> Tokenizer:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b"<|"}
    tokens = {258 + number: token.encode() for number, token in enumerate(SPECIAL)}
    return Tokenizer(vocab | tokens, [(b"a", b"b"), (b"<", b"|")], SPECIAL)


def imported(folder: Path) -> tuple[Tokenizer, Path]:
    """A tokenizer.json whose special tokens have flags, and one inside another added token."""
    path = folder / "tokenizer.json"
    trained().save(path, "hf")
    document = json.loads(path.read_text())
    for token in document["added_tokens"]:
        token["lstrip"], token["rstrip"] = token["content"] == LEFT, token["content"] == RIGHT
    around = {**document["added_tokens"][0], "id": 262, "content": AROUND, "special": False}
    document["added_tokens"].append(around)
    path.write_text(json.dumps(document))
    return Tokenizer.load(path), path


@pytest.fixture(params=["trained", "imported", "imported again"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> Tokenizer:
    if request.param == "trained":
        return trained()
    loaded, _ = imported(tmp_path)
    if request.param == "imported":
        return loaded
    loaded.save(tmp_path / "own")
    return Tokenizer.load(tmp_path / "own")


def documents(shards: TokenShards) -> list[list[int]]:
    return [ids.tolist() for ids in shards]


def test_no_door_finds_a_special_token(tokenizer: Tokenizer, tmp_path: Path) -> None:
    ordinary = [tokenizer.encode_ordinary(text) for text in TEXTS]
    specials = set(tokenizer.special_tokens.values())
    assert not any(specials.intersection(ids) for ids in ordinary)
    assert [tokenizer.decode(ids) for ids in ordinary] == TEXTS
    none: dict[str, Any] = {"allowed_special": "none"}
    assert tokenizer.encode_batch(TEXTS, **none) == ordinary
    rows = tmp_path / "texts.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    shards = tokenizer.encode_files(rows, tmp_path / "out", **none)
    assert documents(shards) == ordinary
    assert [ids.tolist() for ids in tokenizer.encode_files_to_numpy(rows, **none)] == ordinary
    for text, ids in zip(TEXTS, ordinary, strict=True):
        assert tokenizer.encode_to_numpy(text, **none).tolist() == ids
        assert tokenizer.encode_to_numpy(text.encode(), **none).tolist() == ids
        assert tokenizer.count(text, **none) == len(ids)
        assert list(tokenizer.encode_iterable([*text], **none)) == ids


def test_ordinary_text_has_the_ids_of_the_library(tmp_path: Path) -> None:
    ours, path = imported(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(path))
    library.encode_special_tokens = True
    expected = [library.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert [ours.encode_ordinary(text) for text in TEXTS] == expected


def test_a_byte_that_only_a_special_token_spells_is_no_ordinary_token(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokens = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, []))
    tokens.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.add_special_tokens([tokenizers.AddedToken(">", normalized=True)])
    tokens.encode_special_tokens = True
    tokens.save(str(path))
    ours = Tokenizer.load(path)
    assert ours.encode_ordinary("a>b") == tokens.encode("a>b").ids == [0, 1]
    assert ours.encode("a>b", "all") == [0, 2, 1]


@pytest.mark.parametrize("allowed", ["all", {END}, {LEFT, TWICE}, None])
def test_files_have_the_ids_of_encode(tokenizer: Tokenizer, tmp_path: Path, allowed: Any) -> None:
    expected = [tokenizer.encode(text, allowed) for text in TEXTS]
    rows = tmp_path / "texts.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    shards = tokenizer.encode_files(rows, tmp_path / "out", allowed_special=allowed)
    assert documents(shards) == expected
    usual = tokenizer.spec.allowed_special if allowed is None else allowed
    is_usual = usual == ("all" if tokenizer.spec.finds_special else "none")
    assert ("allowed_special" in shards.manifest) is not is_usual


def test_shards_of_another_choice_are_not_taken_for_these(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text(f"ab {END} ab")
    for allowed in ("none", "all"):
        shards = tokenizer.encode_files(text, out, allowed_special=allowed)
        assert documents(shards) == [tokenizer.encode(text.read_text(), allowed)]


def test_dropout_takes_no_special_tokens(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("ab")
    with pytest.raises(InvalidOption, match="dropout"):
        trained().encode_files(
            tmp_path / "text.txt", tmp_path / "out", dropout=0.5, allowed_special="all"
        )
