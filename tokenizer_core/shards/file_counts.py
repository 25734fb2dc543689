"""How many tokens files have: what `shard_job` would write, counted and let go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import SourceFile
from bpeline.tokenizer_core.shards.file_encoding import FileEncoding, encode_in_order
from bpeline.tokenizer_core.shards.shard_formats import ShardWriter
from bpeline.tokenizer_core.shards.shard_job import OpenShard
from bpeline.tokenizer_core.shards.shard_plan import whole_file


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


def count_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[FileCount]:
    """Count files one after the other, on all processors, in bounded memory.

    Args:
        encoding, files: what is counted.
        threads: how many; by default one per available processor.
        on_progress: told how many more bytes of the files (on disk) are done.

    Raises:
        InvalidOption: less than one thread.
        UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read; the counts of the
            files before it have been given.
    """
    pieces = (
        piece
        for file in files
        for piece in whole_file(file, encoding.reading, encoding.piece_bytes)
    )
    with closing(encode_in_order(encoding, pieces, threads)) as encoded:
        counted = OpenShard(_Nowhere(), encoding)
        for piece, ids in encoded:
            counted.add(ids, piece.ends_file)
            if on_progress is not None:
                on_progress(piece.spent)
            if piece.ends_file:
                yield FileCount(piece.file.path, counted.tokens, counted.documents, counted.size)
                counted = OpenShard(_Nowhere(), encoding)


class _Nowhere(ShardWriter):
    """A shard that nobody wants to keep."""

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        pass

    def close(self) -> None:
        pass
