"""Keyed hashes of words and pairs, and pseudo-random numbers."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import folded_product, leading_zeros
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s

ZERO, ONE = np.uint64(0), np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class HashKey(NamedTuple):
    """The secret of a hash: two uint64, ``high`` is odd."""

    low: U64
    high: U64


# The key of this process, uint64 [2]. Kernels take it as an argument: a constant would be stored
# on disk with their machine code.
HASH_KEY: U64s = np.array([secrets.randbits(64), secrets.randbits(64) | 1], np.uint64)


@kernel
def key_in(numbers: U64s) -> HashKey:
    return HashKey(numbers[0], numbers[1])


@kernel
def mix(low: U64, high: U64, key: HashKey) -> U64:
    """Hash two numbers to 64 bits that all depend on every bit of both and of the key.

    Hash tables index by the highest bits, the word cache by the lowest. Pass 0 for ``high`` to
    hash a single number.
    """
    return folded_product(low ^ key.low, high ^ key.high)


@kernel
def shift_for(slots: I64) -> U64:
    """How far to shift a hash right to get an index into ``slots`` entries."""
    return np.uint64(leading_zeros(np.uint64(slots)) + 1)


@kernel
def next_slot(slot: U64, shift: U64) -> U64:
    """The index that linear probing tries next."""
    return (slot + ONE) & (ALL >> shift)


STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def scramble(number: U64) -> U64:
    """Mix the bits of uint64 (a number or array): SplitMix64's finalizer, a bijection."""
    number = (number ^ (number >> _30)) * _FIRST
    number = (number ^ (number >> _27)) * _SECOND
    return number ^ (number >> _31)


scrambled = kernel(scramble)
