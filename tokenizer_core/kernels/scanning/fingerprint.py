"""A 64-bit fingerprint of stretches of text, for choices that must not depend on order."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, U8s, U64s

ONE = np.uint64(1)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)  # the multipliers of SplitMix64's finalizer
SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def scramble(value: U64) -> U64:
    """SplitMix64's finalizer: a bijection in which every bit depends on every bit."""
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def _stir(state: U64, address: I64) -> U64:
    return scramble(state ^ load_u64(address)) + GOLDEN


@kernel
def _finished(state: U64, address: I64, end: I64) -> U64:
    """The fingerprint of a stretch whose bytes before ``address`` are in ``state`` already."""
    while address + 8 <= end:
        state = _stir(state, address)
        address += 8
    if address < end:
        kept = (ONE << np.uint64(8 * (end - address))) - ONE
        state = scramble(state ^ (load_u64(address) & kept)) + GOLDEN
    return scramble(state)


@kernel
def fingerprint(begin: I64, end: I64) -> U64:
    """That of the bytes between two addresses of a padded text, see `fingerprint_spans`."""
    return _finished(np.uint64(end - begin) * GOLDEN, begin, end)


@entry_kernel
def fingerprint_spans(text: U8s, spans: I64Rows, fingerprints: U64s) -> None:
    """``fingerprints[i]`` (uint64) of the bytes ``spans[i]`` (int64 ``[n, 2]``) of a padded text.

    Eight bytes at a time, little-endian, the last ones padded with zeros; the length is the seed,
    so padding cannot be mistaken for content. Each step waits for the one before it, so three
    spans go side by side as far as the shortest of them reaches.
    """
    base = text.ctypes.data
    number = len(spans)
    for index in range(0, number, 3):
        second, third = min(index + 1, number - 1), min(index + 2, number - 1)
        a, a_end = base + spans[index, 0], base + spans[index, 1]
        b, b_end = base + spans[second, 0], base + spans[second, 1]
        c, c_end = base + spans[third, 0], base + spans[third, 1]
        one = np.uint64(a_end - a) * GOLDEN
        two = np.uint64(b_end - b) * GOLDEN
        three = np.uint64(c_end - c) * GOLDEN
        together = min(a_end - a, b_end - b, c_end - c) & ~7
        for done in range(0, together, 8):
            one, two, three = _stir(one, a + done), _stir(two, b + done), _stir(three, c + done)
        fingerprints[index] = _finished(one, a + together, a_end)
        fingerprints[second] = _finished(two, b + together, b_end)
        fingerprints[third] = _finished(three, c + together, c_end)
