"""The layout kernels rely on, and the native UTF-8 verdict against Python's strict decoder."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.text import Text, invalid_utf8_at

# First, last and neighbouring values of every range that the definition of UTF-8 names.
EDGES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")


def python_verdict(content: bytes) -> int:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def verdict(content: bytes) -> int:
    return invalid_utf8_at(Text.of(content))


@pytest.mark.parametrize("content", [b"", b"a", bytes(range(256)) * 3], ids=len)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_a_text_is_its_bytes_with_zeros_behind(content: bytes, buffer: type) -> None:
    text = Text.of(buffer(content))
    assert text.size == len(content)
    assert text.data.shape == (len(content) + PADDING,)
    assert text.data.flags.writeable
    assert text.data.flags.c_contiguous
    assert text.data.tobytes() == content + bytes(PADDING)


def test_bytes_never_reach_into_the_padding() -> None:
    text = Text.of(b"word")
    assert text.bytes() == b"word"
    assert text.bytes(1) == b"ord"
    assert text.bytes(1, 3) == b"or"
    assert text.bytes(2, 100) == b"rd"


def test_a_text_does_not_change_with_its_origin() -> None:
    origin = bytearray(b"word")
    text = Text.of(origin)
    origin[0] = 0
    assert text.bytes() == b"word"


def test_every_sequence_of_one_or_two_bytes_is_judged_as_python_does() -> None:
    for first in range(256):
        assert verdict(bytes([first])) == python_verdict(bytes([first]))
        for second in range(256):
            content = bytes([first, second])
            assert verdict(content) == python_verdict(content), content


@pytest.mark.parametrize("length", [3, 4])
def test_long_sequences_at_the_edges_of_every_range_are_judged_as_python_does(length: int) -> None:
    leads = [byte for byte in EDGES if byte >= 0xC0] if length == 4 else EDGES
    refused = 0
    for lead, *rest in itertools.product(leads, *[EDGES] * (length - 1)):
        content = bytes([lead, *rest])
        if length == 4 and rest[2] not in (0x41, 0x80, 0xBF):
            continue
        expected = python_verdict(content)
        refused += expected >= 0
        assert verdict(content) == expected, content
    assert refused > 1000


def test_faults_are_found_across_block_edges() -> None:
    faults = (b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xff")
    for filler in ("a", "é", "漢", "😀", "aé"):
        for fault in faults:
            for count in range(70):
                before = (filler * count).encode()
                for after in (b"", b"a", "é".encode()):
                    content = before + fault + after
                    assert verdict(content) == len(before) == python_verdict(content)


def test_a_character_is_not_completed_by_what_lies_behind_the_text() -> None:
    whole = Text.of("aé".encode())
    assert invalid_utf8_at(Text(whole.data, 2)) == 1
    assert invalid_utf8_at(whole) == -1


@settings(deadline=None)  # the first example may compile
@given(st.lists(st.one_of(st.text(max_size=90).map(str.encode), st.binary(max_size=4)), max_size=4))
def test_hyp_any_bytes_are_judged_as_python_does(parts: list[bytes]) -> None:
    content = b"".join(parts)
    assert verdict(content) == python_verdict(content)


def test_long_valid_text_is_valid_and_one_flipped_byte_is_found() -> None:
    generator = random.Random(11)
    content = bytearray("".join(generator.choices("ab é漢😀\n", k=40_000)).encode())
    assert verdict(content) == -1
    for position in generator.sample(range(len(content)), 50):
        broken = bytearray(content)
        broken[position] = 0xFF
        expected = python_verdict(bytes(broken))
        assert expected >= 0
        assert verdict(broken) == expected
    assert np.count_nonzero(np.frombuffer(content, np.uint8) >= 0x80) > 1000
