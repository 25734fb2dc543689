"""A 64-bit fingerprint of stretches of text, for choices that must not depend on order."""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import load_u64
from tokenizer_core.kernels.word_keys import U64

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
def fingerprint_spans(text: np.ndarray, spans: np.ndarray, fingerprints: np.ndarray) -> None:
    """``fingerprints[i]`` (uint64) of the bytes ``spans[i]`` (int64 ``[n, 2]``) of a padded text.

    Eight bytes at a time, little-endian, the last ones padded with zeros; the length is the seed,
    so padding cannot be mistaken for content.
    """
    base = text.ctypes.data
    for index in range(len(spans)):
        address, end = base + spans[index, 0], base + spans[index, 1]
        state = np.uint64(end - address) * GOLDEN
        while address + 8 <= end:
            state = scramble(state ^ load_u64(address)) + GOLDEN
            address += 8
        if address < end:
            kept = (ONE << np.uint64(8 * (end - address))) - ONE
            state = scramble(state ^ (load_u64(address) & kept)) + GOLDEN
        fingerprints[index] = scramble(state)
