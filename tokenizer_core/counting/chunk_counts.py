"""One chunk becomes word counts: documents, special tokens, held-out sections, words.

The one function that workers run; it knows nothing of files, other chunks or threads. Its native
parts run without Python's interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    Chunk,
    ChunkText,
    Reading,
    documents_between,
    given_counts,
    sections_of,
    without_copies,
)
from bpeline.tokenizer_core.counting.text_counter import TABLE_BYTES, TextCounter, words_of
from bpeline.tokenizer_core.counting.word_counts import WordCounts, concatenated
from bpeline.tokenizer_core.counting.word_parts import WordParts
from bpeline.tokenizer_core.counting.word_tables import WordTable
from bpeline.tokenizer_core.errors import UnreadableSource
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text

_MOST_BYTES = 2.0**62
# Bytes between two reports of progress; processes share those of sentences.
_STRIDE, _SENTENCE_STRIDE, _SLOW_STRIDE = 4 << 20, 2 << 20, 128 << 10


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
        parts: in how many parts it was counted; in one, each word has one row.
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
    reading: Reading,
    table_bytes: int = TABLE_BYTES,
    pass_on: Callable[[WordCounts], None] | None = None,
    copies: bytes = b"",
    on_progress: Callable[[int], None] | None = None,
) -> ChunkCounts:
    """Count the words of one chunk.

    Args:
        chunk, text: as `read_chunks` yields them.
        reading: the settings they were read with.
        table_bytes: see `count_spans`.
        pass_on: takes the words of each part where there are several, so that they need not be in
            memory together; the counts that are returned are empty then.
        copies: which documents are neither counted nor held out, see `without_copies`.
        on_progress: hears of bytes that are counted, several times a second; not of the last ones.
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

    if on_progress is not None and not reading.held_out_below:  # else they are sections
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


def counts_given(chunk: Chunk, raw: Text, reading: Reading) -> ChunkCounts:
    """The word counts that a chunk of a file of such holds; rows of one word are added up.

    Nothing is known of the documents that they are of, so none is counted or held out.

    Raises:
        CorpusError: see `given_counts`; or counts that 64 bits cannot add up.
    """
    given = given_counts(raw, chunk.file, reading.pattern, reading.special_bytes)
    lengths = given.spans[:, 1] - given.spans[:, 0]
    if float(np.dot(given.counts.astype(np.float64), lengths.astype(np.float64))) > _MOST_BYTES:
        raise UnreadableSource(
            f"the words of {chunk.file.path} are more text than 64 bits can count",
            "counts whose sum of count · length stays below 2⁶²",
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
    """Distinct pre-tokens of spans of a text.

    Args:
        text: UTF-8, at least within the spans.
        spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
        pattern: what cuts them into pre-tokens.
        table_bytes: when the words would take more memory, what is counted so far becomes rows
            and counting goes on with an empty table: a word may then have several rows.
        anchors: where bytes of the text stand, see `ChunkText`; None means where they are.

    Returns:
        Rows in order of first position (within each part).
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
    """Give the words of each part to ``take``, and whether there will be more."""

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
