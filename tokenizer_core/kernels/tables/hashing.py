"""Hashes of words and pairs under a key, and random numbers made the same way."""

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
    """What a hash depends on beside what is hashed: two uint64, ``high`` is odd."""

    low: U64
    high: U64


# The key of this process, uint64 [2], as kernels are given it: never as a constant of theirs,
# which would be kept on disk with their machine code.
HASH_KEY: U64s = np.array([secrets.randbits(64), secrets.randbits(64) | 1], np.uint64)


@kernel
def key_in(numbers: U64s) -> HashKey:
    """The key as Python hands it over: `HASH_KEY`."""
    return HashKey(numbers[0], numbers[1])


@kernel
def mix(low: U64, high: U64, key: HashKey) -> U64:
    """64 bits that all depend on all bits of two numbers and the key.

    Tables use the highest, the one of words met before the lowest.
    Two pairs of numbers meet where the products of both numbers, each XOR a number that nobody
    knows, agree in some bits. One number alone has 0 for ``high``.
    """
    return folded_product(low ^ key.low, high ^ key.high)


@kernel
def shift_for(slots: I64) -> U64:
    """How far to shift a hash so that it numbers the entries of a table of so many."""
    return np.uint64(leading_zeros(np.uint64(slots)) + 1)


@kernel
def next_slot(slot: U64, shift: U64) -> U64:
    """The number of the entry that is looked at after another."""
    return (slot + ONE) & (ALL >> shift)


STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def scramble(number: U64) -> U64:
    """64 bits, each of which depends on all bits of ``number``; different for different numbers.

    Args:
        number: uint64, one in a kernel, or an array of any shape in Python.
    """
    number = (number ^ (number >> _30)) * _FIRST
    number = (number ^ (number >> _27)) * _SECOND
    return number ^ (number >> _31)


scrambled = kernel(scramble)
