"""Formats of token shards: their files, how they are written and mapped back.

Parquet has a column ``ids``, a list of uint16 or uint32 for each document. Encoded documents have
``id`` as well: their id as text (numbers in digits), or null. Parquet needs pyarrow.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

if TYPE_CHECKING:
    import pyarrow

NPY_HEADER = 128  # bytes of a .npy file before its numbers
_MAGIC = b"\x93NUMPY\x01\x00"
_LENGTH_BYTES = 2

# Header of an .idx file of Megatron-LM: magic, version, dtype code, sequences, documents + 1.
_MEGATRON = struct.Struct("<9sQBQQ")
_MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
_MEGATRON_CODES = {"uint16": 8, "int32": 4}
_MEGATRON_UINT16 = 65_500  # with so many ids or more, it stores int32
_MOST_INT32 = (1 << 31) - 1
_MAPPED = 1_000  # shards; a process may map some 65,000 files
_BLOCK = 1 << 17  # numbers at a time

COLUMN = "ids"
ID = "id"
_GROUP_TOKENS = 1 << 22  # of a row group, about; readers hold one group


class NumbersFile:
    """A new file, appended to without a buffer in between; its path must not exist."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.path, self.dtype = path, np.dtype(dtype)
        self._descriptor = os.open(path, flags, 0o666)

    def append(self, numbers: NDArray[Any]) -> None:
        """Write an array in little-endian order."""
        little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
        self.write(little.view(np.uint8).data)

    def write(self, content: bytes | memoryview) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def write_over(self, begin: int, content: bytes) -> None:
        """Replace bytes that were written, such as a header that the end decides."""
        os.pwrite(self._descriptor, content, begin)

    def close(self) -> None:
        os.close(self._descriptor)

    def sha256(self) -> str:
        """Hash the closed file."""
        return sha256_of(self.path)


class HashedFile(NumbersFile):
    """A file that is hashed while it is written, in parallel with encoding."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any]) -> None:
        super().__init__(path, dtype)
        self._hash = hashlib.sha256()

    def write(self, content: bytes | memoryview) -> None:
        self._hash.update(content)
        super().write(content)

    def sha256(self) -> str:
        return self._hash.hexdigest()


class NpyFile(NumbersFile):
    """A one-dimensional array of NumPy; the header is written at the end."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any], header: int = NPY_HEADER) -> None:
        super().__init__(path, dtype)
        self.write(bytes(header))
        self._header = header
        self._count = 0

    def append(self, numbers: NDArray[Any]) -> None:
        super().append(numbers)
        self._count += len(numbers)

    def close(self) -> None:
        self.write_over(0, _npy_header(self.dtype, self._count, self._header))
        super().close()


def _npy_header(dtype: np.dtype[Any], count: int, size: int) -> bytes:
    """Return a .npy header, version 1.0, padded to a length that holds any count."""
    little = np.lib.format.dtype_to_descr(dtype.newbyteorder("<"))
    fields = f"{{'descr': {little!r}, 'fortran_order': False, 'shape': ({count},), }}".encode()
    rest = size - len(_MAGIC) - _LENGTH_BYTES
    return _MAGIC + rest.to_bytes(_LENGTH_BYTES, "little") + fields.ljust(rest - 1) + b"\n"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ShardWriter(Protocol):
    """Writes the ids of one shard, piece by piece; subclass it for `add` and `close`."""

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Append ids.

        Args:
            ids: ``[n]``, of the shard's dtype.
            ends: ends of further documents, ascending positions in the ids of the whole shard. Ids
                after the last end belong to a document that goes on.
        """

    def close(self) -> None:
        """Release the files after the last document has ended."""

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        """Return the SHA-256 of each closed file; override it if they are known."""
        return [sha256_of(path) for path in paths]


class RowWriter(ShardWriter, Protocol):
    """A writer that stores the id of each document."""

    def name(self, ids: Sequence[bytes], number: int) -> None:
        """Name the next ``number`` documents, before they end.

        ``ids`` has ASCII JSON for each of them, empty for no id; or no item at all.
        """


# From a shard's files and dtype to its ids and edges, int or uint64 [documents + 1].
ReadShard = Callable[[Sequence[Path], np.dtype[Any]], tuple[NDArray[Any], NDArray[Any]]]


def smallest_dtype(ids: int) -> str:
    """Return ``uint16`` if all of ``ids`` ids fit, else ``uint32``."""
    return "uint16" if ids <= 1 << 16 else "uint32"


@dataclass(frozen=True, slots=True)
class ShardFormat:
    """A file format for the ids of documents.

    Attributes:
        name: in manifests and for ``--format``.
        suffixes: of a shard's files, the ids first.
        write: creates a writer, from the (new) files and the dtype of the ids.
        read: returns the ids and the edges of documents, memory-mapped if possible.
        dtype: returns ``uint16``, ``uint32`` or ``int32`` for a number of ids (largest id + 1).
        kept: how many shards a reader may keep open; mapped ones cost little.
        write_rows: creates a writer that stores the ids of documents; None if the format cannot.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Sequence[Path], str], ShardWriter]
    read: ReadShard
    dtype: Callable[[int], str] = smallest_dtype
    kept: int = 1
    write_rows: Callable[[Sequence[Path], str], RowWriter] | None = None


