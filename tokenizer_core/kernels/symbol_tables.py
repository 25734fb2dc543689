"""Characters of a word as numbers, and the table that says what a number and a character lead to.

One table serves all algorithms over characters: (left, right) → (rank, result), open addressing as
in `encode_word`. For merges, left and right are token ids; for the alphabet, left is `INSIDE` or
`LAST` and right a code point; for a trie, left is a node and right a code point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.encode_word import Integer, put_merge
from bpeline.tokenizer_core.kernels.memory import load_u8

INSIDE = 0xFFFF_FFFE  # left of (INSIDE, character) → its token
LAST = 0xFFFF_FFFD  # left of (LAST, character) → its token where it ends a word
END = 0x11_0000  # the end of a word as a character: one beyond Unicode
UNKNOWN = 0x8000_0000  # a symbol that is this plus its character has no token
NO_TOKEN = 0xFFFF_FFFF  # rank of a trie's node where no token ends

LOW_32 = np.uint64(0xFFFF_FFFF)
SHIFT_32 = np.uint64(32)


@kernel
def fill_symbol_table(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    ranks: NDArray[np.int64],
    results: NDArray[np.int64],
    shift: Integer,
    table: NDArray[np.uint64],
) -> None:
    """Put rows into a table; of equal (left, right) the first counts.

    Args:
        left, right, ranks, results: int64 ``[n]``.
        shift: uint64, 64 minus the base-2 logarithm of the number of slots.
        table: uint64 ``[2 * slots]``, all ones, at most half full afterwards.
    """
    for row in range(len(left)):
        put_merge(shift, table, left[row], right[row], ranks[row], results[row])


@kernel
def character_size(lead: Integer) -> Integer:
    """Bytes of the UTF-8 character that begins with ``lead``."""
    if lead < 0x80:
        return np.int64(1)
    if lead < 0xE0:
        return np.int64(2)
    if lead < 0xF0:
        return np.int64(3)
    return np.int64(4)


@kernel
def character_at(address: Integer) -> Integer:
    """The code point of the UTF-8 character at an address; what is there is valid."""
    size = character_size(load_u8(address))
    point = np.int64(load_u8(address))
    if size == 1:
        return point
    point &= 0x7F >> size
    for i in range(1, size):
        point = (point << 6) | (np.int64(load_u8(address + i)) & 0x3F)
    return point
