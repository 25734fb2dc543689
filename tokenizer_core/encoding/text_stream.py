"""A stream of strings cut into texts that can be encoded one by one; knows no ids.

Encoding the texts one after the other gives the ids of the whole, because every cut stands where
no pre-token and no special token can cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

import regex

from bpeline.tokenizer_core.encoding.encoder import LegalCuts
from bpeline.tokenizer_core.errors import WrongKind
from bpeline.tokenizer_core.text import utf8_of
from bpeline.tokenizer_core.vocabulary import SpecialPolicy

_ENOUGH = 1 << 16  # characters gathered before a cut is looked for


def cut_stream(
    pieces: Iterable[str], policy: SpecialPolicy, cuts: LegalCuts | None
) -> Iterator[str]:
    """Join ``pieces`` and cut the whole anew.

    Memory is bounded by the distance between legal cuts: those of ``cuts`` (with None, none are
    known), and the start of an allowed special token.
    Where there is none, everything is kept; a cut is then looked for each time the text has
    doubled.

    Raises:
        WrongKind: a piece is not a string.
        InvalidSpecialToken: a forbidden special token, even across pieces.
    """
    special = _any_of(policy.allowed)
    gathered: list[str] = []
    size = 0
    enough = _ENOUGH
    for piece in pieces:
        if not isinstance(piece, str):
            _refuse_piece(piece)
        gathered.append(piece)
        size += len(piece)
        if size < enough:
            continue
        text = "".join(gathered)
        policy.refuse_forbidden(text)
        cut = _last_cut(text, special, policy.longest, cuts)
        if cut:
            yield text[:cut]
        gathered = [text[cut:]]
        size = len(gathered[0])
        enough = max(_ENOUGH, 2 * size)
    text = "".join(gathered)
    policy.refuse_forbidden(text)
    if text:
        yield text


def whole_characters(pieces: Iterable[str], policy: SpecialPolicy) -> Iterator[str]:
    """The same text in parts of some size, none of which ends within a pair of surrogates.

    Raises:
        WrongKind: a piece is not a string.
        InvalidSpecialToken: a forbidden special token, even across pieces.
    """
    gathered: list[str] = []
    size, before = 0, ""

    def part(text: str) -> str:
        nonlocal before
        policy.refuse_forbidden(before + text)
        before = (before + text)[-policy.longest :] if policy.forbidden else ""
        return utf8_of(text).decode()

    for piece in pieces:
        if not isinstance(piece, str):
            _refuse_piece(piece)
        gathered.append(piece)
        size += len(piece)
        if size < _ENOUGH:
            continue
        text = "".join(gathered)
        end = len(text) - ("\ud800" <= text[-1] <= "\udbff")
        gathered, size = [text[end:]], len(text) - end
        if end:
            yield part(text[:end])
    if text := "".join(gathered):
        yield part(text)


def _any_of(tokens: Iterable[str]) -> regex.Pattern[str] | None:
    longest_first = sorted(tokens, key=len, reverse=True)
    return regex.compile("|".join(map(regex.escape, longest_first))) if longest_first else None


def _last_cut(
    text: str, special: regex.Pattern[str] | None, longest: int, cuts: LegalCuts | None
) -> int:
    """The last legal cut that text yet to come cannot make illegal, or 0.

    A special token that starts within the last ``longest - 1`` characters may still be growing,
    so only what starts before them is decided.
    """
    decided = len(text) - max(longest, 1) + 1
    last = behind = 0  # start and end of the last special token that is decided
    if special is not None:
        for match in special.finditer(text):
            if match.start() >= decided:
                break
            last, behind = match.span()
    if cuts is not None:
        last = max(last, cuts.last_in(text, behind + 1, decided))
    return last


def _refuse_piece(piece: object) -> NoReturn:
    raise WrongKind(
        f"a piece of a text is a str, and not of type {type(piece).__name__}",
        "accepted: an iterable of strings",
        'write encode_iterable(["a ", "text"])',
    )