class _TwoFiles(ShardWriter):
    """Ids in one file, and where documents begin, and the end, as uint64 in another."""

    def __init__(self, file: type[NumbersFile], paths: Sequence[Path], dtype: str) -> None:
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


def _mapped(path: Path, dtype: np.dtype[Any], offset: int) -> NDArray[Any]:
    if path.stat().st_size <= offset:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", offset)


def _read(
    offset: int, paths: Sequence[Path], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    return _mapped(paths[0], dtype, offset), _mapped(paths[1], np.dtype("<u8"), offset)


class _MegatronIndex(NumbersFile):
    """An .idx file of Megatron-LM: lengths, then begins of sequences, then documents.

    Lengths are written as they come; the rest is derived from them.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        super().__init__(path, dtype)
        self.write(bytes(_MEGATRON.size))
        self._count = 0

    def append(self, numbers: NDArray[Any]) -> None:
        super().append(numbers.astype("<i4"))
        self._count += len(numbers)

    def close(self) -> None:
        begin, width = 0, self.dtype.itemsize
        for first in range(0, self._count, _BLOCK):
            size = min(_BLOCK, self._count - first)
            lengths = np.fromfile(self.path, "<i4", size, offset=_MEGATRON.size + 4 * first)
            ends = begin + np.cumsum(lengths, dtype=np.int64) * width
            super().append(np.append(begin, ends[:-1]))
            begin = int(ends[-1])
        for first in range(0, self._count + 1, _BLOCK):
            super().append(np.arange(first, min(first + _BLOCK, self._count + 1), dtype=np.int64))
        counts = _MEGATRON_CODES[self.dtype.name], self._count, self._count + 1
        self.write_over(0, _MEGATRON.pack(_MEGATRON_MAGIC, 1, *counts))
        super().close()


class _Megatron(ShardWriter):
    """NAME.bin and NAME.idx as Megatron-LM writes them, with a sequence per document."""

    def __init__(self, paths: Sequence[Path], dtype: str) -> None:
        self._ids, self._index = HashedFile(paths[0], dtype), _MegatronIndex(paths[1], dtype)
        self._end = 0

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        if not len(ends):
            return
        lengths = np.diff(ends, prepend=self._end)
        if int(lengths.max()) > _MOST_INT32:
            raise InvalidOption(
                f"a document has {int(lengths.max())} ids",
                f"expected at most {_MOST_INT32}: the format megatron stores lengths as int32",
                "divide the document, or choose another format",
            )
        self._index.append(lengths)
        self._end = int(ends[-1])

    def close(self) -> None:
        self._ids.close()
        self._index.close()

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        return self._ids.sha256(), self._index.sha256()


def _read_megatron(
    paths: Sequence[Path], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    ids, (bin, index) = _mapped(paths[0], dtype, 0), paths
    with open_file(index) as file:
        head = file.read(_MEGATRON.size)
    size = index.stat().st_size
    fields = _MEGATRON.unpack(head) if len(head) == _MEGATRON.size else (b"", 0, 0, 0, 0)
    count = int(fields[3])
    expected = _MEGATRON_MAGIC, 1, _MEGATRON_CODES.get(dtype.name), count, count + 1
    # Each sequence: 4 bytes for its length, 8 for its begin, 8 for a document.
    if fields != expected or size != _MEGATRON.size + 20 * count + 8:
        raise CorruptFile(
            f"{index} is not the index of {bin.name}",
            f"expected the index of Megatron-LM that was written with it, of {dtype.name} ids",
            "encode the files again",
        )
    begins = np.fromfile(index, "<i8", count, offset=_MEGATRON.size + 4 * count)
    return ids, np.append(begins // dtype.itemsize, len(ids))


def _megatron_dtype(ids: int) -> str:
    if ids - 1 > _MOST_INT32:
        raise InvalidOption(
            f"the largest id is {ids - 1}",
            f"expected at most {_MOST_INT32}: the format megatron stores ids as uint16 or int32",
            "choose another format",
        )
    return "uint16" if ids < _MEGATRON_UINT16 else "int32"


class _ParquetWriter(ShardWriter):
    """NAME.parquet: row groups of whole documents, zstd."""

    def __init__(self, paths: Sequence[Path], dtype: str, with_ids: bool = False) -> None:
        import pyarrow
        import pyarrow.parquet

        self._type = pyarrow.list_(pyarrow.from_numpy_dtype(np.dtype(dtype)))
        fields = [pyarrow.field(COLUMN, self._type, nullable=False)]
        names = [ID] if with_ids else []
        fields += [pyarrow.field(name, pyarrow.string()) for name in names]
        self._schema = pyarrow.schema(fields)
        self._file = pyarrow.parquet.ParquetWriter(
            paths[0], self._schema, compression="zstd", use_dictionary=names, write_statistics=names
        )
        self._dtype = dtype
        self._written = 0  # ids in row groups
        self._ids: list[NDArray[Any]] = []
        self._held = 0  # ids not in row groups yet
        self._ends: list[NDArray[np.int64]] = []

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        self._held += len(ids)
        self._ends.append(ends)
        if self._held >= _GROUP_TOKENS:
            self._write_group()

    def _write_group(self) -> None:
        """Write the documents that have ended; keep the open one."""
        import pyarrow

        ends = np.concatenate(self._ends) - self._written
        if not len(ends):
            return
        ids = np.concatenate(self._ids)
        edges = np.append(0, ends)
        complete = int(edges[-1])
        rows = pyarrow.ListArray.from_arrays(
            pyarrow.array(edges, pyarrow.int32()), pyarrow.array(ids[:complete]), type=self._type
        )
        columns = [rows, *self._columns(len(ends))]
        self._file.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._written += complete
        self._ids, self._ends = [ids[complete:]], []
        self._held = len(ids) - complete

    def _columns(self, rows: int) -> list[pyarrow.Array]:
        """Return the other columns of the next rows."""
        return []

    def close(self) -> None:
        if self._ends:
            self._write_group()
        self._file.close()


class _ParquetRowWriter(_ParquetWriter, RowWriter):
    """`_ParquetWriter` with the id of each document."""

    def __init__(self, paths: Sequence[Path], dtype: str) -> None:
        super().__init__(paths, dtype, with_ids=True)
        self._waiting: deque[str | None] = deque()

    def name(self, ids: Sequence[bytes], number: int) -> None:
        self._waiting.extend(map(_id_of, ids) if ids else [None] * number)

    def _columns(self, rows: int) -> list[pyarrow.Array]:
        import pyarrow

        return [pyarrow.array([self._waiting.popleft() for _ in range(rows)], pyarrow.string())]


def _id_of(given: bytes) -> str | None:
    """Return a document's id as text, a number in digits."""
    if not given:
        return None
    value = json.loads(given)
    return value if isinstance(value, str) else given.decode()


def _read_parquet(paths: Sequence[Path], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(paths[0], columns=[COLUMN])
    chunks: list[pyarrow.ListArray] = table.column(COLUMN).chunks
    ids = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    lengths = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in chunks]
    edges = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]), dtype=np.int64)
    return np.concatenate([np.empty(0, dtype), *ids]), edges


