"""What callers hand in as text, as UTF-8; the one rule for lone surrogates."""

from __future__ import annotations

from bpeline.tokenizer_core.errors import InvalidUtf8
from bpeline.tokenizer_core.text import Text, invalid_utf8_at


def utf8_of(text: str) -> bytes:
    """``text`` in UTF-8. Surrogate pairs become their character, lone surrogates U+FFFD.

    The rule is tiktoken's. A subclass of ``str`` counts as the string it is, whatever its methods
    say.

    Raises:
        TypeError: not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text is a str, not {type(text).__name__}")
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
