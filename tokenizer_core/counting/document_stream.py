"""Documents of files: as training sees them, an even sample of them, and which are copies."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    LONG,
    ChunkGroup,
    ChunkText,
    Reading,
    SourceFile,
    documents_between,
    in_parts,
    read_chunks,
    sections_of,
)
from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

CELL_BYTES = 16 << 10  # of a sample

_DIGEST_BYTES = 16

_MOST_KEPT = (
    1 << 20
)  # distinct sections, of 24 bytes; of more, those with the smallest fingerprints
_TOGETHER = 1 << 12  # lists that are put together at once
_SEEN = np.dtype([("fingerprint", np.uint64), ("bytes", np.int64), ("times", np.int64)])


def documents_of(
    files: Iterable[SourceFile], reading: Reading, digests: list[str] | None = None
) -> Iterator[bytes]:
    """Documents in UTF-8, without the special tokens between them; one chunk is in memory.

    A document longer than 64 KiB comes in sections of about 4 KiB, cut where no pre-token crosses:
    a file without separators would be one document, and from one nothing can be resampled.

    Args:
        digests: takes the digest of every chunk that was read.
    """
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading, with_digests=digests is not None)
        for chunk, text in chunks:
            if digests is not None:
                digests.append(chunk.digest)
            yield from _documents_of(text, reading, LONG)


def evaluation_documents(files: Iterable[SourceFile], reading: Reading) -> Iterator[bytes]:
    """Documents of an evaluation set: the same whatever the split pattern, see `in_parts`."""
    reading = replace(reading, pattern=SplitPattern.named("gpt2"))  # where chunks of files end
    for file in files:
        for _, text in read_chunks(ChunkGroup(file), reading, with_digests=False):
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                yield from in_parts(text.text.bytes(begin, end))


def sample_documents(
    files: Sequence[tuple[SourceFile, int]], reading: Reading, limit: int
) -> Iterator[bytes]:
    """Documents of evenly spaced places, in order; all of them where they fit.

    Places are cells of 16 KiB of a file's grid, so every file has its share, and what is read of a
    plain file is little more than what is taken. Long documents come in sections of about 4 KiB,
    as held-out ones do.

    Args:
        files: each with the bytes of its text, decompressed.
        reading: how bytes become documents.
        limit: bytes, about.
    """
    cells = [
        -(-size // CELL_BYTES) if reading.cuts(file.format).possible else min(size, 1)
        for file, size in files
    ]
    total, wanted = sum(cells), max(1, limit // CELL_BYTES)
    bounds = pairwise(accumulate(cells, initial=0))
    for (file, _), (first, end) in zip(files, bounds, strict=True):
        chosen = [
            cell - first
            for cell in range(first, end)
            if total <= wanted or cell * wanted // total != (cell + 1) * wanted // total
        ]
        if chosen:
            yield from _documents_in(file, chosen, reading)


def _documents_in(file: SourceFile, cells: Sequence[int], reading: Reading) -> Iterator[bytes]:
    if file.is_streamed:
        groups, wanted = [ChunkGroup(file)], set(cells)  # a stream: read through, kept in part
    else:
        begins = [cell * CELL_BYTES for cell in cells]
        groups, wanted = [ChunkGroup(file, at, at + CELL_BYTES) for at in begins], set()
    for group in groups:
        for chunk, text in read_chunks(group, reading, CELL_BYTES, with_digests=False):
            if not wanted or chunk.begin // CELL_BYTES in wanted:
                yield from _documents_of(text, reading, 0)


def _documents_of(text: ChunkText, reading: Reading, longest: int) -> Iterator[bytes]:
    """The documents of a chunk; those that are longer in sections."""
    documents = documents_between(text, reading.special_bytes)[0]
    for place, document in enumerate(documents.tolist()):
        spans = [document]
        if document[1] - document[0] > longest:
            alone = documents[place : place + 1]
            spans = sections_of(text.text, alone, reading.pattern.cut_pairs).tolist()
        for begin, end in spans:
            yield text.text.bytes(begin, end)


@dataclass(frozen=True, slots=True, eq=False)
class FileDocuments:
    """The documents of one file, by digest: 24 bytes for each.

    A document may begin in one chunk and end in a later one, so the same documents are found
    whatever the size of chunks is.

    Attributes:
        digests: uint64 ``[n, 2]``: BLAKE2b with 128 bits of each document's UTF-8.
        sizes: int64 ``[n]``: bytes of each.
        chunks: of each chunk its ordinal, the number of the first document with a part in it, and
            how many have one.
    """

    digests: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    chunks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The documents that stand earlier in the corpus already.

    Attributes:
        in_chunks: path → ordinal of a chunk → for each of its documents, in order, a byte that is
            1 for a copy; only chunks with copies, only files with such chunks.
        documents: how many copies there are.
        text_bytes: their text.
        of_documents, of_bytes: the whole corpus, copies included.
    """

    in_chunks: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    documents: int = 0
    text_bytes: int = 0
    of_documents: int = 0
    of_bytes: int = 0

    def within(self, path: str, ordinal: int) -> bytes:
        """Which documents of a chunk are copies, see `in_chunks`; empty where none is."""
        found = self.in_chunks.get(path)
        return b"" if found is None else found.get(ordinal, b"")


