"""Which documents of a corpus are exact copies of earlier ones; found by digest, counts nothing."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    Reading,
    SourceFile,
    documents_between,
    read_chunks,
)

_DIGEST_BYTES = 16


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
class Copies:
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
        on_chunk: told of each chunk how many bytes on disk it stands for.

    Raises:
        CorpusError: it cannot be read as declared.
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


def find_copies(files: Sequence[tuple[str, FileDocuments]]) -> Copies:
    """The documents of which an equal one comes earlier.

    Args:
        files: path and documents of every file, in the order of the corpus.
    """
    if not files:
        return Copies()
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
    return Copies(
        in_chunks,
        documents=int(is_copy.sum()),
        text_bytes=int(sizes[is_copy == 1].sum()),
        of_documents=len(sizes),
        of_bytes=int(sizes.sum()),
    )
