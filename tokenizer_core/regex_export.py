"""A split regex respelled so that other engines read it as the `regex` package does.

Only what the engines spell alike but read otherwise is changed; it knows no named pattern.
"""

from __future__ import annotations

import regex

from tokenizer_core.errors import InvalidPattern

_TOKEN = regex.compile(
    r"""(?<set>\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\])
    |(?<atom>\\(?:[pPN]\{[^}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[gL]<[^>]*>
        |[0-9]{1,3}|.)
      |\(\?(?:R|[0-9]+|&\w+|P[=>]\w+)\))
    |(?<flags>\(\?\#[^)]*\)|\(\?[A-Za-z0-9-]+\))
    |(?<open>\((?:\?(?:P?<[^=!>][^>]*>|<[=!]|[A-Za-z0-9-]*:|[>=!|]|\([^)]*\)))?)
    |(?<close>\))
    |(?<braces>\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)\}[?+]?)
    |(?<repeat>[*+?][?+]?)
    |(?<or>\|)
    |(?<other>.)""",
    regex.VERBOSE | regex.DOTALL,
)
_NOT_UNDERSTOOD = regex.compile(r"\(\?[A-Za-z0-9-]*(?:x|V1)")
_LINES = regex.compile(r"\(\?[A-Za-z0-9]*m")
# What Python reads as the edge of the text is the edge of a line, or something else, elsewhere.
_EDGES = {
    "^": r"(?<![\s\S])",
    "$": r"(?!\n[\s\S]|[^\n])",  # the end, or before a line feed that is the last character
    r"\Z": r"(?![\s\S])",
}


def respelled_for_export(pattern: str) -> str:
    """``pattern`` for Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``).

    - ``x{m,n}+`` becomes ``(?>x{m,n})``, since Oniguruma reads the plus as a second repetition;
    - ``^``, ``$`` and ``\\Z`` become look-arounds that mean the edge of the text everywhere.

    Features that only the ``regex`` package has cannot be translated and are left as they are.

    Raises:
        InvalidPattern: there is something to respell in a pattern with free spacing (``(?x)``)
            or nested sets (``(?V1)``), whose parts cannot be told apart reliably.
    """
    edges = {} if _LINES.search(pattern) else _EDGES
    out: list[str] = []
    groups: list[int] = []  # where in ``out`` each open group begins
    atom = 0  # where in ``out`` the thing begins that a quantifier would repeat
    changed = False
    for match in _TOKEN.finditer(pattern):
        token = match.group()
        kind = match.lastgroup
        if kind == "open":
            groups.append(len(out))
        elif kind == "close":
            atom = groups.pop() if groups else 0
        elif kind == "braces" and token.endswith("+"):
            out.insert(atom, "(?>")
            token = token[:-1] + ")"
            changed = True
        elif kind not in ("braces", "repeat"):
            atom = len(out)
            if token in edges:
                token = edges[token]
                changed = True
        out.append(token)
    if not changed:
        return pattern
    if _NOT_UNDERSTOOD.search(pattern):
        raise InvalidPattern(
            f"the split pattern {pattern!r} cannot be written for other engines",
            "x{m,n}+, ^, $ and \\Z are translated, but not together with (?x) or (?V1)",
            "write the regex without these flags",
        )
    return "".join(out)
