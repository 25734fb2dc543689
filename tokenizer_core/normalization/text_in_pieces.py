"""Normalizers on a text that comes in pieces: what is decided is given out, the rest is held.

All that is given out, joined, is what the normalizer makes of the whole text. Each step holds what
a character yet to come could change: a character that marks may follow, white space that may be
the end, the beginning of what is replaced. How much that is depends on the text alone, never on
its length, but for a text that offers no place to part it: one without letters, digits, spaces and
punctuation, or that one run of white space is; or for a regex of `Replace` that parts none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import regex

from bpeline.tokenizer_core.normalization.normalizers import Normalizer
from bpeline.tokenizer_core.normalization.sentencepiece_text import SentencePieceText
from bpeline.tokenizer_core.normalization.steps import (
    NormalizerStep,
    Prepend,
    ReplaceRegex,
    ReplaceString,
    Strip,
)
from bpeline.tokenizer_core.normalization.unicode_tables import WHITE_SPACE
from bpeline.tokenizer_core.splitting import SplitPattern


class InPieces(Protocol):
    """A step of a normalizer on one text that comes in pieces."""

    def feed(self, text: str) -> str:
        """What is made of the text up to here, as far as it is decided, and not given out yet."""

    def finish(self) -> str:
        """The rest, once the text has ended."""


def in_pieces(normalizer: Normalizer) -> InPieces:
    """A normalizer on one text that comes in pieces."""
    return _Steps([_step(step) for step in normalizer.steps])


def _step(step: NormalizerStep) -> InPieces:
    match step:
        case Prepend():
            return _Prepended(step)
        case Strip():
            return _Stripped(step)
        case ReplaceString():
            return _Replaced(step)
        case SentencePieceText():
            return _AsSentencePiece(step)
        case ReplaceRegex():
            # Each character between matches by itself: there, text may be parted anywhere.
            cuts = SplitPattern(rf"(?:{step.regex})|[\s\S]").cut_pairs
            return _Parted(step.text, lambda text: cuts.last_in(text, 1, len(text)) if cuts else -1)
    assert step.local
    return _Parted(step.text, _last_apart)


class _Steps:
    def __init__(self, steps: list[InPieces]) -> None:
        self._steps = steps

    def feed(self, text: str) -> str:
        for step in self._steps:
            text = step.feed(text)
        return text

    def finish(self) -> str:
        text = ""
        for step in self._steps:
            text = step.feed(text) + step.finish()
        return text


class _Parted:
    """A step that makes of two parts what it makes of the whole, where ``last`` parts them."""

    def __init__(self, make: Callable[[str], str], last: Callable[[str], int]) -> None:
        self._make, self._last = make, last
        self._held, self._enough = "", 0

    def feed(self, text: str) -> str:
        self._held += text
        if len(self._held) <= self._enough:
            return ""
        place = max(self._last(self._held), 0)
        decided, self._held = self._held[:place], self._held[place:]
        self._enough = 0 if place else 2 * len(self._held)
        return self._make(decided) if decided else ""

    def finish(self) -> str:
        return self._make(self._held) if self._held else ""


# Letters, numbers, punctuation, spaces and symbols that no normalizer of single characters joins
# to a neighbour of these. Not so are marks and what becomes one (halfwidth voicing), Hangul that is
# written by sound, vowels that belong to the cluster before, letters that belong to the one after
# them, flags, and the shades of pictures.
_APART = (
    r"[[\n\p{L}\p{N}\p{P}\p{Z}\p{S}\x00-\x0c\x0e-\x7f]--[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"
    r"\u3130-\u318f\u3200-\u321e\u3260-\u327e\uff61-\uffdc\u0e33\u0eb3\u0d4e\u200b-\u200f]"
    r"--[\U00010000-\U0001ffff\U00030000-\U0010ffff]]"
)


@functools.cache
def _between_apart() -> regex.Pattern[str]:
    return regex.compile(rf"(?rV1)(?<={_APART})(?={_APART})")


def _last_apart(text: str) -> int:
    found = _between_apart().search(text)
    return -1 if found is None else int(found.start())


class _Prepended:
    def __init__(self, step: Prepend) -> None:
        self._before = step.content

    def feed(self, text: str) -> str:
        if not text:
            return ""
        made, self._before = self._before + text, ""
        return made

    def finish(self) -> str:
        return ""


class _Stripped:
    def __init__(self, step: Strip) -> None:
        self._begins, self._right = step.left, step.right
        self._held = ""  # white space that may be the end

    def feed(self, text: str) -> str:
        if self._begins:
            text = text.lstrip(WHITE_SPACE)
            self._begins = not text
        if not self._right:
            return text
        text = self._held + text
        made = text.rstrip(WHITE_SPACE)
        self._held = text[len(made) :]
        return made

    def finish(self) -> str:
        return ""


class _Replaced:
    def __init__(self, step: ReplaceString) -> None:
        self._string, self._content = step.string, step.content
        self._held = ""  # may be the beginning of the string

    def feed(self, text: str) -> str:
        *before, rest = (self._held + text).split(self._string)
        decided = max(0, len(rest) - len(self._string) + 1)
        self._held = rest[decided:]
        return self._content.join([*before, rest[:decided]])

    def finish(self) -> str:
        return self._held


class _AsSentencePiece:
    """`SentencePieceText.text`, step by step."""

    def __init__(self, step: SentencePieceText) -> None:
        self._step = step
        self._space = step.space
        self._held = ""  # of which no rule may be known yet
        self._open = True  # nothing was fed
        self._all_spaces = True  # whatever was fed is written as one space each
        self._after_space = step.remove_extra_whitespaces  # as at the beginning
        self._end = ""  # spaces that may be the end

    def feed(self, text: str) -> str:
        return self._made(text, self._step.longest) if text else ""

    def finish(self) -> str:
        step = self._step
        made = self._made("", 1)
        if step.remove_extra_whitespaces and self._all_spaces:
            return ""
        suffix = step.add_dummy_prefix and step.space_is_suffix and not self._open
        return made + self._space * suffix

    def _made(self, text: str, longest: int) -> str:
        step = self._step
        text = self._held + text
        if not text:
            return ""
        mapped, end = step.mapped(text, max(0, len(text) - longest + 1))
        self._all_spaces = self._all_spaces and step.is_all_spaces(text[:end])
        self._held = text[end:]
        if step.remove_extra_whitespaces and mapped:
            ends = mapped.endswith(" ")
            mapped = step.with_single_spaces(mapped)
            if self._after_space:
                mapped = mapped.removeprefix(" ")
            self._after_space = ends
        if self._open and step.add_dummy_prefix and not step.space_is_suffix:
            mapped = " " + mapped
        self._open = False
        made = self._end + mapped.replace(" ", self._space)
        if not step.remove_extra_whitespaces:
            self._end = ""
            return made
        given = made.rstrip(self._space)
        self._end = made[len(given) :]
        return given
