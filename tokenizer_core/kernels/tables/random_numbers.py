"""Random numbers that depend on where they stand and on nothing before them; decides nothing.

SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): number n of a stream is its beginning and n steps,
scrambled.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.types import U64

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
