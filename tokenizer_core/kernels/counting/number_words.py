"""Each pre-token's word gets a number, distinct words once; then pieces per word become ids.

Knows nothing of how the pieces of a word come about.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64
from bpeline.tokenizer_core.kernels.memory.bitmaps import is_marked
from bpeline.tokenizer_core.kernels.memory.records import one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import key_in, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    HIGH,
    VALUE,
    find_entry,
    put_entry,
    table_shift,
    word_key,
)
from bpeline.tokenizer_core.kernels.tables.word_queue import next_start

# Where `number_words` goes on.
PROGRESS = np.dtype(
    [
        ("span", np.int64),
        ("position", np.int64),  # in the span; −1: its begin
        ("pre_tokens", np.int64),  # numbered so far
        ("words", np.int64),  # distinct ones among them
    ]
)
Progress = Annotated[NDArray[Any], one_record(PROGRESS)]


@entry_kernel
def number_words(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    table: U64s,
    hash_key: U64s,
    limit: I64,
    state: Progress,
    numbers: U32s,
    begins: I64s,
    places: I64s,
    lengths: I64s,
    ends: I64s,
) -> bool:
    """Number the words of pre-tokens in order of sight; False when the table must grow first.

    Args:
        text, starts, dropped, spans: as for `count_marked`.
        table: uint64 ``[4 · 2^b]``, see `word_keys`; zeroed before the first call.
        hash_key: uint64 ``[2]``, the same in all calls: see `HashKey`.
        limit: words that it may hold.
        state: one: see `PROGRESS`; before the first call zeros, and −1 as position.
        numbers, begins: uint32 and int64, room for all pre-tokens: the word of each, its place.
        places, lengths: int64, room for as many words: where each stands first, and its bytes.
        ends: int64 ``[n]``: receives the number of pre-tokens up to the end of each span.
    """
    progress = state[0]
    base = text.ctypes.data
    entries, shift = table.ctypes.data, table_shift(table)
    key = key_in(hash_key)
    seen = progress.pre_tokens
    words = progress.words
    for span in range(progress.span, len(spans)):
        start = progress.position
        if start < 0:
            start = spans[span, 0]
        end = spans[span, 1]
        while start < end:
            if words >= limit:
                progress.span, progress.position = span, start
                progress.pre_tokens, progress.words = seen, words
                return False
            stop = next_start(starts, start, end)
            if dropped.size == 0 or not is_marked(dropped, start):
                low, high = word_key(base + start, stop - start, key)
                mixed = mix(low, high, key)
                entry = find_entry(entries, shift, low, high, mixed, base, base + start)
                if load_u64(entry + HIGH) == np.uint64(0):
                    put_entry(entry, low, high, np.uint64(words), np.uint64(start))
                    places[words] = start
                    lengths[words] = stop - start
                    words += 1
                numbers[seen] = np.uint32(load_u64(entry + VALUE))
                begins[seen] = start
                seen += 1
            start = stop
        ends[span] = seen
        progress.position = -1
    progress.pre_tokens, progress.words = seen, words
    return True


@entry_kernel
def copy_pieces(
    numbers: U32s,
    pre_token_ends: I64s,
    before: I64s,
    behind: I64s,
    pieces: U32s,
    edges: I64s,
    ids: U32s,
    ends: I64s,
) -> None:
    """Write the pieces of each pre-token's word one after the other.

    Args:
        numbers: uint32: the word of each pre-token.
        pre_token_ends: int64 ``[n]``: how many of these lie before the end of each span.
        before, behind: int64 ``[n]``: an id before and behind each span, or −1 for none.
        pieces, edges: of each word, as `merge_characters` writes them.
        ids: uint32, room for all.
        ends: int64 ``[n]``: receives the number of ids up to the end of each span.
    """
    written = np.int64(0)
    pre_token = np.int64(0)
    for span in range(len(pre_token_ends)):
        if before[span] >= 0:
            ids[written] = np.uint32(before[span])
            written += 1
        while pre_token < pre_token_ends[span]:
            word = np.int64(numbers[pre_token])
            for piece in range(edges[word], edges[word + 1]):
                ids[written] = pieces[piece]
                written += 1
            pre_token += 1
        if behind[span] >= 0:
            ids[written] = np.uint32(behind[span])
            written += 1
        ends[span] = written


@entry_kernel
def copy_words(
    text: U8s,
    size: I64,
    numbers: U32s,
    begins: I64s,
    lengths: I64s,
    content: U8s,
    edges: I64s,
    target: U8s,
) -> I64:
    """Write a text with other words in place of its own; returns how many bytes it takes.

    A gap with a line break in it, the first one and the last one stay; any other is one space.

    Args:
        text: uint8. size: its bytes.
        numbers, begins: of each pre-token, as `number_words` writes them.
        lengths: int64: bytes of each word in the text.
        content, edges: uint8 and int64 ``[n_words + 1]``: what is put in place of each word.
        target: uint8, room for all of it and the gaps.
    """
    written = np.int64(0)
    behind = np.int64(0)
    for i in range(len(numbers) + 1):
        begin = begins[i] if i < len(numbers) else size
        stays = i == 0 or i == len(numbers)
        for at in range(behind, begin):
            stays = stays or text[at] == 10
        if stays:
            for at in range(behind, begin):
                target[written] = text[at]
                written += 1
        elif behind < begin:
            target[written] = 32
            written += 1
        if i < len(numbers):
            word = np.int64(numbers[i])
            for at in range(edges[word], edges[word + 1]):
                target[written] = content[at]
                written += 1
            behind = begin + lengths[word]
    return written
