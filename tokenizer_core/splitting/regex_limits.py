r"""What a regex is refused for before the ``regex`` package sees it; runs nothing.

That package writes repetitions out when it compiles: ``(?:a+b)+`` holds the part for its first
time and once more for all others, so nested ones double, and ``a{1000000}`` takes 270 MB.

And it reads set operators as literals unless told otherwise: ``[a-z&&[^aeiou]]`` is a set with
``&`` and ``[`` in it and then a bracket, which nobody means who writes it.
"""

from __future__ import annotations

import regex

MOST_WRITTEN_OUT = 1 << 16  # up to 40 MB and a tenth of a second to compile

_TOKEN = regex.compile(
    r"""(?<set>\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\])
    |(?<comment>\(\?\#[^)]*\))
    |(?<flags>\(\?[A-Za-z0-9-]+\))
    |(?<open>\()
    |(?<close>\))
    |(?<braces>\{(?<least>[0-9]*)(?<comma>,?)(?<most>[0-9]*)\}[+?]?)
    |(?<plus>\+[+?]?)
    |(?<optional>[*?][+?]?)
    |(?<other>\\.|.)""",
    regex.VERBOSE | regex.DOTALL,
)
_SPACED = regex.compile(r"\(\?[A-Za-z0-9]*x")
_SPACE = regex.compile(r"(\\.)|\s", regex.DOTALL)
_VERSION = regex.compile(r"\(\?[A-Za-z]*V[01]")
_OPERATOR = regex.compile(r"(?:\\.|[^\\])+?(&&|\|\||--|~~).", regex.DOTALL)


def size_written_out(pattern: str) -> int | None:
    """Parts of a regex after each repetition is written out as often as it must match, and once.

    An upper bound, up to a factor, of what ``regex`` makes of it; None where it cannot be told,
    for free spacing hides comments.
    """
    if _SPACED.search(pattern):
        if "#" in pattern:
            return None
        pattern = _SPACE.sub(r"\1", pattern)  # it may stand before counts, and in them
    outer: list[int] = []  # of each open group: the size of what stands before it
    size = part = 0  # all since the group opened; the last part of that, which a count repeats
    for token in _TOKEN.finditer(pattern):
        match "braces" if token["braces"] else token.lastgroup:
            case "open":
                outer.append(size)
                size = part = 0
            case "close":
                part = size + 1
                size = part + (outer.pop() if outer else 0)
            case "plus" | "braces":
                more = part * _times(token)
                size += more
                part += more
                if size > MOST_WRITTEN_OUT:
                    return size
            case "comment" | "flags" | "optional":
                pass
            case _:
                part = 1
                size += part
    return size + sum(outer)


def _times(token: regex.Match[str]) -> int:
    """How often a part that must match is written out beside its first time."""
    if token["plus"]:
        return 1
    least = int((token["least"] or "0")[:10])
    once = least == 1 and (not token["comma"] or token["most"] == "1")
    return 0 if once else least


def set_operator(pattern: str) -> str | None:
    """The first set that reads as if with an operator, where ``regex`` sees none; or None.

    A regex that says which version of sets it means, ``(?V0)`` or ``(?V1)``, is taken at its word.
    """
    if _VERSION.search(pattern):
        return None
    for token in _TOKEN.finditer(pattern):
        found: str | None = token["set"]
        if found is None:
            continue
        if _OPERATOR.match(found[:-1], 2 if found.startswith("[^") else 1):
            return found
        nested = found.startswith(("[[", "[^[")) and not found.startswith(("[[:", "[^[:"))
        if nested and pattern.startswith(("&&", "||", "--", "~~"), token.end()):
            return f"{found}{pattern[token.end() : token.end() + 2]}"
    return None
