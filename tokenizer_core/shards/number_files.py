"""New files of numbers that grow: raw, hashed on the way, as NumPy keeps them; knows no shard."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import open_file

NPY_HEADER = 128  # bytes of a .npy file before its numbers
_MAGIC = b"\x93NUMPY\x01\x00"
_LENGTH_BYTES = 2


class NumbersFile:
    """A new file, appended to without a buffer in between.

    Attributes:
        path: which must not exist yet.
        dtype: of the numbers.
    """

    def __init__(self, path: Path, dtype: str | np.dtype[Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.path, self.dtype = path, np.dtype(dtype)
        self._descriptor = os.open(path, flags, 0o666)

    def append(self, numbers: NDArray[Any]) -> None:
        """Write an array in little-endian order."""
        little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
        self.write(little.view(np.uint8).data)

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes."""
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def write_over(self, begin: int, content: bytes) -> None:
        """Replace bytes that were written, such as a header that the end decides."""
        os.pwrite(self._descriptor, content, begin)

    def close(self) -> None:
        """All is written; release the file."""
        os.close(self._descriptor)

    def sha256(self) -> str:
        """Of the file that was closed."""
        return sha256_of(self.path)


class HashedFile(NumbersFile):
    """A file that is hashed as it grows, while others encode and the bytes are in the caches."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any]) -> None:
        super().__init__(path, dtype)
        self._hash = hashlib.sha256()

    def write(self, content: bytes | memoryview) -> None:
        self._hash.update(content)
        super().write(content)

    def sha256(self) -> str:
        return self._hash.hexdigest()


class NpyFile(NumbersFile):
    """A one-dimensional array of NumPy; its header is written when the length is known.

    Args:
        path, dtype: as above; records of named fields, too.
        header: bytes that are kept for it.
    """

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
    """The opening of a .npy file, version 1.0, filled up to a length that holds any count."""
    little = np.lib.format.dtype_to_descr(dtype.newbyteorder("<"))
    fields = f"{{'descr': {little!r}, 'fortran_order': False, 'shape': ({count},), }}".encode()
    rest = size - len(_MAGIC) - _LENGTH_BYTES
    return _MAGIC + rest.to_bytes(_LENGTH_BYTES, "little") + fields.ljust(rest - 1) + b"\n"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
