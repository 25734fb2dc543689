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
    QUEUE,
    STATE,
    USED,
    WAITING,
    WORD,
    count_marked,
    empty_front,
    gather_rows,
    list_entries,
)
from tokenizer_core.pretokenization import mark_kept_and_dropped
from tokenizer_core.reading import Reading
from tokenizer_core.special_tokens import find_special_tokens
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text import Text
from tokenizer_core.word_counts import WordCounts, concatenated
from tokenizer_core.word_tables import FULL, bits_of, empty_table, grown_table

TABLE_BYTES = 128 << 20
"""Most memory that the table of one worker takes. Text with more different words than fit, some
2.5 million, is counted in several parts, which others add up."""

# The front table fits the second-level cache of a core; the main table begins as large as the text
# suggests, but not so large that touching its fresh memory costs more than growing later.
_ENTRY_BYTES = 32
_FRONT_BITS = 13
_MAIN_BITS = 10, 19
_BYTES_PER_WORD = 16  # of text for each distinct word, as a first guess


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """What counting a chunk yields.

    Attributes:
        chunk: which one.
        counts: words of the training part; first positions are bytes from the chunk's begin. A
            word has several rows when the chunk was counted in several parts (`TABLE_BYTES`).
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


def count_chunk(
    chunk: Chunk, text: ChunkText, reading: Reading, table_bytes: int = TABLE_BYTES
) -> ChunkCounts:
    """Count the words of one chunk.

    Args:
        chunk, text: as `read_chunks` yields them.
        reading: the settings they were read with.
        table_bytes: see `count_spans`.
    """
    documents, special_tokens_seen = documents_between(text, reading.special_bytes)
    training, held_out = hold_out(
        text.text, documents, reading.held_out_below, reading.pattern.cut_pairs
    )
    counts = count_spans(text.text, training, reading.pattern, table_bytes)
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


def count_spans(
    text: Text,
    spans: NDArray[np.int64],
    pattern: SplitPattern,
    table_bytes: int = TABLE_BYTES,
) -> WordCounts:
    """Distinct pre-tokens of spans of a text; first positions are bytes of the text.

    Args:
        text: UTF-8, at least within the spans.
        spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
        pattern: what cuts them into pre-tokens.
        table_bytes: when the table of words would exceed it, what is counted so far becomes rows
            and counting goes on with an empty table: a word may then have several rows. At least
            1 MiB is used.

    Returns:
        Rows in order of sight (within each part).
    """
    starts, dropped = mark_kept_and_dropped(text, spans, pattern)
    counter = _Counter(text, pattern, table_bytes)
    parts: list[WordCounts] = []
    while not count_marked(
        text.data,
        starts,
        dropped,
        spans,
        counter.table,
        counter.front,
        counter.queue,
        counter.state,
        counter.limit,
    ):
        if not counter.grow():
            parts.append(counter.take_rows())
    parts.append(counter.take_rows())
    return parts[0] if len(parts) == 1 else concatenated(parts)


class _Counter:
    """The arrays that `count_marked` works on."""

    def __init__(self, text: Text, pattern: SplitPattern, table_bytes: int) -> None:
        fewest, most = _MAIN_BITS
        bits = min(max((text.size // _BYTES_PER_WORD).bit_length(), fewest), most)
        self._text, self._pattern = text, pattern
        self._most_bits = max((table_bytes // _ENTRY_BYTES).bit_length() - 1, _FRONT_BITS + 2)
        self.table = empty_table(min(bits, self._most_bits))
        self.front = empty_table(min(bits, _FRONT_BITS))
        self.queue = np.zeros(4 * QUEUE, np.uint64)
        self.state = np.zeros(STATE, np.int64)
        self.state[WORD] = FRESH

    @property
    def limit(self) -> int:
        return int(FULL * (1 << bits_of(self.table)))

    def grow(self) -> bool:
        """Double the main table; False when it may not be larger."""
        if bits_of(self.table) >= self._most_bits:
            return False
        self.table = grown_table(self.table, bits_of(self.table) + 1)
        return True

    def take_rows(self) -> WordCounts:
        """All words counted so far, in order of sight; the table is empty afterwards."""
        hot = np.count_nonzero(self.front[1::4])
        if self.state[USED] + self.state[WAITING] + hot > self.limit:
            # Beyond the most bits only by what the front holds: a quarter of the smallest such
            # table, which linear probing bears.
            self.grow()
        empty_front(self._text.data, self.front, self.queue, self.table, self.state)
        words = int(self.state[USED])
        entries, places = np.empty(words, np.int64), np.empty(words, np.int64)
        list_entries(self.table, entries, places)
        entries = entries[np.argsort(places)]
        word_bytes = np.empty(int(self.state[DISTINCT_BYTES]), np.uint8)
        offsets = np.empty(words + 1, np.int64)
        counts, first_positions = np.empty(words, np.int64), np.empty(words, np.int64)
        gather_rows(
            self._text.data, self.table, entries, word_bytes, offsets, counts, first_positions
        )
        self.table[:] = 0
        self.state[USED] = self.state[DISTINCT_BYTES] = 0
        return WordCounts(word_bytes, offsets, counts, first_positions, self._pattern)
