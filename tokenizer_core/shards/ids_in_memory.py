"""Token ids of many documents in memory: what `shard_job` would write, gathered; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import SourceFile
from bpeline.tokenizer_core.shards.file_encoding import FileEncoding, encode_in_order
from bpeline.tokenizer_core.shards.shard_formats import ShardWriter
from bpeline.tokenizer_core.shards.shard_job import OpenShard
from bpeline.tokenizer_core.shards.shard_plan import whole_file


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
    piece_bytes = encoding.piece_of(sum(file.size for file in files), threads)
    pieces = (piece for file in files for piece in whole_file(file, encoding.reading, piece_bytes))
    gathered = _Gathered()
    shard = OpenShard(gathered, encoding)
    with closing(encode_in_order(encoding, pieces, threads)) as encoded:
        for piece, ids in encoded:
            shard.add(ids, piece.ends_file)
            if on_progress is not None:
                on_progress(piece.spent)
    shard.close_document()
    return gathered.documents(encoding.dtype)


class _Gathered(ShardWriter):
    """Grows in place: a bytearray of many megabytes is moved by its page table, not copied."""

    def __init__(self) -> None:
        self._ids = bytearray()
        self._edges = bytearray(8)

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids += ids.view(np.uint8).data
        self._edges += ends.view(np.uint8).data

    def close(self) -> None:
        pass

    def documents(self, dtype: str) -> DocumentIds:
        return DocumentIds(np.frombuffer(self._ids, dtype), np.frombuffer(self._edges, np.int64))
