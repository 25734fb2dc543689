"""Encoding of text with marked pre-tokens, through a cache of words."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding import word_cache
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    LEAST_BYTES,
    encode_by_backtracking,
    encode_runs,
    merge_word,
)
from bpeline.tokenizer_core.kernels.memory.addresses import (
    copy_sixteen,
    load_acquire,
    load_u32,
    load_u64,
    store_u32,
)
from bpeline.tokenizer_core.kernels.memory.records import Record, one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ZERO
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable
from bpeline.tokenizer_core.kernels.tables.word_keys import HIGH, LONG, LOW, key_length
from bpeline.tokenizer_core.kernels.tables.word_queue import (
    ENTRIES,
    HIGHS,
    LOWS,
    WORDS,
    Sought,
    next_start,
    queue_words,
)

# State of `encode_spans`, and why it returned.
PROGRESS = np.dtype(
    [
        ("span", np.int64),
        ("position", np.int64),  # in the span; −1: its start
        ("written", np.int64),  # ids
        ("needed", np.int64),  # bytes of the pre-token that returned `NEEDS_SCRATCH`
    ]
)
Progress = Annotated[NDArray[Any], one_record(PROGRESS)]
DONE, NEEDS_SCRATCH, CACHE_IS_FULL = 0, 1, 2


@kernel
def encode_anew(word: I64, length: I64, workspace: Record, target: I64) -> I64:
    """Encode a word that is not cached; returns the number of ids."""
    if workspace.whole != 0:
        whole = word_cache.whole_word(workspace, word, length)
        if whole >= 0:
            store_u32(target, np.uint32(whole))
            return np.int64(1)
    if workspace.trie != 0:
        count = np.int64(0)
        if length >= LEAST_BYTES:
            count = encode_runs(word, length, workspace, target)
        if count == 0:
            count = encode_by_backtracking(word, length, workspace, target)
        return count
    scratch, nothing = workspace.scratch, np.int64(0)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, word_cache.key_of(workspace))
    count = merge_word(
        word, length, workspace.byte_ids, pairs, scratch, nothing, nothing, ZERO, ZERO
    )
    word_cache.copy_ids(scratch, target, count)
    return count


@kernel
def sought_by(workspace: Record) -> Sought:
    """The queue and tables of a workspace."""
    cache = workspace.cache
    max_cached = np.int64(word_cache.LONGEST_KEPT if cache != workspace.cache_end else 0)
    key, longest = word_cache.key_of(workspace), workspace.longest
    long, long_slots = workspace.long, workspace.long_slots
    return Sought(
        workspace.queue, cache, workspace.cache_slots, long, long_slots, key, max_cached, longest
    )


@kernel
def encode_missed(queued: I64, workspace: Record, target: I64) -> I64:
    """Write the ids of a word that is not in its first entry; returns their number."""
    entry = np.int64(load_u64(queued + ENTRIES))
    word = np.int64(load_u64(queued + WORDS))
    low, high = load_u64(queued + LOWS), load_u64(queued + HIGHS)
    if high == ALL:
        return encode_anew(word, np.int64(low), workspace, target)
    length, is_cached = key_length(high), False
    if high >= LONG:
        entry, is_cached = word_cache.find_long(workspace, entry, low, word, length)
    else:
        entry, is_cached = word_cache.find_word(workspace, entry, low, high)
    if is_cached:
        return (
            word_cache.copy_record(entry, target)
            if high >= LONG
            else word_cache.copy_found(workspace, entry, target)
        )
    count = encode_anew(word, length, workspace, target)
    if high >= LONG:
        word_cache.remember_long(workspace, entry, low, word, length, target, count)
    else:
        word_cache.remember(workspace, entry, low, high, target, count)
    return count


@kernel
def write_ids(number: I64, workspace: Record, target: I64) -> I64:
    """Write the ids of the queued words; returns the address after the last id."""
    queued = workspace.queue
    end = queued + 8 * number
    while queued < end:
        entry = np.int64(load_u64(queued + ENTRIES))
        high = load_acquire(entry + HIGH)  # load it first: it guards the rest of the entry
        unlike = high ^ load_u64(queued + HIGHS)
        unlike |= load_u64(entry + LOW) ^ load_u64(queued + LOWS)
        if unlike == ZERO:
            count = np.int64(load_u32(entry + word_cache.COUNT))
            copy_sixteen(entry + word_cache.IDS, target)
        else:
            count = encode_missed(queued, workspace, target)
        target += 4 * count
        queued += 8
    return target


@entry_kernel
def encode_spans(
    text: U8s,
    marks: U64s,
    spans: I64Rows,
    behind: I64s,
    fields: I64s,
    ids: U32s,
    ends: I64s,
    state: Progress,
) -> I64:
    """Encode spans of a text one after the other.

    Returns `DONE`, or why to call again with the same state: `NEEDS_SCRATCH` for a pre-token of
    ``needed`` bytes, `CACHE_IS_FULL` for a larger or an empty cache.

    Args:
        text: uint8, readable `PADDING` bytes beyond the last span.
        marks: uint64 bitmap of pre-token starts.
        spans: int64 ``[n, 2]``: half-open byte ranges.
        behind: int64 ``[n]``: an id to write after each span (a special token), or −1.
        fields: a `WORKSPACE`.
        ids: uint32, room for one id per byte and span and `ROOM` more.
        ends: int64 ``[n]``: receives the number of ids up to the end of each span.
        state: one `PROGRESS`.
    """
    workspace, progress = word_cache.workspace_at(fields.ctypes.data), state[0]
    base = np.int64(text.ctypes.data)
    first = np.int64(ids.ctypes.data)
    target = first + 4 * progress.written
    has_progress = False
    for span in range(progress.span, len(spans)):
        start = progress.position
        if start < 0:
            start = spans[span, 0]
        end = spans[span, 1]
        while start < end:
            full = has_progress and word_cache.is_full(workspace)
            number, after = np.int64(0), start
            if not full:
                number, after = queue_words(base, marks, start, end, sought_by(workspace))
            if number == 0:
                progress.span, progress.position = span, start
                progress.written = (target - first) >> 2
                if full:
                    return np.int64(CACHE_IS_FULL)
                progress.needed = next_start(marks, start, end) - start
                return np.int64(NEEDS_SCRATCH)
            target = write_ids(number, workspace, target)
            start = after
            has_progress = True  # so that each call advances, even if other threads fill the cache
        if behind[span] >= 0:
            store_u32(target, np.uint32(behind[span]))
            target += 4
        ends[span] = (target - first) >> 2
        progress.position = -1
    progress.written = (target - first) >> 2
    return np.int64(DONE)


@entry_kernel
def encode_span(text: U8s, marks: U64s, size: I64, fields: I64s, ids: U32s) -> I64:
    """Encode a text as one span, with enough scratch; see `encode_spans`.

    Returns the number n of ids, or −1 − n if the cache is full: replace it for the next text.
    """
    base, first = np.int64(text.ctypes.data), np.int64(ids.ctypes.data)
    return encode_whole(base, marks, size, word_cache.workspace_at(fields.ctypes.data), first)


@kernel
def encode_whole(base: I64, marks: U64s, size: I64, workspace: Record, first: I64) -> I64:
    """`encode_span`, by addresses of text and ids."""
    target, sought = first, sought_by(workspace)
    start = np.int64(0)
    while start < size:
        number, start = queue_words(base, marks, start, size, sought)
        target = write_ids(number, workspace, target)
    count = (target - first) >> 2
    return -1 - count if word_cache.is_full(workspace) else count
