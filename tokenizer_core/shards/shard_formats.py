"""What a token shard looks like on disk: its files, how they are written and mapped back.

A format is a value, so that one which needs another library can live where that is allowed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption

_HEADER = 128  # bytes of a .npy file before its numbers
_MAGIC = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")


class ShardWriter(Protocol):
    """Takes the ids of one shard, piece by piece; a writer subclasses it and writes two methods."""

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Append ids.

        Args:
            ids: uint16 or uint32 ``[n]``, as the shard's dtype says.
            ends: where in the whole shard documents end that were not ended before, ascending, in
                ids. What is behind the last one belongs to a document that goes on.
        """

    def close(self) -> None:
        """All ids are there and the last document has ended; release the files."""

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        """The SHA-256 of each file, when they are closed: for who knows them without reading."""
        return [sha256_of(path) for path in paths]


# From a shard's files and its dtype to its ids, and int or uint64 [documents + 1]: their edges.
ReadShard = Callable[[Sequence[Path], np.dtype[Any]], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class ShardFormat:
    """A way to keep the ids of documents.

    Attributes:
        name: as manifests and ``--format`` call it.
        suffixes: of a shard's files, the ids first.
        write: gives a writer, from the (new) files to write and the dtype of the ids.
        read: gives the ids and the edges of documents, memory-mapped where that is possible.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Sequence[Path], str], ShardWriter]
    read: ReadShard


class _NumbersFile:
    """A new file of numbers, appended to without a buffer in between."""

    def __init__(self, path: Path, dtype: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._path, self._dtype = path, dtype
        self._descriptor = os.open(path, flags, 0o666)

    def append(self, numbers: NDArray[Any]) -> None:
        """Write an array in little-endian order."""
        little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
        self._append(little.view(np.uint8).data)

    def _append(self, content: memoryview) -> None:
        while content:
            content = content[os.write(self._descriptor, content) :]

    def close(self) -> None:
        os.close(self._descriptor)

    def sha256(self) -> str:
        """Of the file that was closed."""
        return sha256_of(self._path)


class _HashedFile(_NumbersFile):
    """A file that is hashed as it grows, while others encode and the bytes are in the caches."""

    def __init__(self, path: Path, dtype: str) -> None:
        super().__init__(path, dtype)
        self._hash = hashlib.sha256()

    def _append(self, content: memoryview) -> None:
        self._hash.update(content)
        super()._append(content)

    def sha256(self) -> str:
        return self._hash.hexdigest()


class _NpyFile(_NumbersFile):
    """A one-dimensional array of NumPy; its header is written when the length is known."""

    def __init__(self, path: Path, dtype: str) -> None:
        super().__init__(path, dtype)
        self._append(memoryview(bytes(_HEADER)))
        self._count = 0

    def append(self, numbers: NDArray[Any]) -> None:
        super().append(numbers)
        self._count += len(numbers)

    def close(self) -> None:
        os.pwrite(self._descriptor, _npy_header(self._dtype, self._count), 0)
        super().close()


class _TwoFiles(ShardWriter):
    """Ids in one file; in the other uint64, where documents begin, and the end."""

    def __init__(self, file: type[_NumbersFile], paths: Sequence[Path], dtype: str) -> None:
        self._ids, self._edges = file(paths[0], dtype), file(paths[1], "uint64")
        self._edges.append(np.zeros(1, np.uint64))

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        self._edges.append(ends.view(np.uint64))

    def close(self) -> None:
        self._ids.close()
        self._edges.close()

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        return self._ids.sha256(), self._edges.sha256()


def _npy_header(dtype: str, count: int) -> bytes:
    """The opening of a .npy file, version 1.0, filled up to a length that holds any count."""
    little = np.dtype(dtype).newbyteorder("<").str
    fields = f"{{'descr': '{little}', 'fortran_order': False, 'shape': ({count},), }}"
    return _MAGIC + fields.encode().ljust(_HEADER - len(_MAGIC) - 1) + b"\n"


def _mapped(path: Path, dtype: np.dtype[Any], offset: int) -> NDArray[Any]:
    if path.stat().st_size <= offset:  # nothing cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", offset)


def _read(
    offset: int, paths: Sequence[Path], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    return _mapped(paths[0], dtype, offset), _mapped(paths[1], np.dtype("<u8"), offset)


# NAME.bin: ids; NAME.idx: edges.
BIN = ShardFormat("bin", (".bin", ".idx"), partial(_TwoFiles, _HashedFile), partial(_read, 0))
# The same numbers, each file with a header before them.
NPY = ShardFormat(
    "npy", (".npy", ".idx.npy"), partial(_TwoFiles, _NpyFile), partial(_read, _HEADER)
)
_FORMATS = {format.name: format for format in (BIN, NPY)}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shard_format(format: str | ShardFormat) -> ShardFormat:
    """A format by its name, or the format that was given.

    Raises:
        InvalidOption: there is none of that name here.
    """
    if isinstance(format, ShardFormat):
        return format
    if format not in _FORMATS:
        raise InvalidOption(
            f"the core knows no token shards of the format {format!r}",
            f"{', '.join(_FORMATS)}; or a ShardFormat, such as PARQUET of registry.token_parquet",
            'format="bin"; `bpeline encode` writes all formats',
        )
    return _FORMATS[format]
