"""BPE over characters with bytes for unknown ones: the ids of `tokenizers`, text by text."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe import (
    WHOLE_TEXT,
    SentencePieceBpe,
    coders,
)
from bpeline.tokenizer_core.errors import InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

tokenizers = pytest.importorskip("tokenizers")

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SENTENCES = [
    "▁the▁cat▁sat▁on▁the▁mat,▁and▁the▁dog▁sat▁there▁too.",
    "▁▁▁▁indented▁code:▁if▁(a▁==▁b)▁{▁return▁▁x;▁}",
    "▁naïve▁café,▁déjà▁vu▁–▁œuvre▁façade▁über▁Straße",
    "▁привет▁мир▁и▁привет▁всем▁людям▁мира",
    "▁今天天气很好▁今天很热▁天气▁東京都に住んでいます",
    "▁😀😁▁😀😀▁👍🏽▁👨‍👩‍👧▁🇩🇪",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabaaaaaaaaaaaaaabbbbbbbabababab",
]
STRANGE = [
    *("", "▁", "\0", "☃", "☃☃☃", "☃a☃☃b", "\U0010ffff", "\ue000x", "ß", "€", "\x7f\x80\x9f", "ÿ"),
    *("<0x0A>", "<unk>", "a\nb\r\n\tc", "▁" * 70, "a" * 300, "今" * 200, "☃" * 90),
]


def trained(texts: Iterable[str], vocab_size: int, **asked: Any) -> Any:
    """A tokenizer that `tokenizers` trains, as its JSON."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    pattern = asked.pop("pre_tokenizer", None)
    if pattern:
        made.pre_tokenizer = pattern
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, special_tokens=asked.pop("specials", [])
    )
    made.train_from_iterator(texts, trainer)
    described = json.loads(made.to_str())
    described["model"] |= asked
    return described | {"added_tokens": []}


def theirs_and_ours(described: Any, pattern: str | None = None) -> tuple[Any, Any]:
    """The tokenizer of `tokenizers`, and our encoder."""
    model = described["model"]
    merges = [tuple(part.encode() for part in merge) for merge in model["merges"]]
    algorithm = SentencePieceBpe(
        bool(model["byte_fallback"]), model["unk_token"], bool(model["fuse_unk"])
    )
    spec = TokenizerSpec.checked(
        {id_: token.encode() for token, id_ in model["vocab"].items()},
        merges,
        pattern=pattern,
        algorithm=algorithm,
    )
    spec = replace(spec, ignore_merges=model["ignore_merges"])
    return tokenizers.Tokenizer.from_str(json.dumps(described)), coders(spec)[0]


def random_texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    pool = "".join(SENTENCES) + "☃\0\n<0x>ÿ€\U0001f9ff"
    made = []
    for _ in range(count):
        parts = []
        for _ in range(chance.randrange(1, 12)):
            sentence = chance.choice(SENTENCES)
            begin = chance.randrange(len(sentence))
            part = sentence[begin : begin + chance.randrange(1, 12)]
            parts.append(chance.choice((part, part, chance.choice(pool) * chance.randrange(1, 6))))
        made.append("".join(parts))
    return made


def agree(described: Any, texts: Sequence[str], pattern: str | None = None) -> None:
    theirs, ours = theirs_and_ours(described, pattern)
    for text in texts:
        expected = theirs.encode(text, add_special_tokens=False).ids
        content = text.encode()
        assert ours.encode_whole(Text.of(content)).tolist() == expected, text
        if len(content) <= 2048:
            assert ours.encode_short(content) == expected, text
    joined = Text.of("".join(texts).encode())
    ends = np.cumsum([len(text.encode()) for text in texts])
    spans = np.stack((np.append(0, ends[:-1]), ends), axis=1)
    behind = np.where(np.arange(len(texts)) % 3 == 0, 1, -1)
    ids, stops = ours.encode(joined, spans, behind)
    for i, (first, last) in enumerate(zip([0, *stops[:-1]], stops, strict=True)):
        expected = theirs.encode(texts[i], add_special_tokens=False).ids
        assert ids[first:last].tolist() == expected + [1] * (i % 3 == 0), texts[i]


WITH_BYTES = {"byte_fallback": True, "specials": ["<unk>", "<s>", *BYTES], "unk_token": "<unk>"}
KINDS: dict[str, dict[str, Any]] = {
    "bytes": WITH_BYTES,
    "bytes, all fused": WITH_BYTES | {"fuse_unk": True},
    "unknown": {"specials": ["<unk>", "<s>"], "unk_token": "<unk>"},
    "unknown, fused": {"specials": ["<unk>", "<s>"], "unk_token": "<unk>", "fuse_unk": True},
    "no bytes to fall back on": {"specials": ["?", "<unk>"], "byte_fallback": True,
                                 "unk_token": "<unk>", "fuse_unk": True},
    "left out": {"specials": ["?", "!"], "unk_token": None},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [60, 130, 400])
