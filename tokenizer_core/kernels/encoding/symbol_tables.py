"""Characters of a word as numbers, in the table that says what a number and a character lead to.

One table serves all algorithms over characters: (left, right) → (rank, result), as in
`pair_tables.fill_merges`. For merges, left and right are token ids; for the alphabet, left is
`INSIDE` or `LAST` and right a code point; for a trie, left is a node and right a code point.
"""

from __future__ import annotations

INSIDE = 0xFFFF_FFFE  # left of (INSIDE, character) → its token
LAST = 0xFFFF_FFFD  # left of (LAST, character) → its token where it ends a word
END = 0x11_0000  # the end of a word as a character: one beyond Unicode
UNKNOWN = 0x8000_0000  # a symbol that is this plus its character has no token
ROOT, INNER_ROOT = 0, 1  # nodes of a trie where a word begins, and where it goes on inside
NO_TOKEN = 0xFFFF_FFFF  # rank of a trie's node where no token ends
