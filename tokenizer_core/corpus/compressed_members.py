"""Compressed bytes as they are read: all members of a stream, one after the other; opens nothing.

A member is what one run of a compressing program wrote. Several are one text.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
_BLOCK = 1 << 20  # decompressed bytes at a time, where that can be bounded
_XZ_MEMORY = 512 << 20  # `xz -9` needs 65 MiB
_GZIP_ONLY = 31  # of zlib: a header and a check sum of gzip's


class _Member(Protocol):
    """What decompresses one member."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CompressionFormat:
    """One kind of compression.

    Attributes:
        name: as people know it.
        member: makes what decompresses one member.
        piece: compressed bytes to read at a time.
        padded: zero bytes between members are ignored, as by its own program.
    """

    name: str
    member: Callable[[], _Member]
    piece: int = 1 << 16
    padded: bool = True


class _GzipMember:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=_GZIP_ONLY)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        block = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = len(block) < max_length
        return block


class _ZstandardMember:
    needs_input = True

    def __init__(self) -> None:
        import zstandard  # which loading a tokenizer does without

        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Any = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:  # not bounded
        try:
            return bytes(self._frame.decompress(data))
        except self._error as error:
            raise OSError(str(error)) from error


COMPRESSIONS = {
    "gz": CompressionFormat("gzip", _GzipMember),
    # A block of 4 bytes can stand for 128 KiB.
    "zst": CompressionFormat("Zstandard", _ZstandardMember, piece=1 << 11, padded=False),
    "bz2": CompressionFormat("bzip2", bz2.BZ2Decompressor),
    "xz": CompressionFormat("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)),
}


def decompressed(read: Callable[[int], bytes], kind: CompressionFormat) -> Iterator[bytes]:
    """What a compressed stream says, block by block, up to where it is damaged.

    Args:
        read: gives at most so many bytes of the stream; none where it ends.
        kind: one of `COMPRESSIONS`.

    Raises:
        OSError, EOFError, zlib.error, lzma.LZMAError: it is damaged, or ends too early; `DAMAGED`.
    """
    compressed = read(kind.piece)
    if not compressed:
        raise EOFError(f"an empty file is not a {kind.name} file")
    while compressed:
        member = kind.member()
        while not member.eof:
            if block := member.decompress(compressed, _BLOCK):
                yield block
            compressed = b""
            if member.needs_input and not member.eof:
                compressed = read(kind.piece)
                if not compressed:
                    raise EOFError(f"the file ends inside of {kind.name} data")
        compressed = member.unused_data
        while True:
            if kind.padded:
                compressed = compressed.lstrip(b"\0")
            if compressed or not (compressed := read(kind.piece)):
                break
