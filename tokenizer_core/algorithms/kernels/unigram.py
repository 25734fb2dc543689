"""Kernels of Unigram tokenization: the best path of a word through its pieces.

T. Kudo, "Subword Regularization", 2018; best path by A. Viterbi, 1967. Between paths of equal score
the ids depend on the order of comparisons and on rounding, so both follow the libraries: a
candidate replaces what ends at the same character only if its score is greater.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding import token_tables
from bpeline.tokenizer_core.kernels.encoding.token_trie import longest_token
from bpeline.tokenizer_core.kernels.memory.types import (
    F64,
    I64,
    F64s,
    I32s,
    I64s,
    U8s,
    U32s,
    U64s,
)

UNKNOWN = token_tables.NOTHING  # index of text that is not a piece
_UNREACHED = -1
_INDEX_BITS = 20
_INDEX_MASK = (1 << _INDEX_BITS) - 1


@kernel
def width_at(text: U8s, at: I64) -> I64:
    byte = text[at]
    if byte < 0x80:
        return np.int64(1)
    return np.int64(2) if byte < 0xE0 else np.int64(3) if byte < 0xF0 else np.int64(4)


@kernel
def reach(place: I64, candidate: F64, link: I64, single: bool, best: F64s, links: I64s) -> None:
    """Record a path that ends at a place if it beats the best one so far."""
    if single:
        candidate = np.float64(np.float32(candidate))
    if links[place] == _UNREACHED or candidate > best[place]:
        best[place] = candidate
        links[place] = link


@kernel
def mark_best(
    text: U8s,
    size: I64,
    trie: U64s,
    tokens: U64s,
    scores: F64s,
    unknown_score: F64,
    single: bool,
    best: F64s,
    links: I64s,
) -> None:
    """For each place the best score, and ``begin << 20 | index`` of its last piece."""
    address, trie_address = np.int64(text.ctypes.data), np.int64(trie.ctypes.data)
    rows = np.int64(tokens.ctypes.data)
    for place in range(1, size + 1):
        links[place] = _UNREACHED
    best[0] = 0.0
    at = np.int64(0)
    while at < size:
        width = width_at(text, at)
        has_character = False
        here = best[at]
        index, _ = longest_token(address + at, address + size, trie_address, rows)
        while index != token_tables.NOTHING:
            score = scores[index]
            if score == score:  # not NaN: bytes that are not pieces have NaN
                length = token_tables.length_of(rows, index)
                has_character = has_character or length == width
                link = (at << _INDEX_BITS) | index
                reach(at + length, here + score, link, single, best, links)
            index = token_tables.shorter_token(rows, index)
        if not has_character:
            link = (at << _INDEX_BITS) | UNKNOWN
            reach(at + width, here + unknown_score, link, single, best, links)
        at += width


@kernel
def turn_round(size: I64, links: I64s) -> None:
    """Reverse the links of the best path: from the start to the end of each piece."""
    at, link = size, links[size]
    while at > 0:
        begin = link >> _INDEX_BITS
        following = links[begin]
        links[begin] = (at << _INDEX_BITS) | (link & _INDEX_MASK)
        at, link = begin, following


@kernel
def id_of(index: I64, tokens: U64s, unknown_id: I64, whole: bool) -> I64:
    """The id of a piece; −1 for unknown text, if ``whole`` also for the unknown piece."""
    if index == UNKNOWN:
        return np.int64(-1)
    id_ = np.int64(tokens[4 * index] & token_tables.ID_MASK)
    return np.int64(-1) if whole and id_ == unknown_id else id_


@kernel
def piece_of(text: U8s, begin: I64, end: I64, trie: U64s, tokens: U64s, scores: F64s) -> I64:
    """The index of the piece that equals the text, or `UNKNOWN`."""
    address, rows = np.int64(text.ctypes.data), np.int64(tokens.ctypes.data)
    index, stop = longest_token(address + begin, address + end, np.int64(trie.ctypes.data), rows)
    is_whole = stop == address + end and scores[index] == scores[index]
    return index if is_whole else np.int64(UNKNOWN)


@entry_kernel
def find_best_paths(
    text: U8s,
    places: I64s,
    lengths: I64s,
    trie: U64s,
    tokens: U64s,
    scores: F64s,
    byte_ids: I32s,
    rules: I64s,
    unknown_score: F64,
    mark: U8s,
    room: U8s,
    best: F64s,
    links: I64s,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> bool:
    """Encode words; return False for unknown characters without an unknown id.

    Args:
        text: uint8, valid UTF-8 within the words.
        places, lengths: int64 ``[n]``, the start and size of each word in bytes.
        trie, tokens: see `token_trie` and `token_tables`.
        scores: float64 per token; NaN for bytes that are not pieces.
        byte_ids: int32 ``[256]``, the ids for unknown text; −1 if there is no such piece.
        rules: int64 ``[3]``: the unknown id or −1; whether to round sums to single precision;
            whether to look up unknown text, including the unknown piece, as a whole.
        mark: uint8, put before each word that does not begin with it.
        room: uint8, scratch for the longest word, the mark and 4 more bytes.
        best, links: float64, int64, scratch; one entry more than the longest word has bytes.
        ids, ends, edges: receive the ids, the byte offset in the word where each ends, and
            ``[n + 1]`` where the ids of each word begin.
    """
    unknown_id, single, whole = rules[0], rules[1] != 0, rules[2] != 0
    number = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        begins_with_mark = lengths[word] >= len(mark)
        for i in range(len(mark)):
            if not begins_with_mark:
                break
            begins_with_mark = text[places[word] + i] == mark[i]
        before = np.int64(0) if begins_with_mark else np.int64(len(mark))
        for i in range(before):
            room[i] = mark[i]
        size = before + lengths[word]
        for i in range(lengths[word]):
            room[before + i] = text[places[word] + i]
        mark_best(room, size, trie, tokens, scores, unknown_score, single, best, links)
        turn_round(size, links)
        at = np.int64(0)
        while at < size:
            begin = at
            id_ = id_of(links[begin] & _INDEX_MASK, tokens, unknown_id, whole)
            at = links[begin] >> _INDEX_BITS
            if id_ < 0:
                if unknown_id < 0:
                    return False
                # Adjacent unknown pieces form one stretch.
                while at < size and id_of(links[at] & _INDEX_MASK, tokens, unknown_id, whole) < 0:
                    at = links[at] >> _INDEX_BITS
                if whole:
                    index = piece_of(room, begin, at, trie, tokens, scores)
                    id_ = id_of(index, tokens, unknown_id, False)
            if id_ >= 0:
                ids[number] = id_
                ends[number] = max(at - before, np.int64(0))
                number += 1
                continue
            spelled = True
            for i in range(begin, at):
                spelled = spelled and byte_ids[room[i]] >= 0
            if spelled:
                for i in range(begin, at):
                    ids[number] = byte_ids[room[i]]
                    ends[number] = max(i + 1 - before, np.int64(0))
                    number += 1
            else:
                ids[number] = unknown_id
                ends[number] = max(at - before, np.int64(0))
                number += 1
        edges[word + 1] = number
    return True
