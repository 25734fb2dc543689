"""Text forms of numbers, sizes and tokens."""

from __future__ import annotations

from collections.abc import Mapping

from bpeline.tokenizer_core.display import megabytes as megabytes
from bpeline.tokenizer_core.display import number_text as number_text
from bpeline.tokenizer_core.evaluation import TOO_FEW_DOCUMENTS


def left_out_text(metrics: Mapping[str, float]) -> str:
    """Describe the text left out for the evaluation set, from a training's metrics."""
    if "corpus/left_out_bytes" not in metrics:
        return "not known"
    size, share, documents = (
        metrics[f"corpus/left_out_{name}"] for name in ("bytes", "share", "documents")
    )
    return (
        f"{megabytes(int(size))}, {share:.2%} of the text, for "
        f"{counted(int(documents), 'document')} of the evaluation set"
    )


def counted(number: int, noun: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


SHOWN_CONFIDENCE = 0.95


def change_text(percent: float, low: float | None, high: float | None, of: str = "") -> str:
    """Format a change with its interval, if any: ``-1.20 % tokens (-1.50 … -0.90)``."""
    text = f"{percent:+.2f} % {of}".rstrip()
    if low is None or high is None:
        return f"{text} ({TOO_FEW_DOCUMENTS})"
    chance = ", may be chance" if low <= 0 <= high else ""
    return f"{text} ({low:+.2f} … {high:+.2f}{chance})"


_LONGEST = 60  # characters


def token_text(token: bytes, longest: int = _LONGEST) -> str:
    """Format as ``"ing"``, ``" the"``, ``"\\n"``; invalid UTF-8 as ``b"\\xe2\\x80"``."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        quoted = f'b"{_escaped(repr(token)[2:-1])}"'
    else:
        quoted = f'"{_escaped(repr(text)[1:-1])}"'
    return quoted if len(quoted) <= longest else f"{quoted[: longest - 1]}…"


def tokens_text(tokens: tuple[bytes, ...]) -> str:
    """Format several tokens in a row."""
    return " ".join(map(token_text, tokens))


def ids_text(changed: int, first: str, second: str) -> str:
    """Describe how many ids differ in another version, and the consequence."""
    if not changed:
        return f"every id of {first} has the same meaning in {second}"
    return (
        f"{changed:,} ids of {first} mean another token, or none, in {second}: data that was "
        f"encoded with {first} must be encoded again"
    )


def _escaped(content: str) -> str:
    """Escape the content of `repr`'s quotes for double quotes."""
    return content.replace("\\'", "'").replace('"', '\\"')