def test_ids_are_those_of_tokenizers(kind: str, size: int) -> None:
    asked = dict(KINDS[kind])
    described = trained(SENTENCES[: 3 + size % 7], size + len(asked["specials"]), **asked)
    agree(described, [*STRANGE, *SENTENCES, *random_texts(200, size)])


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_pattern_are_encoded_by_themselves(kind: str) -> None:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex("▁[^▁]*|[ab]+"), "isolated")
    asked = dict(KINDS[kind]) | {"pre_tokenizer": split}
    described = trained(SENTENCES, 300 + len(asked["specials"]), **asked)
    agree(described, [*STRANGE, *SENTENCES, *random_texts(200, 1)], "▁[^▁]*|[ab]+")


@pytest.mark.parametrize("kind", ["bytes", "unknown", "unknown, fused", "left out"])
def test_text_between_words_is_dropped_where_the_pattern_does(kind: str) -> None:
    asked = dict(KINDS[kind]) | {"pre_tokenizer": tokenizers.pre_tokenizers.WhitespaceSplit()}
    texts = [text.replace("▁", " ") for text in [*SENTENCES, *STRANGE, *random_texts(100, 5)]]
    described = trained(texts[:6], 200 + len(asked["specials"]), **asked)
    agree(described, [text for text in texts if "\x7f" not in text], "whitespace")


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_taken_whole_where_merges_are_ignored(kind: str) -> None:
    asked = dict(KINDS[kind])
    described = trained(SENTENCES[:4], 200 + len(asked["specials"]), **asked)
    described["model"]["ignore_merges"] = True
    whole = ["▁the▁tea", "aaab", "▁▁▁▁▁▁▁", "▁мiр", "☃☃"]
    described["model"]["vocab"] |= {token: 5000 + i for i, token in enumerate(whole)}
    if kind == "left out":  # "aa☃ab" is not taken whole, and without ☃ it would be
        with pytest.raises(InvalidTokenizer, match="'▁the▁tea'"):
            agree(described, whole)
        return
    agree(described, [*STRANGE, *whole, "▁the▁teas", "the", *random_texts(50, 2)])


def several_merges_of_one_piece() -> Any:
    """A vocab in which every piece is made by all its splits, as SentencePiece's models mean it."""
    described = trained(SENTENCES, 420, **WITH_BYTES)
    vocab = described["model"]["vocab"]
    chance = random.Random(0)
    for _ in range(400):
        sentence = chance.choice(SENTENCES)
        begin = chance.randrange(len(sentence))
        vocab.setdefault(sentence[begin : begin + chance.randrange(2, 6)], len(vocab))
    described["model"]["merges"] = [
        (piece[:at], piece[at:])
        for piece in vocab
        if piece not in BYTES
        for at in range(1, len(piece))
        if piece[:at] in vocab and piece[at:] in vocab
    ]
    return described


def test_a_piece_may_be_made_by_several_merges() -> None:
    described = several_merges_of_one_piece()
    made = [left + right for left, right in described["model"]["merges"]]
    assert len(set(made)) < len(made)
    agree(described, [*STRANGE, *SENTENCES, *random_texts(300, 3)])


