"""The metadata of a GGUF file, read with limits and without its tensors; knows no tokenizer.

A model of many gigabytes is read up to the end of its metadata and no further.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import open_file, refuse, unreadable_refused

MAX_METADATA_BYTES = 256 << 20
MAX_ENTRIES = 1 << 16
MAX_KEY_BYTES = 1 << 10
MAX_STRING_BYTES = 1 << 24  # of one value; chat templates have some thousands
MAX_ELEMENTS = 1 << 22  # of one array

_BLOCK = 1 << 20  # bytes that are read together
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# What numbers are written as; the number of a type is its place.
_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip


def read_metadata(path: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Keys that begin as ``wanted``, and their values: numbers, text, lists of these.

    Raises:
        MissingSource: no such file, or it cannot be opened.
        InvalidTokenizer: no GGUF file of version 2 or 3, or beyond the limits.
    """
    with unreadable_refused(path), open_file(path) as file:
        return _Metadata(file.fileno(), path).entries(wanted)


class _Metadata:
    """The file as it is read, from the beginning to the end of the last entry."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._left = MAX_METADATA_BYTES
        self._block = b""
        self._at = 0  # in the block

    def entries(self, wanted: tuple[str, ...]) -> dict[str, Any]:
        if self._taken(4) != _MAGIC:
            refuse(self._path, "is no GGUF file: it does not begin with GGUF", "a GGUF file")
        version = self._number("I")
        if version not in _VERSIONS:
            refuse(
                self._path,
                f"is a GGUF file of version {version}",
                f"versions {' and '.join(map(str, _VERSIONS))}, little-endian",
                "convert the model again with llama.cpp's present tools",
            )
        self._number("Q")  # tensors
        count = self._number("Q")
        if count > MAX_ENTRIES:
            self._refuse(f"{count} entries")
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self._string(MAX_KEY_BYTES).decode("utf-8", "replace")
            kind = self._number("I")
            kept = key.startswith(wanted)
            if kept and key in found:
                self._refuse(f"the key {key[:80]!r} twice")
            value = self._value(kind, kept)
            if kept:
                found[key] = value
        return found

    def _value(self, kind: int, kept: bool) -> Any:
        if kind == _STRING:
            return self._text(self._string(MAX_STRING_BYTES))
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind != _ARRAY:
            self._refuse(f"a value of the type {kind}")
        kind, count = self._number("I"), self._number("Q")
        if count > MAX_ELEMENTS:
            self._refuse(f"an array of {count} elements")
        if kind == _STRING:
            strings = (self._string(MAX_STRING_BYTES) for _ in range(count))
            if kept:
                return list(map(self._text, strings))
            for _ in strings:
                pass
            return None
        if kind not in _NUMBERS:
            self._refuse(f"an array of the type {kind}")
        form = f"<{count}{_NUMBERS[kind]}"
        content = self._taken(struct.calcsize(form))
        return list(struct.unpack(form, content)) if kept else None

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._taken(struct.calcsize(f"<{form}")))[0]

    def _string(self, limit: int) -> bytes:
        size = self._number("Q")
        if size > limit:
            self._refuse(f"text of {size} bytes")
        return self._taken(size)

    def _text(self, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            self._refuse("text that is not UTF-8")

    def _taken(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            self._refuse(f"more than {MAX_METADATA_BYTES} bytes")
        while len(self._block) - self._at < size:
            more = os.read(self._descriptor, max(_BLOCK, size))
            if not more:
                refuse(self._path, "ends before its metadata does", "a whole GGUF file")
            self._block = self._block[self._at :] + more
            self._at = 0
        self._at += size
        return self._block[self._at - size : self._at]

    def _refuse(self, what: str) -> NoReturn:
        refuse(self._path, f"has metadata with {what}", "metadata as llama.cpp's tools write it")
