"""Count the words of chunks, and add up word counts; kernels run without the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    Chunk,
    ChunkText,
    ReadOptions,
    SmallFiles,
    SourceFile,
    documents_between,
    given_counts,
    sections_of,
    without_copies,
)
from bpeline.tokenizer_core.counting.source_weights import weighted
from bpeline.tokenizer_core.counting.text_streams import TABLE_BYTES, TextCounter, words_of
from bpeline.tokenizer_core.counting.word_counts import COUNT_LIMIT, WordCounts, concatenated
from bpeline.tokenizer_core.counting.word_tables import WordParts, WordTable, too_many
from bpeline.tokenizer_core.errors import InvalidOption, UnreadableSource
from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept
from bpeline.tokenizer_core.kernels.counting.word_table import copy_words, count_apart
from bpeline.tokenizer_core.kernels.memory.pages import BufferPool, in_lines
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_queue import QUEUE_BYTES
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text

_MOST_BYTES = 2.0**62
# Bytes between progress reports; larger for sentences, as several processes share them.
_STRIDE, _SENTENCE_STRIDE, _SLOW_STRIDE = 4 << 20, 2 << 20, 128 << 10

_ROOM = 32  # bytes after the words that kernels may read and write
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """The word counts of one chunk.

    Attributes:
        counts: words of the training part; first positions are bytes from the chunk's begin. A
            word has several rows if the chunk was counted in several ``parts`` (`TABLE_BYTES`).
        held_out: sections kept for evaluation, in UTF-8.
        documents: number of non-empty spans between special tokens, file ends and JSON records.
        bytes_counted: Σ count · length.
        left_out_bytes, left_out_documents: see `Shares`.
    """

    chunk: Chunk
    counts: WordCounts
    held_out: list[bytes]
    documents: int
    bytes_counted: int
    special_tokens_seen: int
    replaced_utf8: int
    parts: int = 1
    left_out_bytes: int = 0
    left_out_documents: int = 0


def count_chunk(
    chunk: Chunk,
    text: ChunkText,
    reading: ReadOptions,
    table_bytes: int = TABLE_BYTES,
    pass_on: Callable[[WordCounts], None] | None = None,
    copies: bytes = b"",
    on_progress: Callable[[int], None] | None = None,
) -> ChunkCounts:
    """Count the words of one chunk.

    Args:
        table_bytes: see `count_spans`.
        pass_on: receives the words of each part if there are several, which saves memory; the
            returned counts are then empty.
        copies: documents that are neither counted nor held out, see `without_copies`.
        on_progress: called several times a second with the bytes counted since the last call,
            but not for the last ones.
    """
    documents, special_tokens_seen = documents_between(text, reading.special_bytes)
    documents = without_copies(documents, copies)
    training, held_out, *left_out = reading.share_out(text.text, documents, text.across)
    parts: list[WordCounts] = []
    number = 0

    def take(part: WordCounts, more: bool) -> None:
        nonlocal number
        number += 1
        if pass_on is not None and (more or number > 1):
            pass_on(part)
        else:
            parts.append(part)

    if (
        on_progress is not None and not reading.held_out_below
    ):  # otherwise they are sections already
        training = sections_of(text.text, training, reading.pattern.cut_pairs)
    _count_in_parts(
        text.text, training, reading.pattern, table_bytes, text.anchors, take, on_progress
    )
    return ChunkCounts(
        chunk=chunk,
        counts=concatenated(parts) if parts else WordCounts.empty(reading.pattern),
        held_out=[text.text.bytes(begin, end) for begin, end in held_out.tolist()],
        documents=len(documents),
        bytes_counted=int((training[:, 1] - training[:, 0]).sum()),
        special_tokens_seen=special_tokens_seen,
        replaced_utf8=text.replaced,
        parts=number,
        left_out_bytes=left_out[0],
        left_out_documents=left_out[1],
    )


def counts_given(chunk: Chunk, raw: Text, reading: ReadOptions) -> ChunkCounts:
    """Return the word counts in a chunk of them; there are no documents to hold out."""
    given = given_counts(raw, chunk.file, reading.pattern, reading.special_bytes)
    lengths = given.spans[:, 1] - given.spans[:, 0]
    if float(np.dot(given.counts.astype(np.float64), lengths.astype(np.float64))) > _MOST_BYTES:
        raise UnreadableSource(
            f"the words of {chunk.file.path} are more text than 64 bits can count",
            "expected counts whose sum of count · length is below 2⁶²",
            "divide all counts by the same number",
        )
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    rows = WordTable()
    rows.add(
        WordCounts(
            given.word_bytes, offsets, given.counts, given.spans[:, 0].copy(), reading.pattern
        )
    )
    return ChunkCounts(
        chunk=chunk,
        counts=rows.rows(reading.pattern),
        held_out=[],
        documents=0,
        bytes_counted=int(np.dot(given.counts, lengths)),
        special_tokens_seen=0,
        replaced_utf8=0,
    )


def count_spans(
    text: Text,
    spans: NDArray[np.int64],
    pattern: SplitPattern,
    table_bytes: int = TABLE_BYTES,
    anchors: NDArray[np.int64] | None = None,
) -> WordCounts:
    """Count the distinct pre-tokens of spans of a text.

    Args:
        text: UTF-8, at least within the spans.
        spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
        table_bytes: memory limit. When it is reached, the words so far become rows and counting
            goes on with an empty table, so a word may have several rows.
        anchors: see `ChunkText`; None if positions are those in the text.
    """
    parts: list[WordCounts] = []

    def take(part: WordCounts, _more: bool) -> None:
        parts.append(part)

    _count_in_parts(text, spans, pattern, table_bytes, anchors, take)
    return concatenated(parts)


def _count_in_parts(
    text: Text,
    spans: NDArray[np.int64],
    pattern: SplitPattern,
    table_bytes: int,
    anchors: NDArray[np.int64] | None,
    take: Callable[[WordCounts, bool], None],
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Pass the words of each part to ``take``, and whether there will be more."""

    def passed_on(words: WordParts) -> WordParts:
        take(words.rows(pattern), True)
        return words_of(text.size, table_bytes=table_bytes)

    splitter = Splitter(pattern)
    counter = TextCounter(splitter, words_of(text.size, table_bytes=table_bytes), passed_on)
    anchors = np.zeros((1, 2), np.int64) if anchors is None else anchors
    if on_progress is None:
        counter.count(text, spans, anchors)
    else:
        slow = _SLOW_STRIDE if pattern.sentences is None else _SENTENCE_STRIDE
        stride = _STRIDE if splitter.is_native else slow
        sizes = np.cumsum(spans[:, 1] - spans[:, 0])
        begin = counted = 0
        while begin < len(spans):
            end = int(np.searchsorted(sizes, counted + stride)) + 1
            counter.count(text, spans[begin:end], anchors)
            if end < len(spans):
                on_progress(int(sizes[end - 1]) - counted)
                counted = int(sizes[end - 1])
            begin = end
    take(counter.words.rows(pattern), False)


