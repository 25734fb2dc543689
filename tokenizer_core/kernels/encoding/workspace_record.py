"""What a kernel that encodes is given: addresses of tables, of the cache and of scratch, by name.

Kernels get it as one argument instead of two dozen, and read from it what they need: as an int64
array of all fields, see `record_at`. Knows nothing of what lies at these addresses.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.tables.hashing import HashKey

_ADDRESS, _NUMBER, _BITS = np.int64, np.int64, np.uint64

WORKSPACE = np.dtype(
    [
        # Merges, read by all threads. Where trie is 0 they are not proper, and words are merged.
        ("byte_ids", _ADDRESS),  # uint32 [256]: the id of each byte, for merging
        ("pairs", _ADDRESS),  # the pair table of `token_tables`, or that of `table_of_merges`
        ("pair_shift", _BITS),
        ("tokens", _ADDRESS),  # ids, lengths, parts, …: see `token_tables`
        ("trie", _ADDRESS),  # see `token_trie`; or 0
        ("whole", _ADDRESS),  # the table of whole words, or 0: see `whole_words`
        ("whole_shift", _BITS),
        ("whole_text", _ADDRESS),  # the bytes of these words
        # The tables of words, which threads share: see `word_cache`. All are replaced at once.
        ("cache", _ADDRESS),  # entries of short ones
        ("cache_slots", _BITS),  # those of a hash that say behind how many bytes a search begins
        ("cache_end", _ADDRESS),  # behind them; as `cache` where nothing is remembered
        ("cache_used", _ADDRESS),  # int64: words in it
        ("cache_limit", _NUMBER),  # words it may hold
        ("long", _ADDRESS),  # where records of longer ones are; the same of these:
        ("long_slots", _BITS),
        ("long_end", _ADDRESS),
        ("long_used", _ADDRESS),
        ("long_limit", _NUMBER),
        ("arena", _ADDRESS),  # long words, and ids of words that have many
        ("arena_bytes", _NUMBER),
        ("arena_used", _ADDRESS),  # int64: bytes of it in use
        # A thread's own memory.
        ("queue", _ADDRESS),  # the words that are under way: see `word_queue`
        ("scratch", _ADDRESS),  # for `encode_by_backtracking` or `merge_word`
        ("longest", _NUMBER),  # bytes of the longest word that scratch is enough for
        # What places in all tables depend on: see `HashKey`.
        ("key_low", _BITS),
        ("key_high", _BITS),
    ]
)

workspace_at = record_at(WORKSPACE)


@kernel
def key_of(workspace: Record) -> HashKey:
    """What places in all its tables depend on."""
    return HashKey(workspace.key_low, workspace.key_high)
