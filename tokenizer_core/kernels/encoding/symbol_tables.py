"""Characters of a word as numbers, and the table that says what a number and a character lead to.

One table serves all algorithms over characters: (left, right) → (rank, result), open addressing as
in `encode_word`. For merges, left and right are token ids; for the alphabet, left is `INSIDE` or
`LAST` and right a code point; for a trie, left is a node and right a code point.
"""

from __future__ import annotations

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import PairTable, put_merge
from bpeline.tokenizer_core.kernels.memory.types import U64, I64s, U64s

INSIDE = 0xFFFF_FFFE  # left of (INSIDE, character) → its token
LAST = 0xFFFF_FFFD  # left of (LAST, character) → its token where it ends a word
END = 0x11_0000  # the end of a word as a character: one beyond Unicode
UNKNOWN = 0x8000_0000  # a symbol that is this plus its character has no token
ROOT, INNER_ROOT = 0, 1  # nodes of a trie where a word begins, and where it goes on inside
NO_TOKEN = 0xFFFF_FFFF  # rank of a trie's node where no token ends


@entry_kernel
def fill_symbol_table(
    left: I64s, right: I64s, ranks: I64s, results: I64s, shift: U64, table: U64s
) -> None:
    """Put rows into a table; of equal (left, right) the first counts.

    Args:
        left, right, ranks, results: int64 ``[n]``.
        shift: uint64, 64 minus the base-2 logarithm of the number of slots.
        table: uint64 ``[2 * slots]``, all ones, at most half full afterwards.
    """
    pairs = PairTable(table.ctypes.data, shift)
    for row in range(len(left)):
        put_merge(pairs, left[row], right[row], ranks[row], results[row])
