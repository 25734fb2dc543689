"""Rank files: the ids of tiktoken whatever the ranks, and no split pattern that nobody named."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tiktoken_ext import openai_public

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import ranks as ranks_module
from bpeline.tokenizer_core.formats.ranks import Published, published_as
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer

BYTES = [bytes([byte]) for byte in range(256)]
WHOLE = r"[\s\S]+"  # one pre-token, so that everything may merge


def rank_file(path: Path, tokens: list[bytes]) -> Path:
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    path.write_bytes(b"".join(lines))
    return path


def random_ranks(chance: random.Random) -> list[bytes]:
    """Bytes and longer tokens in any order: of two, of many, or of no merge at all."""
    letters = [b"a", b"b", b"c"][: chance.randint(1, 3)]
    longer = {b"".join(chance.choices(letters, k=chance.randint(2, 7))) for _ in range(25)}
    tokens = [*BYTES, *longer]
    chance.shuffle(tokens)
    return tokens


@pytest.mark.parametrize("number", range(40))
def test_ids_are_those_of_tiktoken_whatever_the_ranks(number: int, tmp_path: Path) -> None:
    chance = random.Random(number)
    tokens = random_ranks(chance)
    peer = tiktoken.Encoding(
        "x", pat_str=WHOLE, special_tokens={},
        mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
    )  # fmt: skip
    ours = Tokenizer.load(rank_file(tmp_path / "x.tiktoken", tokens), pattern=WHOLE)
    texts = ["".join(chance.choices("abc", k=chance.randint(1, 12))) for _ in range(400)]
    texts += ["".join(chance.choices("abc", k=chance.randint(65, 300))) for _ in range(40)]
    for text in (*texts, *(token.decode() for token in tokens if token.isascii())):
        assert ours.encode(text) == peer.encode_ordinary(text), f"REPRO: {number} {text!r}"


def test_a_token_that_no_merge_makes_is_found_where_it_is_a_whole_pre_token(tmp_path: Path) -> None:
    path = rank_file(tmp_path / "x.tiktoken", [*BYTES, b"xyz", b"ab", b"xy"])
    tokenizer = Tokenizer.load(path, pattern="gpt2")
    assert tokenizer.encode("xyz") == [256]
    assert tokenizer.encode("xyzab") == [256, 257], "its parts are made later, and then it is"
    unmade = Tokenizer.load(rank_file(path, [*BYTES, b"xyz"]), pattern="gpt2")
    assert unmade.encode("xyz xyza") == [256, 32, 120, 121, 122, 97]
    unmade.save(tmp_path / "kept")
    assert Tokenizer.load(tmp_path / "kept").encode("xyz xyza") == unmade.encode("xyz xyza")


# Split patterns


def test_a_pattern_that_the_file_does_not_name_is_asked_for(tmp_path: Path) -> None:
    path = rank_file(tmp_path / "x.tiktoken", [*BYTES, b"ab"])
    with pytest.raises(InvalidOption) as refused:
        Tokenizer.load(path)
    assert "pattern='cl100k'" in refused.value.next_step
    assert f"{path},pattern=cl100k" in refused.value.next_step
    assert Tokenizer.load(path, pattern="o200k").pattern.name == "o200k"


def test_published_ranks_are_recognised_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rank_file(tmp_path / "x.tiktoken", [*BYTES, b"ab"])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    ours = Published("toy", "qwen2", {"<|end|>": 300}, "NFC")
    monkeypatch.setitem(ranks_module._PUBLISHED, digest, ours)
    tokenizer = Tokenizer.load(path)
    assert (tokenizer.pattern.name, tokenizer.special_tokens) == ("qwen2", {"<|end|>": 300})
    assert tokenizer.spec.normalizer_name == "NFC"
    assert tokenizer.encode("e\u0301<|end|>") == [*"é<|end|>".encode()], "as by default there"
    assert tokenizer.encode("e\u0301<|end|>", "all") == [*"é".encode(), 300]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert Tokenizer.load(path).digest == tokenizer.digest
    told = {"pattern": "gpt2", "special_tokens": {"<|fin|>": 301}}
    assert Tokenizer.load(path, **told).special_tokens == {"<|fin|>": 301}
    rank_file(path, [*BYTES, b"ab", b"abc"])
    with pytest.raises(InvalidOption, match="pattern"):
        Tokenizer.load(path)


@pytest.mark.parametrize("name", ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"])
def test_what_is_published_is_what_tiktoken_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests: list[str] = []

    def remember(_url: str, expected_hash: str) -> Mapping[bytes, int]:
        digests.append(expected_hash)
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", remember)
    theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    ours = ranks_module._PUBLISHED[digests[0]]
    assert ours.name == name
    assert SplitPattern(theirs["pat_str"]).name == ours.pattern
    assert ours.special_tokens == theirs["special_tokens"]


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    assert published_as(dict(enumerate(BYTES))) is None
    assert all(len(digest) == 64 for digest in ranks_module._PUBLISHED)


def test_ranks_in_a_model_file_are_told_from_sentencepiece(tmp_path: Path) -> None:
    path = rank_file(tmp_path / "tokenizer.model", [*BYTES, b"ab"])
    assert Tokenizer.load(path, pattern="gpt2").encode("ab") == [256]
    path.write_bytes(b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02")
    with pytest.raises(InvalidTokenizer, match="no normal pieces"):
        Tokenizer.load(path)


def test_details_that_a_format_does_not_have_are_refused(tmp_path: Path) -> None:
    path = rank_file(tmp_path / "x.tiktoken", BYTES)
    for told, why in (
        ({"patern": "gpt2"}, "'patern'"),
        ({"pattern": True}, "pattern=VALUE"),
    ):
        with pytest.raises(InvalidOption, match=why):
            Tokenizer.load(path, **told)


# tekken.json


def tekken(path: Path, tokens: list[bytes], specials: int = 4, **changes: Any) -> Path:
    entries = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    named = ["<unk>", "<s>", "</s>"]
    document = {
        "config": {
            "pattern": SplitPattern.named("tekken").regex,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": specials + len(tokens) - 1,
            "default_num_special_tokens": specials,
            "version": "v11",
        },
        "vocab": entries,
        "special_tokens": [
            {"rank": rank, "token_str": token, "is_control": True}
            for rank, token in enumerate(named)
        ],
        **changes,
    }
    path.write_text(json.dumps(document))
    return path


def test_tekken_is_ranks_behind_special_tokens(tmp_path: Path, fuzz_texts: list[str]) -> None:
    tokens = [*BYTES, b" t", b"he", b" the", b"th", "é".encode(), b"not counted"]
    ours = Tokenizer.load(tekken(tmp_path / "tekken.json", tokens))
    peer = tiktoken.Encoding(
        "tekken", pat_str=SplitPattern.named("tekken").regex, special_tokens={},
        mergeable_ranks={token: rank for rank, token in enumerate(tokens[:-1])},
    )  # fmt: skip
    for text in fuzz_texts[:1_000]:
        assert ours.encode(text) == [4 + id_ for id_ in peer.encode_ordinary(text)]
    assert ours.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2, "<SPECIAL_3>": 3}
    assert ours.pattern.name == "tekken"
    other_name = Tokenizer.load(tekken(tmp_path / "mistral.json", tokens))
    assert other_name.digest == ours.digest


def test_older_files_name_no_special_tokens(tmp_path: Path) -> None:
    path = tekken(tmp_path / "tekken.json", [*BYTES, b"x"], 22, special_tokens=None)
    with pytest.raises(InvalidTokenizer, match="v11"):
        Tokenizer.load(path)
    document = json.loads(path.read_text())
    document["config"]["version"] = "v3"
    path.write_text(json.dumps(document))
    names = Tokenizer.load(path).special_tokens
    assert [names[name] for name in ("<pad>", "[TOOL_CONTENT]", "<SPECIAL_21>")] == [11, 19, 21]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"vocab": {}}, "tekken.json"),
        ({"config": {"default_vocab_size": "9"}}, "default_vocab_size 9"),
        ({"vocab": []}, r"\b0\b.*\b260\b"),
        ({"special_tokens": [{"rank": 1, "token_str": "<s>"}]}, "special tokens"),
        ({"special_tokens": [{"rank": 9, "token_str": "<s>"}]}, r"'<s>'.*\b9\b"),
        ({"special_tokens": ["<s>"]}, "None"),
    ],
)
def test_malformed_tekken_files_are_refused(
    changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    path = tekken(tmp_path / "tekken.json", [*BYTES, b"x"], **changes)
    with pytest.raises(InvalidTokenizer, match=why):
        Tokenizer.load(path, "tekken")


def test_a_pattern_that_engines_may_read_differently_is_asked_for(tmp_path: Path) -> None:
    path = tekken(tmp_path / "tekken.json", [*BYTES, b"x"])
    document = json.loads(path.read_text())
    document["config"]["pattern"] = r"\w+|\s"
    document["vocab"][5]["rank"] = 6
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidTokenizer, match="rank 5"):
        Tokenizer.load(path)
    document["vocab"][5]["rank"] = 5
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidTokenizer) as refused:
        Tokenizer.load(path)
    assert f"{path},pattern=" in refused.value.next_step
    assert Tokenizer.load(path, pattern="tekken").pattern.name == "tekken"
