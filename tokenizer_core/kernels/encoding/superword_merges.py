"""Merges across words, and merges of characters."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    LEAST_MERGE_SCRATCH,
    MERGE_SCRATCH,
    merge_symbols,
)
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    END,
    INSIDE,
    LAST,
    UNKNOWN,
)
from bpeline.tokenizer_core.kernels.memory import addresses as memory
from bpeline.tokenizer_core.kernels.memory.records import one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import decode
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, HashKey, key_in, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    PairTable,
    find_merge,
    pair_key,
    table_of_merges,
)

SEAM_WORDS = 256 * 256 // 64  # uint64: a bit for each pair of bytes

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_SPACE = np.uint8(0x20)

# State of `merge_superwords`.
SUPERWORD_PROGRESS = np.dtype(
    [
        ("span", np.int64),
        ("read", np.int64),  # ids of words
        ("position", np.int64),  # in the text, of the next id; −1: the start of the span
        ("written", np.int64),  # ids
        ("needed", np.int64),  # uint64 of scratch
    ]
)
SuperwordProgress = Annotated[NDArray[Any], one_record(SUPERWORD_PROGRESS)]
DONE, NEEDS_ROOM = 0, 1


@entry_kernel
def find_layers(
    byte_ids: I64s,
    left: I64s,
    right: I64s,
    results: I64s,
    begins: U8s,
    ends: U8s,
    lengths: U32s,
    inside: U64s,
) -> I64:
    """Count the merges before the first one that joins a letter with a space after it.

    Args:
        left, right, results: int64 ``[n]``: ids of the parts and of the result, by rank.
        begins, ends, lengths: by id: receive the first byte, last byte and length of tokens.
        inside: uint64 ``[SEAM_WORDS]``, zero: receives the pairs of adjacent bytes in tokens of
            these merges; all other pairs are seams.
    """
    for byte in range(256):
        begins[byte_ids[byte]] = ends[byte_ids[byte]] = byte
        lengths[byte_ids[byte]] = 1
    for rank in range(len(left)):
        first, second, token = left[rank], right[rank], results[rank]
        before, following = np.int64(ends[first]), begins[second]
        if following == _SPACE and np.int64(ord("a")) <= (before | 0x20) <= np.int64(ord("z")):
            return np.int64(rank)
        memory.mark(inside, (before << 8) | np.int64(following))
        begins[token], ends[token] = begins[first], ends[second]
        lengths[token] = lengths[first] + lengths[second]
    return np.int64(len(left))


@kernel
def _place_of_neighbours(left: I64, right: I64, shift: U64, key: HashKey) -> I64:
    return np.int64(mix(pair_key(left, right), _0, key) >> shift)


@entry_kernel
def note_neighbours(
    left: I64s,
    right: I64s,
    results: I64s,
    begins: U32s,
    ends: U32s,
    neighbours: U64s,
    hash_key: U64s,
) -> None:
    """Record which tokens of words are adjacent in tokens of the second layer.

    Args:
        left, right, results: int64 ``[n]``: the merges of the second layer.
        begins, ends: uint32 by id, initially the ids: receive the first and last tokens of words.
        neighbours: uint64, a power of two, zero: receives a bit per hash of adjacent tokens.
    """
    key, shift = key_in(hash_key), shift_for(64 * neighbours.size)
    for rank in range(len(left)):
        first, second, token = left[rank], right[rank], results[rank]
        last, next_ = np.int64(ends[first]), np.int64(begins[second])
        memory.mark(neighbours, _place_of_neighbours(last, next_, shift, key))
        begins[token], ends[token] = begins[first], ends[second]


@entry_kernel
def mark_pieces(text: U8s, size: I64, cuts: U64s, inside: U64s, pieces: U64s) -> None:
    """Mark pieces of text that are likely to occur again: at cuts and some seams.

    Pieces are those of `gpt2` for ASCII text, joined where there is no seam; other characters count
    as letters.

    Args:
        text: uint8, any bytes, followed by `PADDING` readable ones.
        cuts: uint64 ``[size // 64 + 2]``: pre-token starts.
        inside: see `find_layers`.
        pieces: uint64 like ``cuts``: receives the bitmap.
    """
    base = text.ctypes.data
    pairs = inside.ctypes.data
    letters_before = digits_before = others_before = spaces_before = _0
    for word in range(size // 64 + 1):
        address = base + (word << 6)
        letters = memory.mask_ascii_letters(address) | memory.mask_non_ascii(address)
        digits = memory.mask_ascii_digits(address)
        spaces = memory.mask_spaces(address)
        others = ~(letters | digits | spaces)
        candidates = letters & ~((letters << _1) | letters_before)
        candidates |= digits & ~((digits << _1) | digits_before)
        candidates |= others & ~((others << _1) | others_before)
        after_space = (spaces << _1) | spaces_before
        # The last of several spaces belongs to the next word; so may one in the last byte.
        candidates = (candidates & ~after_space) | (spaces & ~(after_space & (spaces >> _1)))
        letters_before, digits_before = letters >> _63, digits >> _63
        others_before, spaces_before = others >> _63, spaces >> _63
        candidates &= ~cuts[word]
        marks = cuts[word]
        while candidates:
            at = memory.trailing_zeros(candidates)
            bit = candidates & (_0 - candidates)
            candidates ^= bit
            if (word << 6) + at == 0:
                continue
            pair = (np.int64(memory.load_u8(address + at - 1)) << 8) | np.int64(
                memory.load_u8(address + at)
            )
            joined = (memory.load_u64(pairs + 8 * (pair >> 6)) >> np.uint64(pair & 63)) & _1
            marks |= bit & (joined - _1)
        pieces[word] = marks


@entry_kernel
def merge_superwords(
    text: U8s,
    cuts: U64s,
    spans: I64Rows,
    behind: I64s,
    lengths: U32s,
    neighbours: U64s,
    merges: U64s,
    hash_key: U64s,
    scratch: U64s,
    ids: U32s,
    ends: I64s,
    state: SuperwordProgress,
) -> I64:
    """Apply the second layer of merges to the ids of some spans, in place.

    Returns `DONE`, or `NEEDS_ROOM` to be called again with ``needed`` words of scratch. Tests
    compare all three steps with `tokenizer_core.reference.merge_word` of each pre-token.

    Args:
        text, cuts, spans, behind: as in `encode_spans`, which wrote the ids.
        lengths: uint32: bytes of each token of words.
        neighbours: see `note_neighbours`.
        merges: of the second layer, see `table_of_merges`.
        scratch: uint64: `MERGE_SCRATCH` bytes per token that is merged at once.
        ids: uint32: the tokens of words; receives the final ids.
        ends: int64 ``[n]``: the number of ids up to the end of each span; updated.
        state: one `SUPERWORD_PROGRESS`.
    """
    progress, none = state[0], np.int64(0)
    key, shift = key_in(hash_key), shift_for(64 * neighbours.size)
    table = table_of_merges(merges, hash_key)
    first, free = ids.ctypes.data, scratch.ctypes.data
    read, position, written = progress.read, progress.position, progress.written
    for span in range(progress.span, len(spans)):
        last = ends[span] - np.int64(behind[span] >= 0)
        if position < 0:
            position = spans[span, 0]
        while read < last:
            # The longest run of tokens from here on that may merge.
            begin, count = position, np.int64(1)
            token = np.int64(ids[read])
            position += lengths[token]
            while read + count < last and not memory.is_marked(cuts, position):
                following = np.int64(ids[read + count])
                place = _place_of_neighbours(token, following, shift, key)
                if not memory.is_marked(neighbours, place):
                    break
                token = following
                position += lengths[token]
                count += 1
            needed = (MERGE_SCRATCH * count + LEAST_MERGE_SCRATCH) // 8
            if needed > scratch.size:
                progress.span, progress.read, progress.position = span, read, begin
                progress.written, progress.needed = written, needed
                return np.int64(NEEDS_ROOM)
            for i in range(count):
                ids[written + i] = ids[read + i]
            merged_count = count
            if count > 1:
                run = first + 4 * written
                merged_count = merge_symbols(
                    run, none, count, table, none, free, none, none, ZERO, ZERO
                )
            read += count
            written += merged_count
        if behind[span] >= 0:
            ids[written] = ids[read]
            written += 1
            read += 1
        ends[span] = written
        position = np.int64(-1)
    return np.int64(DONE)


# Marks of the end of a word.
UNMARKED, OWN_SYMBOL, JOINED = 0, 1, 2


@kernel
def symbols_of_word(
    word: I64, length: I64, marking: I64, table: PairTable, symbols: I64, ends: I64
) -> I64:
    """Write a word's symbols and where each ends (uint32 both); returns their number."""
    at = np.int64(0)
    count = np.int64(0)
    while at < length:
        character, size = decode(word + at)
        at += size
        kind = LAST if marking == JOINED and at == length else INSIDE
        entry = find_merge(table, kind, character)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + character)
        memory.store_u32(symbols + 4 * count, np.uint32(symbol))
        memory.store_u32(ends + 4 * count, np.uint32(at))
        count += 1
    if marking == OWN_SYMBOL:
        entry = find_merge(table, INSIDE, END)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + END)
        memory.store_u32(symbols + 4 * count, np.uint32(symbol))
        memory.store_u32(ends + 4 * count, np.uint32(length))
        count += 1
    return count


