"""Numbering of bytes, merges and special tokens, against HuggingFace's alphabet and by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

from bpeline.tokenizer_core import Tokenizer, reference
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidPattern,
    InvalidSpecialToken,
    InvalidTokenizer,
)
from bpeline.tokenizer_core.vocabulary.numbering import (
    TIE_BREAKS,
    SpecialIds,
    byte_order,
    bytes_of_printable,
    from_printable,
    printable_bytes,
    to_printable,
    token_bytes,
    validate_tie_break,
    vocab_from_merges,
)
from bpeline.tokenizer_core.vocabulary.token_table import TokenTable


def test_the_printable_alphabet_is_that_of_huggingface() -> None:
    assert sorted(printable_bytes().values()) == sorted(ByteLevel.alphabet())
    for text in ("Hello wörld\n\t", "日本\u00a0語", "\x00\x7f\u00ad"):
        [(mapped, _)] = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert to_printable(text.encode()) == mapped


def test_printable_text_reads_back_as_the_same_bytes() -> None:
    every = bytes(range(256))
    assert from_printable(to_printable(every)) == every
    assert list(printable_bytes()) == list(range(256))
    assert len(bytes_of_printable()) == 256
    with pytest.raises(KeyError):
        from_printable("a b")  # the space itself stands for no byte


def test_smallest_ids_numbers_bytes_by_printable_character_and_the_others_by_value() -> None:
    order = byte_order("smallest-ids")
    assert list(order) == reference.printable_order()
    assert order[0] == ord("!")
    assert order.index(ord(" ")) > order.index(0xFF)
    assert sorted(order) == list(range(256))
    for tie_break in ("greatest-bytes", "first-seen"):
        assert byte_order(tie_break) == tuple(range(256))


@pytest.mark.parametrize("name", ["", "smallest_ids", "SMALLEST-IDS", "random"])
def test_an_unknown_tie_break_is_refused_with_the_names_of_the_known(name: str) -> None:
    for refuse in (validate_tie_break, byte_order):
        with pytest.raises(InvalidOption) as refusal:
            refuse(name)
        assert all(known in refusal.value.accepted for known in TIE_BREAKS)


def test_special_tokens_come_first_in_the_given_order() -> None:
    left, right = np.array([104, 256]), np.array([105, 33])
    made = vocab_from_merges(left, right, range(256), ["<b>", "<a>"])
    assert made.special_tokens == {"<b>": 0, "<a>": 1}
    assert made.vocab[0] == b"<b>"
    assert made.vocab[2] == b"\x00"
    assert made.vocab[2 + 104] == b"h"
    assert made.vocab[258] == b"hi"
    assert made.vocab[259] == b"hi!"
    assert list(made.vocab) == list(range(260))
    assert list(made.merges) == [(b"h", b"i"), (b"hi", b"!")]
    assert list(made.merges.results) == [258, 259]


def test_special_tokens_come_last_when_asked() -> None:
    left, right = np.array([104]), np.array([105])
    made = vocab_from_merges(left, right, range(256), ["<a>", "é"], "last")
    assert made.special_tokens == {"<a>": 257, "é": 258}
    assert made.vocab[256] == b"hi"
    assert made.vocab[258] == "é".encode()
    assert list(made.merges) == [(b"h", b"i")]
    assert list(made.merges.results) == [256]
    with pytest.raises(InvalidOption):
        vocab_from_merges(left, right, range(256), [], "middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("special_ids", ["first", "last"])
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_a_vocab_is_spelled_as_one_joins_bytes(tie_break: str, special_ids: SpecialIds) -> None:
    order = byte_order(tie_break)
    for case in range(30):
        random_ = random.Random(case)
        merges, tokens = list[tuple[int, int]](), token_bytes([], order)
        while len(merges) < case:
            pair = random_.randrange(len(tokens)), random_.randrange(len(tokens))
            if (joined := tokens[pair[0]] + tokens[pair[1]]) not in tokens:
                merges.append(pair)
                tokens.append(joined)
        specials = ["<a>", "é"][: random_.randrange(3)]
        left, right = np.array(merges, np.int32).reshape(-1, 2).T
        made = vocab_from_merges(left, right, order, specials, special_ids)
        texts = [token.encode() for token in specials]
        everything = texts + tokens if special_ids == "first" else tokens + texts
        assert isinstance(made.vocab, TokenTable)
        assert list(made.vocab.items()) == list(enumerate(everything))
        assert list(made.merges) == [(tokens[a], tokens[b]) for a, b in merges]
        assert [made.vocab[id_] for id_ in made.merges.results.tolist()] == tokens[256:]


def test_two_tokens_of_the_same_bytes_are_kept_for_the_check_that_names_them() -> None:
    left, right = np.array([97, 98, 256, 97]), np.array([98, 99, 99, 257])
    made = vocab_from_merges(left, right, range(256), ["<a>"])
    assert [made.vocab[id_] for id_ in (259, 260)] == [b"abc", b"abc"]
    with pytest.raises(InvalidTokenizer, match=r"259.*260.*b'abc'"):
        Tokenizer(made.vocab, made.merges, made.special_tokens)


@pytest.mark.parametrize("special_ids", ["first", "last"])
def test_a_special_token_that_merges_make_is_refused(special_ids: SpecialIds) -> None:
    with pytest.raises(InvalidSpecialToken, match="'hi'"):
        vocab_from_merges(np.array([104]), np.array([105]), range(256), ["<a>", "hi"], special_ids)


def test_a_token_that_is_too_long_is_named() -> None:
    doubled = np.array([97, *range(256, 272)])  # 2 … 131,072 bytes
    made = vocab_from_merges(doubled, doubled, range(256))
    with pytest.raises(InvalidTokenizer, match=r"272.*131072"):
        Tokenizer(made.vocab, made.merges)


def test_tokens_follow_the_byte_order() -> None:
    tokens = token_bytes([(0, 1)], byte_order("smallest-ids"))
    assert tokens[:2] == [b"!", b'"']
    assert tokens[256] == b'!"'


# What contradicts itself


BYTES = {byte: bytes([byte]) for byte in range(256)}
AB = (b"a", b"b")


@pytest.mark.parametrize(
    ("vocab", "merges", "specials", "message"),
    [
        (BYTES | {-1: b"ab"}, [], (), "-1"),
        (BYTES | {1 << 24: b"ab"}, [], (), "16777216"),
        (BYTES | {2**70: b"ab"}, [], (), str(2**70)),
        ({True: b"x"} | {i: t for i, t in BYTES.items() if i != 1}, [], (), "True"),
        (BYTES | {"256": b"ab"}, [], (), "'256'"),
        (BYTES | {256.0: b"ab"}, [], (), r"256\.0"),
        (BYTES | {256: "ab"}, [], (), "256.*'ab'"),
        (BYTES | {256: b""}, [], (), "256.* 0 "),
        (BYTES | {256: b"a" * 65_537}, [], (), "65537"),
        (BYTES | {256: b"a"}, [], (), "97.*256.*b'a'"),
        ({i: t for i, t in BYTES.items() if i > 1}, [], (), "0x00, 0x01"),
        ([b"a"], [], (), "list"),
        (BYTES, [AB], (), "merge 0 .*b'ab'"),
        (BYTES | {256: b"ab"}, [(b"ab", b"c")], (), "merge 0 .*b'abc'"),
        (BYTES | {256: b"xyz"}, [(b"xy", b"z")], (), "merge 0 .*b'xy'"),
        (
            BYTES | {256: b"abc", 257: b"ab"},
            [(b"ab", b"c")],
            (),
            "merge 0 .*b'ab'",
        ),
        (BYTES | {256: b"ab"}, [AB, AB], (), "merge 1"),
        (BYTES | {256: b"ab"}, [(b"a", b"b", b"c")], (), "merge 0"),
        (BYTES | {256: b"ab"}, [("a", "b")], (), "merge 0"),
        (BYTES | {256: b"ab"}, [AB], ["ab"], "merge 0 .*b'ab'"),
        (BYTES, [], ["<s>"], "'<s>'"),
        (BYTES | {256: b"<s>"}, [], {"<s>": 257}, "'<s>'"),
        (BYTES | {256: b"<s>"}, [], {"<t>": 256}, "'<t>'"),
        (BYTES, [], ["a"], "'a'"),
    ],
)
def test_what_contradicts_itself_is_refused(
    vocab: dict[int, bytes],
    merges: list[tuple[bytes, bytes]],
    specials: list[str],
    message: str,
) -> None:
    with pytest.raises(InvalidTokenizer, match=message):
        Tokenizer(vocab, merges, specials)


def test_special_tokens_patterns_and_caches_are_checked() -> None:
    with pytest.raises(InvalidSpecialToken, match="'<s>'"):
        Tokenizer(BYTES | {256: b"<s>"}, [], ["<s>", "<s>"])
    with pytest.raises(InvalidPattern):
        Tokenizer(BYTES, [], (), "(")
    with pytest.raises(InvalidOption, match="cache"):
        Tokenizer(BYTES, [], cache_words=-1)


def test_a_merge_bomb_is_refused_before_anything_grows() -> None:
    tokens = [b"a" * 2**power for power in range(17)]
    merges = [(token, token) for token in tokens]  # the last one makes 128 KiB
    vocab = BYTES | {256 + i: token for i, token in enumerate(tokens[1:])}
    with pytest.raises(InvalidTokenizer, match="merge 16 "):
        Tokenizer(vocab, merges)
    assert Tokenizer(vocab, merges[:-1]).encode("a" * 2**16) == [256 + 15]
