"""Many small files of text as one text, and where each lies in it; neither counts nor encodes.

For each alone there is more to do than to count or encode it, and threads wait for each other then.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.chunking import Chunk, ChunkGroup, digest_of_chunk
from bpeline.tokenizer_core.corpus.documents import read_documents
from bpeline.tokenizer_core.corpus.reading import Reading
from bpeline.tokenizer_core.corpus.source_bytes import read_plain
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.errors import CorpusError
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import Memory, fresh
from bpeline.tokenizer_core.text import Text, invalid_utf8_at
from bpeline.tokenizer_core.vocabulary import find_special_tokens

_SMALL = 1 << 16  # bytes of files that are read together, if neither text nor reading forbids it
_BETWEEN = "\0"  # stands behind each of them


@dataclass(frozen=True, slots=True, eq=False)
class SmallFiles:
    """Whole files of plain text.

    Attributes:
        files: which.
        text: of all of them, with a byte that belongs to none behind each.
        edges: int64 ``[n, 2]``: where each lies in the text.
        spent: bytes on disk.
    """

    files: tuple[SourceFile, ...]
    text: Text
    edges: NDArray[np.int64]
    spent: int

    @classmethod
    def read(
        cls, files: Sequence[SourceFile], reading: Reading, memory: Memory = fresh
    ) -> SmallFiles:
        """Read the files.

        Args:
            reading: how they are read; that they are UTF-8 is seen by `documents`.
            memory: gives bytes for all of them.

        Raises:
            CorpusChanged, UnreadableSource: as `open_source`, of the first file that cannot be
                read.
            InvalidUtf8: of a file before that one.
        """
        sizes = np.array([file.size for file in files], np.int64)
        ends = np.cumsum(sizes + 1) - 1
        edges = np.column_stack((ends - sizes, ends))
        size = int(ends[-1])
        data = memory(size + PADDING)
        data[ends] = ord(_BETWEEN)
        data[size:] = 0
        view = data.data
        for number, (begin, end) in enumerate(edges.tolist()):
            try:
                read_plain(files[number], view[begin:end])
            except CorpusError:
                before = Text.of(view[:begin])
                cls(tuple(files[:number]), before, edges[:number], 0).refuse_invalid_utf8(reading)
                raise
        return cls(tuple(files), Text(data, size), edges, int(sizes.sum()))

    @staticmethod
    def may_hold(file: SourceFile) -> bool:
        return (
            file.size <= _SMALL
            and file.format == "text"
            and not file.is_streamed
            and not file.is_remote
        )

    def raw(self, number: int) -> Text:
        """What one of the files holds."""
        begin, end = self.edges[number].tolist()
        return Text.of(self.text.data[begin:end].data)

    def chunks(self) -> list[Chunk]:
        """What the files are, as `cut_chunks` gives it of each: one chunk."""
        data = self.text.data
        return [
            Chunk(file, 0, 0, file.size, digest_of_chunk(data[begin:end], file, 0), file.size)
            for file, (begin, end) in zip(self.files, self.edges.tolist(), strict=True)
        ]

    def refuse_invalid_utf8(self, reading: Reading) -> None:
        """Raise `InvalidUtf8` of the first file that is not UTF-8."""
        invalid = invalid_utf8_at(self.text)
        if invalid >= 0:
            number = int(np.searchsorted(self.edges[:, 0], invalid, side="right")) - 1
            read_documents(self.raw(number), self.files[number], 0, reading)  # raises

    def documents(self, reading: Reading) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Documents and special tokens of all files, as `documents_between` finds them in each.

        Returns:
            int64 ``[n, 2]``: spans that are not empty, ascending; ``[m, …]``: the same of special
            tokens.

        Raises:
            InvalidUtf8: of the first file that is not UTF-8.
        """
        self.refuse_invalid_utf8(reading)
        text, begins = self.text, self.edges[:, 0]
        found = find_special_tokens(text, 0, text.size, reading.special_bytes)
        # Each document ends before the next one begins, and each file before the next.
        spans = np.column_stack(
            (
                np.sort(np.concatenate((_behind_mark(text, begins), found[:, 1]))),
                np.sort(np.concatenate((self.edges[:, 1], found[:, 0]))),
            )
        )
        return np.ascontiguousarray(spans[spans[:, 0] < spans[:, 1]]), found


def _behind_mark(text: Text, begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the text of files begins: there, or behind a byte order mark."""
    marked = np.ones(len(begins), np.bool_)
    for place, byte in enumerate(BOM_UTF8):
        marked &= text.data[begins + place] == byte
    return begins + len(BOM_UTF8) * marked


def read_alike_together(reading: Reading) -> bool:
    """Whether reading files one by one is the same as reading `SmallFiles`."""
    marks = _BETWEEN, "\ufeff"
    return (
        reading.invalid_utf8 == "strict"
        and reading.chunk_bytes >= _SMALL
        and not reading.text_form
        and not any(mark in one for one in reading.special_tokens for mark in marks)
    )


Work: TypeAlias = ChunkGroup | tuple[SourceFile, ...]  # small files are read together


def with_small_together(groups: Iterable[ChunkGroup], most: int, fewest: int = 2) -> Iterator[Work]:
    """The same work, where several small files in a row are one piece.

    Args:
        groups: of files that are read alike together, see `read_alike_together`.
        most: bytes of these files.
        fewest: of these files.
    """
    for small, run in groupby(groups, _is_small):
        if not small:
            yield from run
            continue
        for files in filled_up_to(most, (group.file for group in run)):
            if len(files) >= fewest:
                yield tuple(files)
            else:
                yield from map(ChunkGroup, files)


def _is_small(group: ChunkGroup) -> bool:
    """Whether it is all of a small file."""
    return group.begin == 0 and group.end is None and SmallFiles.may_hold(group.file)


def filled_up_to(most: int, files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Files in lists of at most so many bytes, or of one file."""
    together, size = list[SourceFile](), 0
    for file in files:
        if together and size + file.size > most:
            yield together
            together, size = [], 0
        together.append(file)
        size += file.size
    if together:
        yield together