class SmallChunks:
    """Counts small files, several at a time, in memory that it reuses."""

    @staticmethod
    def are_kernels_kept() -> bool:
        """Whether the kernels are cached; compiling them takes two seconds."""
        return are_kept(count_apart, copy_words)

    def __init__(self, reading: ReadOptions) -> None:
        self._reading, self._splitter = reading, Splitter(reading.pattern)
        self._ahead = in_lines(QUEUE_BYTES // 8, np.uint64)
        self._table = in_lines(0, np.uint64)
        self._memory, self._rows = BufferPool(), BufferPool()

    def read(self, files: Sequence[SourceFile]) -> SmallFiles:
        """`SmallFiles.read` into memory that the next call reuses."""
        return SmallFiles.read(files, self._reading, self._memory)

    def count(
        self, small: SmallFiles, chunks: Sequence[Chunk], wanted: Sequence[int]
    ) -> list[ChunkCounts]:
        """Count the words of the files with indices ``wanted``; ``chunks`` has all files."""
        if not wanted:
            return []
        documents, specials = small.documents(self._reading)
        training, held_out, *_ = self._reading.share_out(small.text, documents)
        begins, numbers = small.edges[:, 0], np.array(wanted, np.int64)
        parts = [_rows_between(spans, begins)[numbers] for spans in (documents, specials, held_out)]
        texts = _rows_between(training, begins)[numbers]
        sizes = np.concatenate(([0], np.cumsum(training[:, 1] - training[:, 0])))
        words, ends = self._words(small, training, texts, numbers)
        of_each = (
            numbers.tolist(),
            _slices(words, ends),
            np.diff(sizes[texts]).ravel().tolist(),
            *(part.tolist() for part in parts),
        )
        return [
            ChunkCounts(
                chunk=chunks[number],
                counts=counts,
                held_out=[small.text.bytes(*span) for span in held_out[slice(*held_rows)].tolist()],
                documents=own_rows[1] - own_rows[0],
                bytes_counted=size,
                special_tokens_seen=special_rows[1] - special_rows[0],
                replaced_utf8=0,
            )
            for number, counts, size, own_rows, special_rows, held_rows in zip(
                *of_each, strict=True
            )
        ]

    def _words(
        self,
        small: SmallFiles,
        training: NDArray[np.int64],
        texts: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> tuple[WordCounts, NDArray[np.int64]]:
        """Return the words of some files, file by file, and where each file's rows end."""
        text, begins = small.text, small.edges[numbers, 0]
        starts, dropped = self._splitter.mark(text, training)
        # More entries than bytes: twice as many as distinct words, except in short texts.
        entries = 1 << np.frexp(small.edges[numbers, 1] - begins)[1].astype(np.int64)
        texts = np.column_stack((texts, entries))
        if len(self._table) < 4 * entries.max():
            self._table = in_lines(4 * int(entries.max()), np.uint64)
        rows = self._rows(8 * _COLUMNS * (text.size + 1)).view(np.int64).reshape(-1, _COLUMNS)
        ends = np.empty(len(texts), np.int64)
        near = self._table, self._ahead, HASH_KEY
        count_apart(text.data, starts, dropped, training, texts, *near, rows, ends)
        rows = rows[: ends[-1]]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(rows[:, 1], out=offsets[1:])
        word_bytes = np.empty(int(offsets[-1]) + _ROOM, np.uint8)
        copy_words(text.data, rows, offsets, word_bytes)
        positions = rows[:, 0] - np.repeat(begins, np.diff(ends, prepend=0))
        columns = word_bytes[: offsets[-1]], offsets, rows[:, 2].copy(), positions
        return WordCounts(*columns, self._reading.pattern), ends


def _slices(words: WordCounts, ends: NDArray[np.int64]) -> Iterator[WordCounts]:
    """`WordCounts.between` for consecutive parts that end at these rows."""
    places = words.offsets[ends].tolist()
    begin = place = 0
    for end, place_end in zip(ends.tolist(), places, strict=True):
        yield WordCounts(
            words.word_bytes[place:place_end],
            words.offsets[begin : end + 1] - place,
            words.counts[begin:end],
            words.first_positions[begin:end],
            words.pattern,
        )
        begin, place = end, place_end


def _rows_between(spans: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which spans are in each of several files: int64 ``[n, 2]``, half-open."""
    firsts = np.searchsorted(spans[:, 0], begins)
    return np.column_stack((firsts, np.append(firsts[1:], len(spans))))


class WordSum:
    """Adds up `WordCounts` in memory for the distinct words so far and one part.

    First positions must be positions in the whole corpus (`WordCounts.shifted`). Not thread-safe.
    """

    def __init__(self, pattern: SplitPattern) -> None:
        self._pattern = pattern
        self._table = WordTable()
        self._total = 0

    def add(self, part: WordCounts) -> None:
        self._count(part)
        self._table.add(part)

    def _count(self, part: WordCounts) -> None:
        if part.pattern != self._pattern:
            raise InvalidOption(
                "word counts made by different split patterns cannot be added up",
                f"expected the pattern {self._pattern.name or self._pattern.regex!r} in every part",
                "count the corpus again with one pattern",
            )
        self._total += part.total
        if self._total > COUNT_LIMIT:
            raise too_many(self._total)

    def result(self) -> WordCounts:
        """Return the sum so far in order of first position; more parts may be added."""
        return self._table.rows(self._pattern)


def combine_word_counts(
    parts: Sequence[WordCounts], weights: Sequence[float] | None = None
) -> WordCounts:
    """Add up word counts; a word gets the smallest of its first positions.

    Args:
        parts: counts under one pattern, whose first positions are positions in the whole corpus.
        weights: a factor for each part, which must be all of one source: its counts are rounded
            as by `source_weights.weighted` before they are added.

    Raises:
        InvalidOption: different patterns, an impossible weight, or a sum above 2⁶³ − 1.
    """
    if not parts:
        return WordCounts.empty()
    if weights is not None and len(weights) != len(parts):
        raise InvalidOption(
            f"{len(weights)} weights for {len(parts)} word counts",
            "expected one weight for each",
            "leave out weights to count everything once",
        )
    words = WordSum(parts[0].pattern)
    for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True):
        words.add(weighted(part, weight))
    return words.result()
