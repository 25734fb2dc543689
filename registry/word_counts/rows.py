"""Read and write word counts and documents in Parquet files.

Files are verified by a digest of their rows, because the bytes of a Parquet file depend on the
release of its writer. `pyarrow.array` and `pyarrow.table` are avoided: they import pandas.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.word_counts.arrow_columns import batch_of, document_batch, filled, words_of
from bpeline.registry.workspace import Workspace, damaged, fetch, writing_shared
from bpeline.tokenizer_core.bounded_files import UnfitFile, open_file
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.splitting import SplitPattern

_COUNTS = {
    "word": "DELTA_LENGTH_BYTE_ARRAY", "count": "PLAIN", "first_position": "DELTA_BINARY_PACKED",
    "chunk": "DELTA_BINARY_PACKED",
}  # fmt: skip
_DOCUMENTS = {"document": "DELTA_LENGTH_BYTE_ARRAY", "chunk": "DELTA_BINARY_PACKED"}
_ROWS_IN_BATCH = 1 << 18
_LARGEST_FOOTER = 1 << 24  # bytes of a string, and members of a list, in a file's metadata


@dataclass(frozen=True, slots=True)
class Rows:
    """The expected content of a file.

    Attributes:
        size: total bytes of all words or documents.
        digest: of words, counts and positions, or of documents, in order.
    """

    number: int
    size: int
    digest: str

    def __post_init__(self) -> None:
        check_fields(self)


class _Digest:
    """Digest of rows that arrive in parts; independent of the part boundaries."""

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in range(4)]
        self._number = self._size = 0

    def add(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64], *numbers: NDArray[np.int64]
    ) -> None:
        columns = (content[offsets[0] : offsets[-1]], np.diff(offsets), *numbers)
        for digest, column in zip(self._columns, columns, strict=False):
            digest.update(np.ascontiguousarray(column).data)
        self._number += len(offsets) - 1
        self._size += int(offsets[-1] - offsets[0])

    def rows(self) -> Rows:
        digest = digest_of([self._number, *(column.hexdigest() for column in self._columns)])
        return Rows(self._number, self._size, digest)


class CountsFile:
    """Writer of a counts file, part by part; without parts, no file is created."""

    def __init__(self, workspace: Workspace, path: Path) -> None:
        self._workspace, self._path = workspace, path
        self._digest = _Digest()
        self._files = ExitStack()
        self._writer: Any = None
        self.total = self.total_bytes = 0

    @property
    def rows(self) -> Rows:
        """The rows added so far."""
        return self._digest.rows()

    def add(self, counts: WordCounts, chunks: NDArray[np.int32] | None = None) -> None:
        """Append rows; ``chunks`` is the index of each row's chunk in the file."""
        batch = batch_of(counts, chunks)
        if self._writer is None:
            aside = self._files.enter_context(writing_shared(self._workspace, self._path))
            self._writer = self._files.enter_context(_writer(aside, batch.schema, _COUNTS))
        self._writer.write_batch(batch)
        self._digest.add(counts.word_bytes, counts.offsets, counts.counts, counts.first_positions)
        self.total += counts.total
        self.total_bytes += counts.total_bytes

    def __enter__(self) -> CountsFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._files.__exit__(*error)


def read_counts(
    path: Path, expected: Rows, pattern: SplitPattern, sharing: Workspace
) -> WordCounts:
    """Read and verify a counts file."""
    with _reading(path, sharing) as batches:
        counts = filled(batches, expected.number, expected.size, pattern)
        digest = _Digest()
        digest.add(counts.word_bytes, counts.offsets, counts.counts, counts.first_positions)
        if digest.rows() != expected:
            raise ValueError
        return counts


def write_documents(
    path: Path, documents: Sequence[bytes], chunks: NDArray[np.int32] | None, sharing: Workspace
) -> Rows:
    """Write a documents file, to the shared store first."""
    batch = document_batch(documents, chunks)
    content, offsets = words_of(batch.column(0))
    digest = _Digest()
    digest.add(content, offsets)
    with (
        writing_shared(sharing, path) as aside,
        _writer(aside, batch.schema, _DOCUMENTS) as writer,
    ):
        writer.write_batch(batch)
    return digest.rows()


def read_documents(path: Path, expected: Rows, sharing: Workspace) -> list[bytes]:
    """Read and verify a documents file."""
    documents: list[bytes] = []
    digest = _Digest()
    with _reading(path, sharing) as batches:
        for batch in batches:
            content, offsets = words_of(batch.column(0))
            offsets = offsets.astype(np.int64)
            digest.add(content, offsets)
            ends = offsets.tolist()
            documents += [content[begin:end].tobytes() for begin, end in pairwise(ends)]
        if digest.rows() != expected:
            raise ValueError
    return documents


def _writer(path: Path, schema: Any, encodings: dict[str, str]) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(
        str(path),
        schema,
        compression="lz4",
        use_dictionary=False,
        column_encoding={name: encodings[name] for name in schema.names},
        write_statistics=False,
        write_page_checksum=True,
    )


@contextmanager
def _reading(path: Path, sharing: Workspace) -> Iterator[Iterator[Any]]:
    """Yield the batches of a file, fetched from the shared store if missing."""
    import pyarrow
    from pyarrow import parquet

    fetch(sharing, path)
    try:
        with (
            open_file(path) as content,
            parquet.ParquetFile(
                content,
                pre_buffer=False,  # avoids a C++ thread: if it cannot start, the process aborts
                thrift_string_size_limit=_LARGEST_FOOTER,
                thrift_container_size_limit=_LARGEST_FOOTER,
                page_checksum_verification=True,
            ) as file,
        ):
            yield file.iter_batches(_ROWS_IN_BATCH, use_threads=False)
    except MemoryError:  # also raised by pyarrow
        raise
    except (OSError, ValueError, IndexError, KeyError, TypeError, pyarrow.ArrowException) as error:
        reason = error.errno if isinstance(error, OSError) else None  # pyarrow sets no errno
        if reason in (None, errno.ENOENT) or isinstance(error, UnfitFile):
            raise damaged(path) from error
        raise StorageError(
            f"the word counts {path} cannot be read: {error}",
            "expected a file that this user may read, on a working disk",
            "fix this, then run the same command again",
        ) from error
