"""Small files that were read together become word counts, each a chunk; knows no store.

What `count_chunk` says of a chunk, `SmallChunks` says of each of many, at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import Chunk, Reading, SmallFiles, SourceFile
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept
from bpeline.tokenizer_core.kernels.counting.words_apart import copy_words, count_apart
from bpeline.tokenizer_core.kernels.memory.pages import Reused, in_lines
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_queue import QUEUE_BYTES
from bpeline.tokenizer_core.splitting import Splitter

_ROOM = 32  # bytes behind the words, which kernels may read and write
_COLUMNS = 3


class SmallChunks:
    """Counts small files, some at a time, in memory of its own."""

    @staticmethod
    def are_kernels_kept() -> bool:
        """Whether what it calls need not be compiled, which takes two seconds."""
        return are_kept(count_apart, copy_words)

    def __init__(self, reading: Reading) -> None:
        self._reading, self._splitter = reading, Splitter(reading.pattern)
        self._ahead = in_lines(QUEUE_BYTES // 8, np.uint64)
        self._table = in_lines(0, np.uint64)
        self._memory, self._rows = Reused(), Reused()

    def read(self, files: Sequence[SourceFile]) -> SmallFiles:
        """Read files, until the next ones are read; errors as `SmallFiles.read`."""
        return SmallFiles.read(files, self._reading, self._memory)

    def count(
        self, small: SmallFiles, chunks: Sequence[Chunk], wanted: Sequence[int]
    ) -> list[ChunkCounts]:
        """The word counts of some of the files, in their order.

        Args:
            chunks: of every file; each is one.
            wanted: the numbers of those that are counted, ascending.

        Raises:
            InvalidUtf8: of the first file that is not UTF-8.
        """
        if not wanted:
            return []
        documents, specials = small.documents(self._reading)
        training, held_out, *_ = self._reading.share_out(small.text, documents)
        begins, numbers = small.edges[:, 0], np.array(wanted, np.int64)
        parts = [_parts(spans, begins)[numbers] for spans in (documents, specials, held_out)]
        texts = _parts(training, begins)[numbers]
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
                held_out=[small.text.bytes(*span) for span in held_out[slice(*kept)].tolist()],
                documents=own[1] - own[0],
                bytes_counted=size,
                special_tokens_seen=seen[1] - seen[0],
                replaced_utf8=0,
            )
            for number, counts, size, own, seen, kept in zip(*of_each, strict=True)
        ]

    def _words(
        self,
        small: SmallFiles,
        training: NDArray[np.int64],
        texts: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> tuple[WordCounts, NDArray[np.int64]]:
        """The words of some files, one file after the other, and where each one's rows end."""
        text, begins = small.text, small.edges[numbers, 0]
        starts, dropped = self._splitter.mark(text, training)
        # More than there are bytes, and so twice as many as distinct words, but for short texts.
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
    """`WordCounts.between` for parts that end at these rows."""
    places = words.offsets[ends].tolist()
    begin = place = 0
    for end, behind in zip(ends.tolist(), places, strict=True):
        yield WordCounts(
            words.word_bytes[place:behind],
            words.offsets[begin : end + 1] - place,
            words.counts[begin:end],
            words.first_positions[begin:end],
            words.pattern,
        )
        begin, place = end, behind


def _parts(spans: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which spans stand in each of several files: int64 ``[n, 2]``, half-open."""
    firsts = np.searchsorted(spans[:, 0], begins)
    return np.column_stack((firsts, np.append(firsts[1:], len(spans))))
