"""Chunks, or single documents of them, are read again where they were before; counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bpeline.tokenizer_core.corpus.chunking import (
    Chunk,
    ChunkGroup,
    left_out_across,
    part_of_chunk,
    read_chunks,
)
from bpeline.tokenizer_core.corpus.documents import ChunkText, read_documents
from bpeline.tokenizer_core.corpus.reading import CHUNK_BYTES, Reading
from bpeline.tokenizer_core.corpus.source_bytes import SourceBytes
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import CorpusError

_FIRST_LOOK = 1 << 14
_WIDER = 4


def read_again(
    path: str, ordinals: Iterable[int], reading: Reading, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Chunk, ChunkText]]:
    """The chunks that a file now has in some cells of its grid, whatever it held before.

    Of a plain file nothing else is read, of a Parquet file the row groups around them; one that is
    streamed is read up to the last of them. What is
    gone or cannot be read any more ends the reading: whoever asks compares digests.

    Args:
        path: absolute, as `find_source_files` found it.
        ordinals: numbers of cells.
        reading, chunk_bytes: as the file was read.
    """
    wanted = sorted(set(ordinals))
    if not wanted:
        return
    try:
        (file,) = find_source_files([Source(path)])
        begins = [ordinal * chunk_bytes for ordinal in wanted]
        groups = [ChunkGroup(file, begin, begin + chunk_bytes) for begin in begins]
        if file.has_parts:
            groups = [part_of_chunk(file, ordinal) for ordinal in wanted]
        elif file.is_streamed:
            groups = [ChunkGroup(file)]
        for group in dict.fromkeys(groups):
            for chunk, text in read_chunks(group, reading, chunk_bytes):
                if chunk.ordinal in wanted:
                    yield chunk, text
                if chunk.ordinal >= wanted[-1]:
                    break
    except (CorpusError, ValueError):  # ValueError: a directory now, of several files
        return


def has_single_documents(file: SourceFile, reading: Reading) -> bool:
    """Whether the borders of a document can be seen from within it.

    Not in compressed files, which are read from their beginning. And not where special tokens may
    overlap: then it takes all of the text before to know which of them count.
    """
    return not file.is_streamed and not _may_overlap(_separators(file, reading))


@dataclass(frozen=True, slots=True)
class SingleDocuments:
    """The documents of one chunk.

    Attributes:
        source: the open file, one that `has_single_documents`.
        file: the same.
        begin, end: of the chunk: a document that a border of it cuts is two.
        reading: how the file was read.
    """

    source: SourceBytes
    file: SourceFile
    begin: int
    end: int
    reading: Reading

    def around(self, position: int) -> tuple[int, int]:
        """Where the document, or the line of JSON, begins and ends that a byte of text lies in."""
        separators = _separators(self.file, self.reading)
        return self._begin_before(position, separators), self._end_behind(position, separators)

    def read(self, begin: int, end: int) -> ChunkText:
        """The text between two such borders; errors as `read_documents`."""
        text = read_documents(self.source.take(begin, end), self.file, begin, self.reading)
        reach = self.reading.reach(self.file.format)
        _, head = left_out_across(self.source, begin, self.reading, reach)
        tail, _ = left_out_across(self.source, end, self.reading, reach)
        return replace(text, across=(head, tail))

    def _begin_before(self, position: int, separators: Sequence[bytes]) -> int:
        look = _FIRST_LOOK
        while True:
            begin = max(self.begin, position - look)
            content = self.source.peek(begin, position - begin)
            ends = [at + len(one) for one in separators if (at := content.rfind(one)) >= 0]
            if ends or begin == self.begin:
                return begin + max(ends, default=0)
            look *= _WIDER

    def _end_behind(self, position: int, separators: Sequence[bytes]) -> int:
        look = _FIRST_LOOK
        while True:
            size = min(look, self.end - position)
            content = self.source.peek(position, size)
            begins = [at for one in separators if (at := content.find(one)) >= 0]
            if begins or position + size == self.end:
                return position + min(begins, default=size)
            look *= _WIDER


def _separators(file: SourceFile, reading: Reading) -> tuple[bytes, ...]:
    return (b"\n",) if file.format == "jsonl" else reading.special_bytes


def _may_overlap(separators: Sequence[bytes]) -> bool:
    """Whether two of them, or one and itself, can share bytes of a text."""
    for one in separators:
        for other in separators:
            if one is not other and one in other:
                return True
            if any(one.endswith(other[:size]) for size in range(1, len(other))):
                return True
    return False
