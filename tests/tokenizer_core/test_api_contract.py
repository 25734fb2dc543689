"""Every door to the tokenizer, on tempting texts: all give the ids of `encode`, and the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from bpeline.tokenizer_core.encoding.batch_encoding import pad
from bpeline.tokenizer_core.encoding.encoding_memory import SHORT_TEXT
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, UnknownToken
from bpeline.tokenizer_core.text import utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

END, A, AB = "<|endoftext|>", "<|a|>", "<|a|><|b|>"
BYTES = {byte: bytes([byte]) for byte in range(256)}
FAMILY = "👩\u200d👩\u200d👧\u200d👦"  # seven code points, one picture

TEXTS = {
    "empty": "",
    "one NUL": "\x00",
    "NULs between": "a\x00\x00b\x00",
    "4-byte characters": "𝒳🀄𠜎",
    "ZWJ emoji": f"a {FAMILY} b",
    "flags and skin": "🇺🇳👍🏽",
    "lone high surrogate": "a\ud83d b",
    "lone low surrogate": "\udc4d",
    "surrogates in the wrong order": "x\udc4d\ud83dy",
    "a pair of surrogates": "a\ud83d\udc4db",
    "surrogates around a special": f"\ud83d{END}\udc4d",
    "specials at the edges": f"{END}middle{END}",
    "special alone": END,
    "specials without a gap": f"{END}{END}{AB}{A}",
    "the longest special wins": f"x{AB}y{A}",
    "half a special": "<|endof<|endoftext|>text|>",
    "a special of words": "<fim middle> fim middle",
    "byte order mark": "\ufeffbom",
    "line ends": "a\r\n\n\r b\n",
    "white space": " \t\u00a0\u3000\u2028 ",
    "combining marks": "e\u0301\u0301 ｅ\u0301",
    "contractions": "I'll'LL 'tis don't’s",
    "no space in sight": "a" * 5_000,
    "around the limit of short texts": "é x" * (SHORT_TEXT // 4 + 1),
    "just a short text": "a" * SHORT_TEXT,
}
POLICIES: dict[str, Any] = {
    "none": {"allowed_special": "none"},
    "all": {"allowed_special": "all"},
    "some": {"allowed_special": {END, A}},
}


@pytest.fixture(scope="module", params=["gpt2", "cl100k", "o200k", r"\p{L}+|[^\p{L}]{1,3}"])
def tokenizer(request: pytest.FixtureRequest, trained: Callable[..., Tokenizer]) -> Tokenizer:
    return trained(request.param)


texts = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())


def as_encoded(text: str) -> str:
    return utf8_of(text).decode()


@policies
@texts
def test_every_door_gives_the_ids_of_encode(
    tokenizer: Tokenizer, text: str, policy: dict[str, Any]
) -> None:
    ids = tokenizer.encode(text, **policy)
    assert all(type(id_) is int for id_ in ids)
    array = tokenizer.encode_to_numpy(text, **policy)
    assert array.dtype == np.uint32
    assert array.tolist() == ids
    assert tokenizer.encode_to_numpy(utf8_of(text), **policy).tolist() == ids
    assert tokenizer.count(text, **policy) == len(ids)
    assert tokenizer.count(utf8_of(text), **policy) == len(ids)
    assert tokenizer.encode_batch([text, "x", text], 2, **policy)[::2] == [ids, ids]
    assert tokenizer.encode_with_offsets(text, **policy).ids == ids
    for step in (1, 3, 1_000):
        pieces = [text[begin : begin + step] for begin in range(0, len(text), step)]
        assert list(tokenizer.encode_iterable(pieces, **policy)) == ids
    rows, mask = tokenizer.encode_padded([text, "x"], pad_id=0, **policy)
    assert rows[0][mask[0]].tolist() == ids
    assert mask[0].sum() == len(ids)


@texts
def test_ordinary_doors_never_see_a_special_token(
    tokenizer: Tokenizer, text: str, tmp_path: Path
) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.encode_ordinary(text) == ids
    assert not any(tokenizer.is_special(id_) for id_ in ids)
    explained = tokenizer.explain(text)
    assert [id_ for one in explained for id_ in one.ids] == ids
    assert b"".join(one.word for one in explained) == utf8_of(text)
    (tmp_path / "a.txt").write_bytes(utf8_of(text))
    shards = tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "out")
    if text.startswith("\ufeff"):  # of a file it is no text
        ids = tokenizer.encode(text.removeprefix("\ufeff"))
    assert [id_ for document in shards for id_ in document.tolist()] == ids


@policies
@texts
def test_every_door_gives_the_text_back(
    tokenizer: Tokenizer, text: str, policy: dict[str, Any]
) -> None:
    ids = tokenizer.encode(text, **policy)
    expected = as_encoded(text)
    assert tokenizer.decode(ids) == expected
    assert tokenizer.decode(ids, errors="strict") == expected
    assert tokenizer.decode(np.array(ids, np.uint32)) == expected
    assert tokenizer.decode_bytes(ids) == expected.encode()
    assert tokenizer.decode_batch([ids, [], ids]) == [expected, "", expected]
    stream = tokenizer.decode_stream()
    shown = ""
    for id_ in ids:
        shown += stream.feed(id_)
        assert expected.startswith(shown), "no part of a character is ever shown"
    assert shown + stream.flush() == expected
    for id_ in set(ids):
        token = tokenizer.id_to_token(id_)
        name = token.decode() if tokenizer.is_special(id_) else token
        assert tokenizer.token_to_id(name) == id_


@policies
@texts
def test_offsets_show_where_tokens_stand(
    tokenizer: Tokenizer, text: str, policy: dict[str, Any]
) -> None:
    found = tokenizer.encode_with_offsets(text, **policy)
    content = utf8_of(text)
    assert found.byte_offsets.dtype == found.char_offsets.dtype == np.int64
    assert found.byte_offsets.shape == found.char_offsets.shape == (len(found.ids), 2)
    edges = found.byte_offsets.ravel().tolist()
    assert edges[:1] + edges[-1:] == ([0, len(content)] if content else [])
    assert edges[1:-1:2] == edges[2::2], "end to end"
    for id_, (begin, end), (first, last) in zip(
        found.ids, found.byte_offsets.tolist(), found.char_offsets.tolist(), strict=True
    ):
        assert content[begin:end] == tokenizer.id_to_token(id_)
        assert 0 <= first < last <= len(text)
        shown = utf8_of(text[first:last])
        assert content[begin:end] in shown, "the characters hold the token's bytes"
        assert len(shown) - (end - begin) <= 6, "and hardly more"


@policies
@texts
def test_truncation_keeps_a_prefix_that_fits(
    tokenizer: Tokenizer, text: str, policy: dict[str, Any]
) -> None:
    total = tokenizer.count(text, **policy)
    for most in {0, 1, 2, 3, 5, total // 2, total - 1, total, total + 1} - {-1}:
        prefix = tokenizer.truncate(text, most, **policy)
        assert text.startswith(prefix)
        assert tokenizer.count(prefix, **policy) <= most
    assert tokenizer.truncate(text, total, **policy) == text


def test_truncation_inside_a_zwj_emoji_keeps_whole_code_points(tokenizer: Tokenizer) -> None:
    text = f"a {FAMILY} b"
    for most in range(tokenizer.count(text)):
        prefix = tokenizer.truncate(text, most)
        longer = text[: len(prefix) + 1]
        assert "\ufffd" not in prefix
        assert tokenizer.count(longer) > most, "the next character would not fit"


def test_a_pair_of_surrogates_is_truncated_as_one_character() -> None:
    bytes_alone = Tokenizer(BYTES, [])
    text = "a\ud83d\udc4db"
    kept = [bytes_alone.truncate(text, most) for most in range(8)]
    assert kept == ["", *["a"] * 4, text[:3], text, text]
    assert bytes_alone.truncate("\ud83dx", 3) == "\ud83d"


@texts
def test_forbidden_specials_are_refused_at_every_door(tokenizer: Tokenizer, text: str) -> None:
    doors: list[Callable[..., Any]] = [
        tokenizer.encode,
        tokenizer.encode_to_numpy,
        tokenizer.count,
        tokenizer.encode_with_offsets,
        lambda text, **policy: tokenizer.encode_batch([text], **policy),
        lambda text, **policy: list(tokenizer.encode_iterable([text], **policy)),
        lambda text, **policy: tokenizer.truncate(text, 10, **policy),
        lambda text, **policy: tokenizer.encode_padded([text], pad_id=0, **policy),
    ]
    holds_one = any(special in text for special in tokenizer.special_tokens)
    for door in doors:
        if holds_one:
            with pytest.raises(InvalidSpecialToken):
                door(text, on_special="error")
        else:
            door(text, on_special="error")
        with pytest.raises(InvalidSpecialToken):
            door(text, allowed_special={"<no>"})
        with pytest.raises(InvalidOption):
            door(text, on_special="ignore")


@pytest.mark.parametrize("unknown", ["<|no|>", b"\xff\xfe\xfd", "", "zzzzqqqq"])
def test_what_is_no_token_has_no_id(tokenizer: Tokenizer, unknown: str | bytes) -> None:
    with pytest.raises(UnknownToken):
        tokenizer.token_to_id(unknown)
    assert not tokenizer.is_special(-1)
    assert not tokenizer.is_special(1 << 40)


def test_no_texts_are_no_rows(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.decode_batch([]) == []
    assert list(tokenizer.encode_iterable([])) == []
    assert list(tokenizer.encode_iterable(["", ""])) == []
    rows, mask = tokenizer.encode_padded([], pad_id=0)
    assert rows.shape == mask.shape == (0, 0)
    assert tokenizer.encode_padded(["a b c", ""], 2, pad_id=0)[0].shape == (2, 2)
    assert tokenizer.explain("") == []


# Offsets


def test_offsets_are_those_of_huggingface(
    tokenizer: Tokenizer, fuzz_texts: list[str], tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for encoding, text in zip(
        peer.encode_batch(fuzz_texts[:4_000]), fuzz_texts[:4_000], strict=True
    ):
        placed = tokenizer.encode_with_offsets(text, "all")
        assert placed.ids == encoding.ids
        offsets = [tuple(pair) for pair in placed.char_offsets.tolist()]
        assert offsets == encoding.offsets, f"REPRO: {text!r}"
        content = text.encode()
        shown = [content[begin:end] for begin, end in placed.byte_offsets.tolist()]
        assert shown == [tokenizer.vocab[id_] for id_ in placed.ids], f"REPRO: {text!r}"


def test_parts_of_a_character_have_the_offsets_of_the_whole() -> None:
    placed = Tokenizer(BYTES, []).encode_with_offsets("aé👍")
    assert placed.byte_offsets.tolist() == [[i, i + 1] for i in range(7)]
    assert placed.char_offsets.tolist() == [[0, 1], *[[1, 2]] * 2, *[[2, 3]] * 4]


def test_a_pair_of_surrogates_is_two_characters_of_the_text() -> None:
    tokenizer = Tokenizer(BYTES | {256: "é".encode()}, [(b"\xc3", b"\xa9")])
    placed = tokenizer.encode_with_offsets("\ud83d\udc4dé\ud800x\udc4d")
    expected = [*[[0, 2]] * 4, [2, 3], *[[3, 4]] * 3, [4, 5], *[[5, 6]] * 3]
    assert placed.char_offsets.tolist() == expected


def test_ids_far_apart_have_offsets_too() -> None:
    tokenizer = Tokenizer(BYTES | {(1 << 23): b"ab"}, [(b"a", b"b")])
    assert tokenizer.encode_with_offsets("xab").byte_offsets.tolist() == [[0, 1], [1, 3]]


# Rows of one length


BATCH = [[1, 2, 3], [], [4]]


def test_sequences_are_padded_to_the_longest() -> None:
    ids, mask = pad(BATCH, pad_id=9)
    assert ids.dtype == np.uint32
    assert ids.tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    ids, mask = pad(BATCH, pad_id=9, pad_to=4, pad_side="left")
    assert ids.tolist() == [[9, 1, 2, 3], [9] * 4, [9, 9, 9, 4]]
    assert mask.sum(axis=1).tolist() == [3, 0, 1]
    assert not mask[0, 0]


def test_long_sequences_lose_one_of_their_ends() -> None:
    assert pad(BATCH, 2)[0].tolist() == [[1, 2], [0, 0], [4, 0]]
    assert pad(BATCH, 2, cut_side="left")[0].tolist() == [[2, 3], [0, 0], [4, 0]]
    assert pad(BATCH, 0)[0].shape == (3, 0)
    assert pad([], 5)[0].shape == (0, 0)
    assert pad([np.array([5, 6], np.uint32)], 1)[0].tolist() == [[5]]


@pytest.mark.parametrize(
    "wrong",
    [{"max_length": -1}, {"pad_to": -1}, {"max_length": 2, "pad_to": 3}, {"pad_id": -1},
     {"pad_id": 1 << 32}, {"pad_side": "top"}, {"cut_side": ""}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        pad(BATCH, **wrong)  # type: ignore[arg-type]