def test_merges_in_any_order_with_parts_that_nothing_makes() -> None:
    described = several_merges_of_one_piece()
    merges = described["model"]["merges"]
    for seed in range(5):
        random.Random(seed).shuffle(merges)
        described["model"]["merges"] = merges[: len(merges) // 2] + merges[:3]
        agree(described, [*SENTENCES, *random_texts(60, seed)])


def test_a_text_without_any_cut_is_merged_as_one() -> None:
    described = trained(SENTENCES, 330, **WITH_BYTES)
    theirs, ours = theirs_and_ours(described)
    chance = random.Random(0)
    text = "".join(chance.choice("ab") for _ in range(20_000))
    assert ours.encode_short(text[:2000].encode()) == theirs.encode(text[:2000]).ids
    assert ours.encode_whole(Text.of(text.encode())).tolist() == theirs.encode(text).ids


def spec_of(
    tokens: Sequence[str], merges: Sequence[tuple[str, str]], algorithm: SentencePieceBpe
) -> TokenizerSpec:
    return TokenizerSpec.checked(
        {id_: token.encode() for id_, token in enumerate(tokens)},
        [(left.encode(), right.encode()) for left, right in merges],
        algorithm=algorithm,
    )


def test_an_unknown_token_that_the_vocab_lacks_is_an_error_where_it_is_needed() -> None:
    algorithm = SentencePieceBpe(byte_fallback=False, unknown="")
    encoder, decoder = coders(spec_of(["a", "b", "ab"], [("a", "b")], algorithm))
    assert encoder.encode_short(b"aab") == [0, 2]
    with pytest.raises(UnknownToken):
        encoder.encode_short(b"abc")
    assert decoder.decode([0, 2]) == b"aab"


def test_neighbours_of_characters_that_are_left_out_merge() -> None:
    algorithm = SentencePieceBpe(byte_fallback=False, unknown=None)
    encoder, _ = coders(spec_of(["a", "b", "ab"], [("a", "b")], algorithm))
    assert encoder.encode_short("☃a☃☃b☃".encode()) == [2]
    assert [ids.tolist() for ids in encoder.encode_words([b"a", b"xx", b"axb"])] == [
        [0, 2],
        [1, 1, 2],
    ]


@pytest.mark.parametrize(
    ("tokens", "merges", "said"),
    [
        (["a", *BYTES[:10]], [], r"\b246\b"),
        (["a", *BYTES, "<0x0A>a"], [("<0x0A>", "a")], "<0x0A>"),
    ],
)
def test_what_cannot_be_encoded_exactly_is_refused(
    tokens: list[str], merges: list[tuple[str, str]], said: str
) -> None:
    with pytest.raises(InvalidTokenizer, match=said):
        coders(spec_of(tokens, merges, SentencePieceBpe()))


def test_tokens_that_are_not_text_are_refused() -> None:
    spec = TokenizerSpec.checked({0: b"\xff"}, [], algorithm=SentencePieceBpe())
    with pytest.raises(InvalidTokenizer, match="UTF-8"):
        coders(spec)


@pytest.mark.parametrize("unknown", ["<unk>", "", None])
def test_the_value_is_read_from_its_description(unknown: str | None) -> None:
    value = SentencePieceBpe(False, unknown, False, True, (3, 4), ("<sep>",))
    described = {key: kept for key, kept in value.described().items() if key != "name"}
    assert SentencePieceBpe.of_description(described) == value
    assert SentencePieceBpe.of_description(described | {"unknown": 3}) is None
    assert SentencePieceBpe.of_description(described | {"fuse_unknown": 1}) is None
    assert SentencePieceBpe.of_description(described | {"ties": ["3"]}) is None
    assert SentencePieceBpe.of_description(described | {"user_defined": "<sep>"}) is None
    assert SentencePieceBpe.of_description(json.loads(json.dumps(described))) == value
    assert SentencePieceBpe.of_description(described | {"more": 1}) is None


def merged_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """The neighbours whose text has the greatest score first, leftmost of equals."""
    symbols = list(text)
    while True:
        joined = [scores.get(left + right, -math.inf) for left, right in pairwise(symbols)]
        best = max(joined, default=-math.inf)
        if best == -math.inf:
            return symbols
        at = joined.index(best)
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]


@pytest.mark.parametrize("seed", range(8))
def test_tokens_have_ranks_and_some_have_the_same(seed: int) -> None:
    chance = random.Random(seed)
    tokens = list("▁abcé")
    while len(tokens) < 60:
        token = chance.choice(tokens) + chance.choice(tokens)
        if token not in tokens and len(token) < 8:
            tokens.append(token)
    scores = {token: float(-chance.randrange(12)) for token in tokens if len(token) > 1}
    ranked = sorted(scores, key=lambda token: -scores[token])
    merges = [
        (token[:at], token[at:])
        for token in ranked
        for at in range(1, len(token))
        if token[:at] in tokens and token[at:] in tokens
    ]
    ties = [i for i in range(1, len(ranked)) if scores[ranked[i]] == scores[ranked[i - 1]]]
    value = SentencePieceBpe(byte_fallback=False, by_piece=True, ties=tuple(ties))
    encoder, _ = coders(spec_of(tokens, merges, value))
    for size in [*range(1, 60), 100, 200, 500]:
        text = "".join(chance.choice("▁aabbcé") for _ in range(size))
        expected = [tokens.index(token) for token in merged_by_score(text, scores)]
        assert encoder.encode_short(text.encode()) == expected


def test_user_defined_tokens_are_found_first_and_never_merge() -> None:
    tokens = ["a", "b", "ab", "abab", "<sep>", "aba"]
    merges = [("a", "b"), ("ab", "ab")]
    value = SentencePieceBpe(False, None, user_defined=("<sep>", "aba"))
    encoder, _ = coders(spec_of(tokens, merges, value))
    assert encoder.encode_short(b"abab<sep>bab<sep>") == [5, 1, 4, 1, 2, 4]
    text = Text.of(b"aabb<sep>aba")
    ids, ends = encoder.encode(text, np.array([[1, 9], [9, 9], [9, 12]]), np.array([3, 0, -1]))
    assert (ids.tolist(), ends.tolist()) == ([2, 1, 4, 3, 0, 5], [4, 5, 6])
    assert encoder.encode(text, np.empty((0, 2), np.int64), np.empty(0, np.int64))[0].size == 0
    with pytest.raises(InvalidTokenizer, match="'<x>'"):
        coders(spec_of(tokens, merges, SentencePieceBpe(False, None, user_defined=("<x>",))))


def test_text_is_not_cut_where_no_pattern_is_named() -> None:
    assert spec_of(["a"], [], SentencePieceBpe()).pattern.regex == WHOLE_TEXT
