"""The memory of one encoding thread as a list of addresses: what each place in it means.

A machine is int64 ``[MACHINE]``. Kernels get it as one argument instead of a dozen arrays, and
read from it what they need.
"""

from __future__ import annotations

# Merges, read by all threads. Where TRIE is 0 they are not proper, and words are merged.
BYTE_IDS = 0  # address of uint32 [256]: the id of each byte, for merging
PAIRS = 1  # address of the pair table of `token_tables`, or that of `encode_word` for merging
SHIFT = 2  # its shift
SPLITS = 3  # address of the parts of tokens: see `token_tables`
INFOS = 4  # address of ids, lengths and next shorter tokens
ROOTS = 5  # address of the trie's nodes of two bytes
TRIE = 6  # address of the trie's other nodes, or 0
TRIE_SHIFT = 7  # its shift
TOKENS = 8  # how many tokens there are
WHOLE = 9  # address of the table of whole words, or 0: see `whole_words`
WHOLE_SHIFT = 10  # its shift
WHOLE_TEXT = 11  # address of the bytes of these words

# The table of words, which threads share: see `word_cache`. All of it is replaced at once.
CACHE = 12  # address of its entries
CACHE_SHIFT = 13  # its shift
CACHE_END = 14  # the address behind it; that of the table itself where nothing is remembered
COUNTS = 15  # address of int64 [2]: words in it, bytes of the arena in use
LIMIT = 16  # words it may hold
ARENA = 17  # address of long words and of many ids
ARENA_BYTES = 18

# A thread's own memory.
QUEUE = 19  # address of the words that are under way: see `encode_text`
SCRATCH = 20  # address of scratch for `encode_by_backtracking` or `merge_word`
LONGEST = 21  # bytes of the longest word it is enough for

# What places in all tables of words depend on: see `word_keys.HashKey`.
KEY_LOW = 22
KEY_HIGH = 23

MACHINE = 24
