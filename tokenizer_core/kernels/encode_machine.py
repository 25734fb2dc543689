"""The memory of one encoding thread as a list of addresses: what each place in it means.

A machine is int64 ``[MACHINE]``. Kernels get it as one argument instead of a dozen arrays, and
read from it what they need.
"""

from __future__ import annotations

BYTE_IDS = 0  # address of uint32 [256]: the id of each byte
PAIRS = 1  # address of the pair table, see `encode_word.fill_pair_table`
SHIFT = 2  # its shift
WHOLE = 3  # address of the table of whole words, or 0: see `whole_words`
WHOLE_SHIFT = 4  # its shift
WHOLE_TEXT = 5  # address of the bytes of these words
CACHE = 6  # address of the entries for short words: see `word_cache`
SLOTS = 7  # how many there are: a power of two, or 0
LONG_CACHE = 8  # address of as many entries for long words
ARENA = 9  # address of their bytes and ids
ARENA_BYTES = 10
ARENA_USED = 11
SCRATCH = 12  # address of scratch for `encode_word.merge_word`
LONGEST = 13  # bytes of the longest word it is enough for

MACHINE = 14
