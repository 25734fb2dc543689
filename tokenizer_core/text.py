"""UTF-8 text in the memory layout of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidUtf8, WrongKind
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.characters import invalid_utf8


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """UTF-8 bytes followed by `PADDING` zeros, so kernels need no bounds checks.

    *Spans* are parts of a text that are pre-tokenized independently: int64 ``[n, 2]``, half-open
    byte ranges. For a pattern, the end of a span is the end of the text.

    Attributes:
        data: uint8 ``[size + PADDING]``, C-contiguous; writable only because kernels are compiled
            for writable arrays.
        size: number of bytes.
    """

    data: NDArray[np.uint8]
    size: int

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview) -> Text:
        """Copy ``content`` into a new text, without checking that it is UTF-8."""
        source = np.frombuffer(content, np.uint8)
        data = np.empty(source.size + PADDING, np.uint8)
        data[: source.size] = source
        data[source.size :] = 0
        return cls(data, source.size)

    def bytes(self, begin: int = 0, end: int | None = None) -> bytes:
        """Copy the bytes [begin, end); ``end`` defaults to the end of the text."""
        return self.data[begin : self.size if end is None else min(end, self.size)].tobytes()


def invalid_utf8_at(text: Text) -> int:
    """Return the position of the first invalid UTF-8, as Python does, or -1."""
    return int(invalid_utf8(text.data, text.size))


def utf8_of(text: str) -> bytes:
    """Encode as UTF-8 like tiktoken; lone surrogates become U+FFFD.

    Raises `WrongKind` for other types. Overridden methods of a subclass are ignored.
    """
    if not isinstance(text, str):
        decoded = 'text.decode("utf-8")' if isinstance(text, bytes) else 'encode("a text")'
        raise WrongKind(
            f"a text must be a str, not of type {type(text).__name__}",
            "expected: a string",
            f"write {decoded}",
        )
    try:
        return str.encode(text)
    except UnicodeEncodeError:
        paired = str.encode(text, "utf-16-le", "surrogatepass")
        return paired.decode("utf-16-le", "replace").encode()


def refuse_invalid_utf8(text: Text, begin: int = 0) -> None:
    """Raise `InvalidUtf8` if the text (at offset ``begin``) is not UTF-8."""
    at = invalid_utf8_at(text)
    if at >= 0:
        raise InvalidUtf8(
            f"the text is not UTF-8 at byte {begin + at} (0x{text.data[at]:02x})",
            "expected UTF-8",
            "decode the bytes yourself: content.decode(errors='replace')",
        )