@entry_kernel
def merge_characters(
    text: U8s,
    places: I64s,
    lengths: I64s,
    marking: I64,
    everywhere: I64,
    table: U64s,
    hash_key: U64s,
    unknown: I64,
    scratch: U64s,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> None:
    """Encode words separately.

    Args:
        text: uint8, valid UTF-8 within the words, followed by `PADDING` readable bytes.
        places, lengths: int64 ``[n]``: begin and bytes of each word.
        marking: `UNMARKED`, `OWN_SYMBOL` or `JOINED`.
        everywhere: see `merge_linked`.
        unknown: the id of symbols without one.
        scratch: uint64, `WAITING_SCRATCH` bytes per byte of the longest word and one more.
        ids, ends: uint32, room for the bytes of all words and ``n`` more: receive the ids of the
            pieces of each word, and where they end in the word.
        edges: int64 ``[n + 1]``: receives where the pieces of each word begin.
    """
    base = text.ctypes.data
    pairs = table_of_merges(table, hash_key)
    free = scratch.ctypes.data
    nothing, total = np.int64(0), np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        symbols = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = symbols_of_word(base + places[word], lengths[word], marking, pairs, symbols, stops)
        count = merge_symbols(
            symbols, stops, count, pairs, everywhere, free, nothing, nothing, ZERO, ZERO
        )
        for i in range(count):
            if memory.load_u32(symbols + 4 * i) >= np.uint32(UNKNOWN):
                memory.store_u32(symbols + 4 * i, np.uint32(unknown))
        total += count
        edges[word + 1] = total
