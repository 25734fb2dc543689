"""What is no tokenizer: vocab, merges and special tokens that contradict each other."""

from __future__ import annotations

import pytest

from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidPattern,
    InvalidSpecialToken,
    InvalidTokenizer,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

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
