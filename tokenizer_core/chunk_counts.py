"""One chunk becomes word counts: documents, special tokens, held-out sections, words.

The one function that workers run; it knows nothing of files, other chunks or threads. Its native
parts run without Python's interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.chunking import Chunk
from tokenizer_core.documents import ChunkText
from tokenizer_core.held_out import hold_out
from tokenizer_core.kernels.word_table import (
    DISTINCT_BYTES,
    FRESH,
    STATE,
    USED,
    WORD,
    count_marked,
    gather_table,
    move_words,
    write_back,
)
from tokenizer_core.pretokenization import mark_pre_tokens
from tokenizer_core.reading import Reading
from tokenizer_core.special_tokens import find_special_tokens
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text import Text
from tokenizer_core.word_counts import WordCounts

_FULL = 0.6  # of a table's entries; linear probing stays short below this
# 32-byte entries. The front table fits the second-level cache of a core; the main table begins
# small, since clearing its memory costs more than moving its words when it has to grow.
_FRONT_BITS = 13
_MAIN_BITS = 10, 17
_BYTES_PER_WORD = 16  # of text for each distinct word, as a first guess


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """What counting a chunk yields.

    Attributes:
        chunk: which one.
        counts: words of the training part; first positions are bytes from the chunk's begin.
        held_out: sections kept for evaluation, in UTF-8.
        documents: stretches of text between special tokens, file ends and JSON records; those that
            are empty do not count.
        bytes_counted: bytes of text that were counted: Σ count · length.
        special_tokens_seen: occurrences of special tokens.
        replaced_utf8: sequences that were not UTF-8 and were read as U+FFFD.
    """

    chunk: Chunk
    counts: WordCounts
    held_out: list[bytes]
    documents: int
    bytes_counted: int
    special_tokens_seen: int
    replaced_utf8: int


def count_chunk(chunk: Chunk, text: ChunkText, reading: Reading) -> ChunkCounts:
    """Count the words of one chunk.

    Args:
        chunk, text: as `read_chunks` yields them.
        reading: the settings they were read with.
    """
    documents, special_tokens_seen = documents_between(text, reading.special_bytes)
    training, held_out = hold_out(
        text.text, documents, reading.held_out_below, reading.pattern.cuts_at_spaces
    )
    counts = count_spans(text.text, training, reading.pattern)
    counts.first_positions[:] = text.chunk_positions(counts.first_positions)
    return ChunkCounts(
        chunk=chunk,
        counts=counts,
        held_out=[text.text.bytes(begin, end) for begin, end in held_out.tolist()],
        documents=len(documents),
        bytes_counted=int((training[:, 1] - training[:, 0]).sum()),
        special_tokens_seen=special_tokens_seen,
        replaced_utf8=text.replaced,
    )


def documents_between(
    text: ChunkText, special_tokens: tuple[bytes, ...]
) -> tuple[NDArray[np.int64], int]:
    """Documents without the special tokens in them, and how many of these there were.

    Returns:
        int64 ``[n, 2]``: non-empty spans, ascending; the number of special tokens.
    """
    documents = text.documents
    # Documents of a chunk are separated by one line feed: a token without any cannot cross it.
    if len(documents) <= 1 or not any(b"\n" in token for token in special_tokens):
        found = find_special_tokens(text.text, 0, text.text.size, special_tokens)
    else:
        found = np.concatenate(
            [
                find_special_tokens(text.text, begin, end, special_tokens)
                for begin, end in documents.tolist()
            ]
        )
    begins = np.sort(np.concatenate((documents[:, 0], found[:, 1])))
    ends = np.sort(np.concatenate((documents[:, 1], found[:, 0])))
    spans = np.stack((begins, ends), axis=1)
    return np.ascontiguousarray(spans[begins < ends]), len(found)


def count_spans(text: Text, spans: NDArray[np.int64], pattern: SplitPattern) -> WordCounts:
    """Distinct pre-tokens of spans of a text; first positions are bytes of the text.

    Args:
        text: UTF-8, at least within the spans.
        spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
        pattern: what cuts them into pre-tokens.

    Returns:
        Rows in an order that depends on the text alone.
    """
    starts = mark_pre_tokens(text, spans, pattern)
    fewest, most = _MAIN_BITS
    bits = min(max((text.size // _BYTES_PER_WORD).bit_length(), fewest), most)
    table = np.zeros(4 << bits, np.uint64)
    front = np.zeros(4 << min(bits, _FRONT_BITS), np.uint64)
    state = np.zeros(STATE, np.int64)
    state[WORD] = FRESH
    while not count_marked(
        text.data, starts, spans, table, front, state, int(table.size // 4 * _FULL)
    ):
        write_back(front)
        larger = np.zeros(2 * table.size, np.uint64)
        move_words(table, larger)
        table = larger
    write_back(front)
    words = int(state[USED])
    word_bytes = np.empty(int(state[DISTINCT_BYTES]), np.uint8)
    offsets = np.empty(words + 1, np.int64)
    counts, first_positions = np.empty(words, np.int64), np.empty(words, np.int64)
    gather_table(text.data, table, word_bytes, offsets, counts, first_positions)
    return WordCounts(word_bytes, offsets, counts, first_positions, pattern)