# NAME.bin: ids; NAME.idx: edges.
BIN = ShardFormat(
    "bin", (".bin", ".idx"), partial(_TwoFiles, HashedFile), partial(_read, 0), kept=_MAPPED
)

# The same numbers, each file with a header.
NPY = ShardFormat(
    "npy",
    (".npy", ".idx.npy"),
    partial(_TwoFiles, NpyFile),
    partial(_read, NPY_HEADER),
    kept=_MAPPED,
)

# For Megatron-LM and NeMo: ``--data-path DIRECTORY/NAME``.
MEGATRON = ShardFormat(
    "megatron", (".bin", ".idx"), _Megatron, _read_megatron, _megatron_dtype, _MAPPED
)

PARQUET = ShardFormat(
    "parquet", (".parquet",), _ParquetWriter, _read_parquet, write_rows=_ParquetRowWriter
)

_FORMATS = {format.name: format for format in (BIN, NPY, MEGATRON, PARQUET)}


def shard_format(format: str | ShardFormat) -> ShardFormat:
    """Return a format by its name, or a `ShardFormat` as it is."""
    if isinstance(format, ShardFormat):
        return format
    if format not in _FORMATS:
        raise InvalidOption(
            f"there is no shard format {format!r}",
            f"expected {', '.join(_FORMATS)}, or a ShardFormat",
            'format="bin"',
        )
    return _FORMATS[format]
