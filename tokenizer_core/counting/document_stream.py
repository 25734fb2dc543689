"""Read the documents of files: all, an even sample, or only to find copies."""

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
    ReadOptions,
    SourceFile,
    documents_between,
    in_parts,
    read_chunks,
    sections_of,
)
from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

CELL_BYTES = 16 << 10  # of the grid of a sample

_DIGEST_BYTES = 16

_MOST_KEPT = 1 << 20  # distinct sections, of 24 bytes each
_TOGETHER = 1 << 12  # lists to merge at once
_SEEN = np.dtype([("fingerprint", np.uint64), ("bytes", np.int64), ("times", np.int64)])


def documents_of(
    files: Iterable[SourceFile], reading: ReadOptions, digests: list[str] | None = None
) -> Iterator[bytes]:
    """Yield documents in UTF-8, without special tokens; one chunk is in memory.

    A document longer than 64 KiB comes in sections of about 4 KiB, cut where no pre-token crosses:
    a file without separators would be one document, which cannot be resampled. ``digests`` receives
    the digest of every chunk.
    """
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading, with_digests=digests is not None)
        for chunk, text in chunks:
            if digests is not None:
                digests.append(chunk.digest)
            yield from _documents_of(text, reading, LONG)


def evaluation_documents(files: Iterable[SourceFile], reading: ReadOptions) -> Iterator[bytes]:
    """Yield the documents of an evaluation set, as `in_parts` cuts them."""
    reading = replace(reading, pattern=SplitPattern.named("gpt2"))  # only decides where chunks end
    for file in files:
        for _, text in read_chunks(ChunkGroup(file), reading, with_digests=False):
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                yield from in_parts(text.text.bytes(begin, end))


def sample_documents(
    files: Sequence[tuple[SourceFile, int]], reading: ReadOptions, limit: int
) -> Iterator[bytes]:
    """Yield documents from evenly spaced places, in order; all documents if they fit.

    Places are 16 KiB cells of a file's grid, so every file has its share, and little more is read
    of a plain file than is yielded. Long documents come in sections of about 4 KiB, like held-out
    ones.

    Args:
        files: each with the bytes of its decompressed text.
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


def _documents_in(file: SourceFile, cells: Sequence[int], reading: ReadOptions) -> Iterator[bytes]:
    if file.is_streamed:
        groups, wanted = [ChunkGroup(file)], set(cells)  # a stream is read through
    else:
        begins = [cell * CELL_BYTES for cell in cells]
        groups, wanted = [ChunkGroup(file, at, at + CELL_BYTES) for at in begins], set()
    for group in groups:
        for chunk, text in read_chunks(group, reading, CELL_BYTES, with_digests=False):
            if not wanted or chunk.begin // CELL_BYTES in wanted:
                yield from _documents_of(text, reading, 0)


def _documents_of(text: ChunkText, reading: ReadOptions, longest: int) -> Iterator[bytes]:
    """Yield the documents of a chunk; those above ``longest`` bytes in sections."""
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
    """The digests of the documents of one file, 24 bytes for each document.

    A document may cross chunks, so documents do not depend on the chunk size.

    Attributes:
        digests: uint64 ``[n, 2]``: BLAKE2b with 128 bits of each document's UTF-8.
        sizes: int64 ``[n]``: bytes of each.
        chunks: of each chunk (ordinal, number of the first document in it, how many are in it).
    """

    digests: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    chunks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The documents that equal an earlier one in the corpus.

    Attributes:
        in_chunks: path → ordinal of a chunk → a byte for each of its documents, in order, 1 for a
            copy; only files and chunks with copies.
        documents, text_bytes: how many copies there are, and their text.
        of_documents, of_bytes: the whole corpus, copies included.
    """

    in_chunks: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    documents: int = 0
    text_bytes: int = 0
    of_documents: int = 0
    of_bytes: int = 0

    def within(self, path: str, ordinal: int) -> bytes:
        """Return the bytes of `in_chunks` for a chunk; empty if it has no copies."""
        chunks = self.in_chunks.get(path)
        return b"" if chunks is None else chunks.get(ordinal, b"")


def digest_documents(
    file: SourceFile,
    reading: ReadOptions,
    chunk_bytes: int,
    on_chunk: Callable[[int], None] | None = None,
) -> FileDocuments:
    """Digest each document of a file, with one chunk in memory.

    ``chunk_bytes`` is that of counting. ``on_chunk`` is called with each chunk's bytes on disk.
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
            # Only a document of plain text goes on in the next chunk.
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
    """Find the documents that equal an earlier one; files are in corpus order."""
    if not files:
        return Duplicates()
    digests = np.concatenate([documents.digests for _, documents in files])
    sizes = np.concatenate([documents.sizes for _, documents in files])
    order = np.lexsort(
        (digests[:, 1], digests[:, 0])
    )  # stable: the first of equal ones comes first
    ordered = digests[order]
    is_copy = np.zeros(len(sizes), np.uint8)
    is_copy[order[1:]] = np.all(ordered[1:] == ordered[:-1], axis=1)
    in_chunks: dict[str, dict[int, bytes]] = {}
    base = 0
    for path, documents in files:
        for ordinal, first, number in documents.chunks:
            within = is_copy[base + first : base + first + number]
            if within.any():
                in_chunks.setdefault(path, {})[ordinal] = within.tobytes()
        base += len(documents.sizes)
    return Duplicates(
        in_chunks,
        documents=int(is_copy.sum()),
        text_bytes=int(sizes[is_copy == 1].sum()),
        of_documents=len(sizes),
        of_bytes=int(sizes.sum()),
    )


@dataclass(frozen=True, slots=True)
class CopiedSections:
    """Sections of a sample, and how many of them equal an earlier one.

    Equal sections are held out together, because content decides. So the share of copies among
    held-out sections estimates that of the whole text.
    """

    sections: int = 0
    bytes: int = 0
    copies: int = 0
    copied_bytes: int = 0

    @property
    def share(self) -> float:
        """Share of copies in the bytes."""
        return self.copied_bytes / self.bytes if self.bytes else 0.0


class SectionSample:
    """Counts sections by fingerprint, in any order.

    At most ``most`` distinct sections are kept: those with the smallest fingerprints, each with all
    of its copies.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._below: np.uint64 | None = (
            None  # dropped sections have this fingerprint or a higher one
        )
        self._seen = np.zeros(0, _SEEN)
        self._waiting: list[NDArray[np.void]] = []
        self._rows = 0

    def add(self, sections: Sequence[bytes]) -> None:
        """Add some sections, a few MiB at most."""
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
