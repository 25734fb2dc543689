"""What a token shard looks like on disk: its files, how they are written and mapped back.

A format is a value, so that one which needs another library can live where that is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.shards.number_files import (
    NPY_HEADER,
    HashedFile,
    NpyFile,
    NumbersFile,
    sha256_of,
)

# The opening of an .idx file of Megatron-LM: magic, version, code of the dtype, sequences, and one
# more than documents.
_MEGATRON = struct.Struct("<9sQBQQ")
_MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
_MEGATRON_CODES = {"uint16": 8, "int32": 4}
_MEGATRON_UINT16 = 65_500  # ids from which on it keeps them as int32
_MOST_INT32 = (1 << 31) - 1
_MAPPED = 1_000  # shards; a process may map some 65,000 files
_BLOCK = 1 << 17  # numbers at a time, where a file is derived from another part of it


class ShardWriter(Protocol):
    """Takes the ids of one shard, piece by piece; a writer subclasses it and writes two methods."""

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        """Append ids.

        Args:
            ids: ``[n]``, of the shard's dtype.
            ends: where in the whole shard documents end that were not ended before, ascending, in
                ids. What is behind the last one belongs to a document that goes on.
        """

    def close(self) -> None:
        """All ids are there and the last document has ended; release the files."""

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        """The SHA-256 of each file, when they are closed: for who knows them without reading."""
        return [sha256_of(path) for path in paths]


class RowWriter(ShardWriter, Protocol):
    """A writer that keeps the id of each document."""

    def name(self, ids: Sequence[bytes], number: int) -> None:
        """Name the next ``number`` documents, before they end.

        Args:
            ids: for each of them JSON in ASCII, empty for none; or nothing at all.
            number: how many they are.
        """


# From a shard's files and its dtype to its ids, and int or uint64 [documents + 1]: their edges.
ReadShard = Callable[[Sequence[Path], np.dtype[Any]], tuple[NDArray[Any], NDArray[Any]]]


def smallest_dtype(ids: int) -> str:
    """``uint16`` where all of ``ids`` ids fit, else ``uint32``."""
    return "uint16" if ids <= 1 << 16 else "uint32"


@dataclass(frozen=True, slots=True)
class ShardFormat:
    """A way to keep the ids of documents.

    Attributes:
        name: as manifests and ``--format`` call it.
        suffixes: of a shard's files, the ids first.
        write: gives a writer, from the (new) files to write and the dtype of the ids.
        read: gives the ids and the edges of documents, memory-mapped where that is possible.
        dtype: of the ids, from how many there are (one more than the greatest): ``uint16``,
            ``uint32`` or ``int32``.
        kept: how many shards that were read a reader may hold on to: what is mapped costs little.
        write_rows: gives a writer that keeps the ids of documents; None where the format has no
            room for them.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Sequence[Path], str], ShardWriter]
    read: ReadShard
    dtype: Callable[[int], str] = smallest_dtype
    kept: int = 1
    write_rows: Callable[[Sequence[Path], str], RowWriter] | None = None


class _TwoFiles(ShardWriter):
    """Ids in one file; in the other uint64, where documents begin, and the end."""

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
    if path.stat().st_size <= offset:  # nothing cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", offset)


def _read(
    offset: int, paths: Sequence[Path], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    return _mapped(paths[0], dtype, offset), _mapped(paths[1], np.dtype("<u8"), offset)


class _MegatronIndex(NumbersFile):
    """An .idx file of Megatron-LM: lengths, then where sequences begin, then documents.

    Lengths are written as they come, where they belong; the rest follows from them.
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
    """NAME.bin and NAME.idx as Megatron-LM's own writer leaves them: a sequence is a document."""

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
                f"at most {_MOST_INT32}, for the format megatron keeps lengths as int32",
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
    found = _MEGATRON.unpack(head) if len(head) == _MEGATRON.size else (b"", 0, 0, 0, 0)
    count = int(found[3])
    expected = _MEGATRON_MAGIC, 1, _MEGATRON_CODES.get(dtype.name), count, count + 1
    # Four bytes for the length of a sequence, eight for where it begins, eight for a document.
    if found != expected or size != _MEGATRON.size + 20 * count + 8:
        raise CorruptFile(
            f"{index} is no index of {bin.name}",
            f"the index of Megatron-LM that was written with it, of {dtype.name} ids",
            "encode the files again",
        )
    begins = np.fromfile(index, "<i8", count, offset=_MEGATRON.size + 4 * count)
    return ids, np.append(begins // dtype.itemsize, len(ids))


def _megatron_dtype(ids: int) -> str:
    if ids - 1 > _MOST_INT32:
        raise InvalidOption(
            f"the greatest id is {ids - 1}",
            f"at most {_MOST_INT32}, for the format megatron keeps ids as uint16 or int32",
            "choose another format",
        )
    return "uint16" if ids < _MEGATRON_UINT16 else "int32"


# NAME.bin: ids; NAME.idx: edges.
BIN = ShardFormat(
    "bin", (".bin", ".idx"), partial(_TwoFiles, HashedFile), partial(_read, 0), kept=_MAPPED
)
# The same numbers, each file with a header before them.
NPY = ShardFormat(
    "npy",
    (".npy", ".idx.npy"),
    partial(_TwoFiles, NpyFile),
    partial(_read, NPY_HEADER),
    kept=_MAPPED,
)
# What Megatron-LM and NeMo read: ``--data-path DIRECTORY/NAME``.
MEGATRON = ShardFormat(
    "megatron", (".bin", ".idx"), _Megatron, _read_megatron, _megatron_dtype, _MAPPED
)
