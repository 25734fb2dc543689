"""What `shard_job` would write, kept in memory or only counted; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import SourceFile
from bpeline.tokenizer_core.kernels.memory.pages import reserved
from bpeline.tokenizer_core.shards.file_encoding import FileEncoding, encode_in_order
from bpeline.tokenizer_core.shards.in_turn import encode_in_turn
from bpeline.tokenizer_core.shards.shard_job import OpenShard
from bpeline.tokenizer_core.shards.shard_plan import whole_files


class DocumentIds(Sequence[NDArray[Any]]):
    """The ids of documents, one array for each; all of them lie in one.

    Attributes:
        ids: uint16 or uint32 ``[n]``: documents in the order in which they were read.
        edges: int64 ``[documents + 1]``: where documents begin in ``ids``, and the end.
    """

    def __init__(self, ids: NDArray[Any], edges: NDArray[np.int64]) -> None:
        self.ids = ids
        self.edges = edges

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.edges) - 1

    def __getitem__(self, number: Any) -> Any:
        """The ids of one document ``[n]``, without a copy; of a slice, a list of them."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        begin = range(len(self))[number]
        return self.ids[self.edges[begin] : self.edges[begin + 1]]


@dataclass(frozen=True, slots=True)
class FileCount:
    """What one file holds: ids (end-of-text ids too), documents, and bytes of their text."""

    path: str
    tokens: int
    documents: int
    bytes: int

    @property
    def bytes_per_token(self) -> float | None:
        """None where there is no token."""
        return self.bytes / self.tokens if self.tokens else None


def gather_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> DocumentIds:
    """Encode files on all processors and keep the ids.

    Args:
        encoding, files: what is encoded.
        threads: how many; by default one per available processor.
        on_progress: told how many more bytes of the files (on disk) are done.

    Raises:
        InvalidOption: less than one thread.
        UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read.
    """
    # NumPy copies while other threads go on; a bytearray would keep them waiting.
    dtype = np.dtype(encoding.dtype)
    gathered = reserved(sum(file.size for file in files), dtype)
    edges, size = bytearray(8), 0

    def add(ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        nonlocal gathered, size
        behind = size + len(ids)
        if behind > len(gathered):  # of compressed files
            larger = reserved(2 * behind, dtype)
            larger[:size] = gathered[:size]
            gathered = larger
        gathered[size:behind] = ids
        edges.extend(ends.view(np.uint8).data)
        size = behind

    piece_bytes = encoding.piece_of(sum(file.size for file in files), threads)
    shard = OpenShard(add, encoding)
    encode_in_turn(encoding, encoding.pieces(files, piece_bytes), threads, shard.add, on_progress)
    shard.close_document()
    return DocumentIds(gathered[:size], np.frombuffer(edges, np.int64))


def count_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[FileCount]:
    """Count files one after the other, in bounded memory; arguments and errors of `gather_files`.

    When a file cannot be read, the counts of the files before it have been given.
    """
    counted = OpenShard(_let_go, encoding)
    pieces = whole_files(files, encoding.reading, encoding.piece_bytes, encoding.id_field)
    with closing(encode_in_order(encoding, pieces, threads)) as encoded:
        for piece, ids in encoded:
            if on_progress is not None:
                on_progress(piece.spent)
            counted.add(piece, ids)
            if piece.ends_file:
                yield FileCount(piece.file.path, counted.tokens, counted.documents, counted.size)
                counted = OpenShard(_let_go, encoding)


def _let_go(ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
    pass
