"""Byte pair compression: every byte comes back, damage is noticed, blocks equal the reference."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core.algorithms import reference
from bpeline.tokenizer_core.algorithms.byte_pair_compression import (
    compress,
    compress_block,
    expand,
)
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

# Few different bytes, so that pairs overlap and nest; sometimes all of them, so that none is free.
CONTENTS = st.one_of(
    st.text("aab", max_size=80).map(str.encode),
    st.lists(st.sampled_from([b"aaa", b"aaab", b"ab", b"\x00", b"\xff\xfe"]), max_size=40).map(
        b"".join
    ),
    st.binary(max_size=200),
    st.binary(max_size=60).map(lambda part: bytes(range(256)) + part * 4),
)


def test_the_example_of_the_papers_readers() -> None:
    block = compress_block(b"ABABCABCD", threshold=2)
    first, second = 255, 254  # the example calls them H and G
    assert block.pairs == {first: b"AB", second: bytes([first]) + b"C"}
    assert block.symbols == bytes([first, second, second]) + b"D"


@settings(max_examples=400, deadline=None)
@given(CONTENTS, st.integers(2, 4))
def test_blocks_equal_the_reference(content: bytes, threshold: int) -> None:
    symbols, pairs = reference.compress_block(content, threshold)
    block = compress_block(content, threshold)
    assert (block.symbols, block.pairs) == (symbols, pairs)
    assert reference.expand_block(symbols, pairs) == content


@settings(max_examples=300, deadline=None)
@given(CONTENTS, st.integers(1, 64), st.integers(2, 4))
def test_every_byte_comes_back(content: bytes, block_bytes: int, threshold: int) -> None:
    assert expand(compress(content, block_bytes, threshold)) == content


def test_text_becomes_smaller(english_and_code: str) -> None:
    content = english_and_code.encode()[:300_000]
    packed = compress(content)
    assert len(packed) < 0.7 * len(content)
    assert expand(packed) == content
    assert expand(compress(bytes(1_000_000))) == bytes(1_000_000)


def test_damage_is_noticed_wherever_it_is() -> None:
    random_ = random.Random(6)
    content = b"".join(random_.choices([b"low ", b"lower ", b"newest "], k=300))
    packed = compress(content, block_bytes=400)
    for place in random_.sample(range(len(packed)), 200):
        damaged = bytearray(packed)
        damaged[place] ^= 1 << random_.randrange(8)
        with pytest.raises(CorruptFile):
            expand(bytes(damaged))
    for size in [*range(60), *random_.sample(range(len(packed)), 60)]:
        with pytest.raises(CorruptFile):
            expand(packed[:size])
    with pytest.raises(CorruptFile):
        expand(packed + b"\x00")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_foreign_bytes_are_refused(content: bytes) -> None:
    head = compress(b"abababab", 8, 2)[:17]
    for foreign in (content, head + content):
        with pytest.raises(CorruptFile):
            expand(foreign)


@pytest.mark.parametrize(("block_bytes", "threshold"), [(0, 3), (1 << 25, 3), (10, 1)])
def test_settings_out_of_range_are_refused(block_bytes: int, threshold: int) -> None:
    with pytest.raises(InvalidOption):
        compress(b"a", block_bytes, threshold)
