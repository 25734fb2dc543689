"""Which tokens the words of a single document made, and no others of a chunk; knows no files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import ChunkText, Reading, documents_between, sections_of
from bpeline.tokenizer_core.counting import WordCounts, count_spans
from bpeline.tokenizer_core.evaluation.made_tokens import NOWHERE, MergeTree
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

_BYTES_AT_A_TIME = 4 << 20


@dataclass(frozen=True, slots=True)
class TrainingDocuments:
    """The documents of a text, as training read them.

    Attributes:
        text: of a chunk, or a part of one; no sequence of it was replaced by U+FFFD, else
            positions do not tell where in the text they are.
        reading: as it was counted.
        spans: int64 ``[n, 2]``: the documents.
        training: likewise, what of them was trained on.
    """

    text: ChunkText
    reading: Reading
    spans: NDArray[np.int64]
    training: NDArray[np.int64]

    @classmethod
    def of(cls, text: ChunkText, reading: Reading) -> TrainingDocuments:
        spans, _ = documents_between(text, reading.special_bytes)
        return cls(text, reading, spans, reading.share_out(text.text, spans, text.across).training)

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document that each position (of a byte within one) belongs to."""
        places, origins = self.text.anchors[:, 0], self.text.anchors[:, 1]
        anchor = np.searchsorted(origins, positions, "right") - 1
        place = positions - origins[anchor] + places[anchor]
        return (np.searchsorted(self.spans[:, 0], place, "right") - 1).astype(np.int64)

    def words(self, number: int) -> WordCounts:
        """The words of one document, of which nothing held out is counted."""
        begin, end = self.spans[number].tolist()
        text = Text.of(self.text.text.bytes(begin, end))
        firsts = self.training[:, 0]
        inside = self.training[(firsts >= begin) & (firsts < end)] - begin
        anchors = self.text.anchors - [begin, 0]
        return count_spans(text, inside, self.reading.pattern, anchors=anchors)


def made_in_one_document(
    tokenizer: Tokenizer,
    tree: MergeTree,
    candidates: NDArray[np.int64],
    text: ChunkText,
    reading: Reading,
    copies: bytes = b"",
) -> NDArray[np.int64]:
    """Those of some tokens that came about in one document of a chunk and in no other.

    Documents are what training read: text between special tokens, the record of a JSON line, and
    of these what was not held out. The chunk is read no further than until every candidate has
    been met in two documents.

    Args:
        tokenizer: its pattern is the reading's.
        candidates: ids.
        text, reading: as they were counted.
        copies: a byte for each document, 1 where training left it out as a copy; empty for none.

    Returns:
        int64, ascending; candidates that come about in no document are not among them.
    """
    first = np.full(tree.size, NOWHERE, np.int64)
    last = np.full(tree.size, -1, np.int64)
    waiting = np.unique(candidates)
    for ids, documents in _encoded(tokenizer, text, reading, copies):
        # Of equal ids the last one written stays.
        here = np.full(tree.size, NOWHERE, np.int64)
        here[ids[::-1]] = documents[::-1]
        np.minimum(first, here, out=first)
        last[ids] = documents
        begins, ends = first.copy(), last.copy()
        tree.pass_down(begins, np.minimum)
        tree.pass_down(ends, np.maximum)
        waiting = waiting[begins[waiting] >= ends[waiting]]
        if not len(waiting):
            return waiting
    return waiting[ends[waiting] >= 0] if len(waiting) and last.max() >= 0 else waiting[:0]


def _encoded(
    tokenizer: Tokenizer, text: ChunkText, reading: Reading, copies: bytes
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Ids of the text that was trained on, a few megabytes at a time, and each one's document."""
    documents, _ = documents_between(text, reading.special_bytes)
    if copies:
        documents = np.ascontiguousarray(documents[np.frombuffer(copies, np.uint8) == 0])
    spans = reading.share_out(text.text, documents, text.across).training
    if not reading.held_out_below:
        spans = sections_of(text.text, spans, reading.pattern.cut_pairs)
    numbers = np.searchsorted(documents[:, 0], spans[:, 0], "right") - 1
    done = 0
    while done < len(spans):
        begin = spans[done, 0]
        end = max(int(np.searchsorted(spans[:, 1], begin + _BYTES_AT_A_TIME, "right")), done + 1)
        some = Text.of(text.text.bytes(int(begin), int(spans[end - 1, 1])))
        none = np.full(end - done, -1, np.int64)
        ids, ends = tokenizer.encoder.encode(some, spans[done:end] - begin, none)
        yield ids, np.repeat(numbers[done:end], np.diff(ends, prepend=0))
        done = end