def digest_documents(
    file: SourceFile,
    reading: Reading,
    chunk_bytes: int,
    on_chunk: Callable[[int], None] | None = None,
) -> FileDocuments:
    """Read a file through, one chunk in memory, and digest each of its documents.

    Args:
        file: which one.
        reading: how its bytes become documents, see `Reading.of_source`.
        chunk_bytes: the grid by which its chunks are counted later.
        on_chunk: called for each chunk with the bytes on disk it stands for.
    """
    digests, sizes = bytearray(), array("q")
    chunks: list[tuple[int, int, int]] = []
    state, size, is_open = blake2b(digest_size=_DIGEST_BYTES), 0, False
    for chunk, text in read_chunks(ChunkGroup(file), reading, chunk_bytes, with_digests=False):
        spans = documents_between(text, reading.special_bytes)[0].tolist()
        data = text.text.data.data
        if is_open and (not spans or spans[0][0] > 0):
            digests += state.digest()
            sizes.append(size)
            is_open = False
        chunks.append((chunk.ordinal, len(sizes), len(spans)))
        for begin, end in spans:
            if not is_open:
                state, size = blake2b(digest_size=_DIGEST_BYTES), 0
            state.update(data[begin:end])
            size += end - begin
            # Only in plain text a document goes on in the next chunk: JSON lines end in theirs.
            is_open = file.format == "text" and end == text.text.size
            if not is_open:
                digests += state.digest()
                sizes.append(size)
        if on_chunk is not None:
            on_chunk(chunk.spent)
    if is_open:
        digests += state.digest()
        sizes.append(size)
    rows = np.frombuffer(bytes(digests), np.uint64).reshape(-1, 2)
    return FileDocuments(rows, np.array(sizes, np.int64), tuple(chunks))


def find_copies(files: Sequence[tuple[str, FileDocuments]]) -> Duplicates:
    """The documents of which an equal one comes earlier.

    Args:
        files: path and documents of every file, in the order of the corpus.
    """
    if not files:
        return Duplicates()
    digests = np.concatenate([one.digests for _, one in files])
    sizes = np.concatenate([one.sizes for _, one in files])
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable: equal ones stay in their order
    ordered = digests[order]
    is_copy = np.zeros(len(sizes), np.uint8)
    is_copy[order[1:]] = np.all(ordered[1:] == ordered[:-1], axis=1)
    in_chunks: dict[str, dict[int, bytes]] = {}
    base = 0
    for path, one in files:
        for ordinal, first, number in one.chunks:
            within = is_copy[base + first : base + first + number]
            if within.any():
                in_chunks.setdefault(path, {})[ordinal] = within.tobytes()
        base += len(one.sizes)
    return Duplicates(
        in_chunks,
        documents=int(is_copy.sum()),
        text_bytes=int(sizes[is_copy == 1].sum()),
        of_documents=len(sizes),
        of_bytes=int(sizes.sum()),
    )


@dataclass(frozen=True, slots=True)
class CopiedSections:
    """Some sections of a text, and how many of them are exact copies of others of them.

    Of held-out sections, which content alone decides, equal ones are held out together: the copies
    among them are the copies in the text, on a smaller scale.

    Attributes:
        sections, bytes: those that were looked at.
        copies, copied_bytes: those of which an equal one was seen before.
    """

    sections: int = 0
    bytes: int = 0
    copies: int = 0
    copied_bytes: int = 0

    @property
    def share(self) -> float:
        """Of the bytes."""
        return self.copied_bytes / self.bytes if self.bytes else 0.0


class SectionSample:
    """Sections by fingerprint, a bounded number of them; their order says nothing.

    Args:
        most: how many distinct ones are kept. Of more, those with the smallest fingerprints, each
            with all of its copies.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._below: np.uint64 | None = None  # what was left out has this fingerprint or a higher
        self._seen = np.zeros(0, _SEEN)
        self._waiting: list[NDArray[np.void]] = []
        self._rows = 0

    def add(self, sections: Sequence[bytes]) -> None:
        """Look at some sections, a few MiB at most."""
        new = np.ones(len(sections), _SEEN)
        new["bytes"] = list(map(len, sections))
        ends = np.cumsum(new["bytes"])
        spans = np.ascontiguousarray(np.stack([ends - new["bytes"], ends], axis=1))
        fingerprints = np.empty(len(sections), np.uint64)
        fingerprint_spans(Text.of(b"".join(sections)).data, spans, fingerprints)
        new["fingerprint"] = fingerprints
        self._waiting.append(new if self._below is None else new[fingerprints < self._below])
        self._rows += len(self._waiting[-1])
        if self._rows > self._most or len(self._waiting) > _TOGETHER:
            self._put_together()

    def result(self) -> CopiedSections:
        """What was seen."""
        self._put_together()
        times, sizes = self._seen["times"], self._seen["bytes"]
        return CopiedSections(
            sections=int(times.sum()),
            bytes=int((times * sizes).sum()),
            copies=int((times - 1).sum()),
            copied_bytes=int(((times - 1) * sizes).sum()),
        )

    def _put_together(self) -> None:
        every = np.concatenate([self._seen, *self._waiting])
        distinct, first, place = np.unique(
            every["fingerprint"], return_index=True, return_inverse=True
        )
        times = np.zeros(len(distinct), np.int64)
        np.add.at(times, place, every["times"])
        self._seen = every[first]  # ascending
        self._seen["times"] = times
        if len(distinct) > self._most:
            self._below = distinct[self._most]
            self._seen = self._seen[: self._most].copy()
        self._waiting, self._rows = [], 0
