"""Text as UTF-8 bytes laid out as kernels want them; the rule for lone surrogates; no pattern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidUtf8, WrongKind
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.characters import invalid_utf8


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Bytes with `PADDING` zero bytes behind them, so that kernels load without checking.

    Parts of a text are named by *spans*: an int64 array of shape [n, 2] of half-open byte ranges
    that are pre-tokenized independently (the end of a span is the end of the text for a pattern).

    Attributes:
        data: uint8 of shape [size + PADDING], C-contiguous and writable (kernels are compiled for
            writable arrays; nobody writes).
        size: number of bytes.
    """

    data: NDArray[np.uint8]
    size: int

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview) -> Text:
        """Copy ``content`` into a new text. Whether it is UTF-8 is `invalid_utf8_at`'s question."""
        source = np.frombuffer(content, np.uint8)
        data = np.empty(source.size + PADDING, np.uint8)
        data[: source.size] = source
        data[source.size :] = 0
        return cls(data, source.size)

    def bytes(self, begin: int = 0, end: int | None = None) -> bytes:
        """A copy of the bytes in [begin, end); ``end`` defaults to the end of the text."""
        return self.data[begin : self.size if end is None else min(end, self.size)].tobytes()


def invalid_utf8_at(text: Text) -> int:
    """Position of the first byte sequence that is not UTF-8, or -1 when all is well.

    The same verdict as Python's strict decoder (``UnicodeDecodeError.start``): overlong forms,
    surrogates, code points above U+10FFFF and truncated sequences are refused.
    """
    return int(invalid_utf8(text.data, text.size))


def utf8_of(text: str) -> bytes:
    """``text`` in UTF-8. Surrogate pairs become their character, lone surrogates U+FFFD.

    The rule is tiktoken's. A subclass of ``str`` counts as the string it is, whatever its methods
    say.

    Raises:
        WrongKind: not a string.
    """
    if not isinstance(text, str):
        decoded = 'text.decode("utf-8")' if isinstance(text, bytes) else 'encode("a text")'
        raise WrongKind(
            f"a text is a str, and not of type {type(text).__name__}",
            "accepted: a string",
            f"write {decoded}",
        )
    try:
        return str.encode(text)
    except UnicodeEncodeError:
        paired = str.encode(text, "utf-16-le", "surrogatepass")
        return paired.decode("utf-16-le", "replace").encode()


def refuse_invalid_utf8(text: Text, begin: int = 0) -> None:
    """Raise when the bytes are not UTF-8.

    Args:
        begin: where the text begins in the one that the caller gave.

    Raises:
        InvalidUtf8: naming the position.
    """
    at = invalid_utf8_at(text)
    if at >= 0:
        raise InvalidUtf8(
            f"the text is not UTF-8 at byte {begin + at} (0x{text.data[at]:02x})",
            "bytes are encoded when they are UTF-8",
            "decode them yourself: content.decode(errors='replace')",
        )
