"""Tokens and texts as they can be seen on a page: nothing in them hides or turns others around.

`report.js` shows tokens by the same rules.
"""

from __future__ import annotations

from itertools import groupby

import regex

# Controls, direction marks, joiners, unusual spaces, what fonts leave out: shown by their number.
_HIDDEN = regex.compile(r"[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]")
_MARK = regex.compile(r"\p{M}")
_SPELLED = {" ": "␣", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_RUN = 8  # as many of one character are written out
_LONGEST = 80  # characters of one token in a list
_BROKEN = range(0xDC80, 0xDD00)  # how `surrogateescape` writes bytes that are no UTF-8


def visible(token: bytes) -> list[tuple[bool, str]]:
    """Pieces of a token: whether one stands for what cannot be seen, and its text.

    A byte that is not UTF-8 is its hexadecimal number; a mark that would sit on the character
    before the token sits on a circle; a long run of one character is that and a number.
    """
    pieces: list[tuple[bool, str]] = []
    for character, run in groupby(token.decode(errors="surrogateescape")):
        times = len(list(run))
        for _ in range(times if times <= _RUN else 1):
            _add(pieces, character)
        if times > _RUN:
            pieces.append((True, f"×{times}"))
    return pieces


def _add(pieces: list[tuple[bool, str]], character: str) -> None:
    point = ord(character)
    if point in _BROKEN:
        pieces.append((True, f"{point - 0xDC00:02X}"))
    elif character in _SPELLED or _HIDDEN.match(character):
        pieces.append((True, _SPELLED.get(character, f"U+{point:04X}")))
    elif pieces and not pieces[-1][0]:
        pieces[-1] = (False, pieces[-1][1] + character)
    else:
        pieces.append((False, ("◌" if _MARK.match(character) else "") + character))


def cut_pieces(token: bytes) -> list[tuple[bool, str]]:
    """`visible`, of long tokens only the beginning."""
    cut: list[tuple[bool, str]] = []
    room = _LONGEST
    for hidden, text in visible(token):
        if room <= 0:
            return [*cut, (False, "…")]
        cut.append((hidden, text if hidden else text[:room]))
        room -= len(text)
    return cut
