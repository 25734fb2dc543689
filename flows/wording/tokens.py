"""How a token reads on a terminal or a page: quoted text, bytes where it is none."""

from __future__ import annotations

_LONGEST = 60  # characters


def token_text(token: bytes, longest: int = _LONGEST) -> str:
    """``"ing"``, ``" the"``, ``"\\n"``; ``b"\\xe2\\x80"`` for what is no text by itself."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        quoted = f'b"{_escaped(repr(token)[2:-1])}"'
    else:
        quoted = f'"{_escaped(repr(text)[1:-1])}"'
    return quoted if len(quoted) <= longest else f"{quoted[: longest - 1]}…"


def tokens_text(tokens: tuple[bytes, ...]) -> str:
    """Several tokens in a row."""
    return " ".join(map(token_text, tokens))


def ids_text(changed: int, first: str, second: str) -> str:
    """How many ids of one version mean another token, or none, in another, and what follows."""
    if not changed:
        return f"every id of {first} means the same in {second}"
    return (
        f"{changed:,} ids of {first} mean another token, or none, in {second}: data that was "
        f"encoded with {first} must be encoded again"
    )


def _escaped(content: str) -> str:
    """What `repr` wrote between its quotes, as it stands between double quotes."""
    return content.replace("\\'", "'").replace('"', '\\"')
