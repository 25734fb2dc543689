"""What people and programs do to texts, as seeded edits: one table of kinds. Knows no tokenizer.

A rule looks at all documents at once and says what it changes. Of the characters that are eligible
for a kind each is hit with the kind's rate: by the upper 32 of its random bits; the lower 32 choose
among alternatives.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.evaluation.perturbation_tables import (
    FULLWIDTH,
    MARKS_ADDED,
    MATHEMATICAL_BOLD,
    MATHEMATICAL_SCRIPT,
    STROKE,
)
from bpeline.tokenizer_core.evaluation.perturbed_text import (
    CharacterText,
    EditedText,
    Edits,
    Mask,
    Places,
    ranges,
)

EDITION = 2  # of the table below; figures of different editions are not of the same perturbations
_LOW = np.uint64(0xFFFF_FFFF)
_APART = "\ud800"  # no UTF-8 holds it; it takes part in no composition and no reordering


class Chance:
    """The random choices of one kind in one text.

    Args:
        rate: of hits, above 0; 1 hits everything and draws nothing for it.
    """

    def __init__(self, text: CharacterText, seed: int, kind: str, rate: float) -> None:
        self._of, self._threshold = (text, seed, kind), round(rate * 2**32)

    @cached_property
    def _draws(self) -> NDArray[np.uint64]:
        text, seed, kind = self._of
        return text.draws(seed, kind)

    def hits(self, eligible: Mask) -> Mask:
        """Which of the eligible characters are hit."""
        if self._threshold == 2**32:
            return eligible
        return eligible & ((self._draws >> np.uint64(32)) < self._threshold)

    def choices(self, at: Places, alternatives: int | Places) -> Places:
        """For each character at some places, a number below that of its alternatives."""
        if np.all(np.asarray(alternatives) == 1):
            return np.zeros(len(at), np.int64)
        many = np.asarray(alternatives, np.uint64)
        return (((self._draws[at] & _LOW) * many) >> np.uint64(32)).astype(np.int64)


Rule = Callable[[CharacterText, Chance], Edits]


def _edits(
    text: CharacterText, at: Places, widths: int | Places, chosen: Places, pieces: Sequence[str]
) -> Edits:
    """Edits of so many characters each, from given ones on."""
    ends = text.begins[at + widths]
    return Edits(text.begins[at], ends, chosen, [piece.encode() for piece in pieces])


# Characters, each for itself


def _instead(alternatives: Callable[[str], Sequence[str]]) -> Rule:
    """Characters replaced, each by one of its alternatives; those without any are not eligible."""

    def rule(text: CharacterText, chance: Chance) -> Edits:
        offered = [list(alternatives(character)) for character in text.characters]
        many = np.fromiter(map(len, offered), np.int64, len(offered))
        at = np.flatnonzero(chance.hits((many > 0)[text.numbers]))
        numbers = text.numbers[at]
        chosen = (np.cumsum(many) - many)[numbers] + chance.choices(at, many[numbers])
        return _edits(text, at, 1, chosen, [piece for row in offered for piece in row])

    return rule


def _changed_by(change: Callable[[str], str]) -> Rule:
    """Characters replaced by what a function makes of them, where that is something else."""
    return _instead(lambda one: [made] if (made := change(one)) != one else [])


def _with_a_mark(character: str) -> Sequence[str]:
    if not (character.isascii() and character.isalpha()):
        return ()
    return [unicodedata.normalize("NFC", character + mark) for mark in MARKS_ADDED]


# Words


def _hit_words(text: CharacterText, chance: Chance) -> tuple[Places, Places]:
    """First and last characters of words hit, of those with two characters or more."""
    firsts, lasts = text.words
    eligible = np.zeros(len(text.points), np.bool_)
    eligible[firsts[lasts > firsts]] = True
    hit = chance.hits(eligible)[firsts]
    return firsts[hit], lasts[hit]


def _letters_spaced(text: CharacterText, chance: Chance) -> Edits:
    firsts, lasts = _hit_words(text, chance)
    inside = ranges(firsts + 1, lasts - firsts)
    before = inside[text.letters[inside]]
    return _edits(text, before, 0, np.zeros(len(before), np.int64), [" "])


def _latex_bold(text: CharacterText, chance: Chance) -> Edits:
    firsts, lasts = _hit_words(text, chance)
    at = np.stack((firsts, lasts + 1), axis=1).reshape(-1)
    return _edits(text, at, 0, np.tile(np.arange(2), len(firsts)), [r"\textbf{", "}"])


# Normalization


def _decomposed(text: CharacterText, chance: Chance) -> Edits:
    """NFD of the whole text, as edits of the smallest parts that it changes.

    The parts are what no normalization reaches over: a character that starts one, and all that may
    be reordered after it. They are normalized in one call, kept apart by surrogates.
    """
    starts = np.flatnonzero(text.opens | ~text.where(_continues))
    lengths = np.diff(starts, append=len(text.points))
    touched = text.where(lambda one: _nfd(one) != one or _continues(one))
    parts = np.logical_or.reduceat(touched, starts)
    starts, lengths = starts[parts], lengths[parts]
    points = text.points[ranges(starts, lengths)]
    marked = np.insert(points, np.cumsum(lengths) - lengths, ord(_APART))
    before = marked.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    made, number_of = [], dict[str, int]()
    pairs = zip(before.split(_APART)[1:], _nfd(before).split(_APART)[1:], strict=True)
    for place, (old, new) in enumerate(pairs):
        if old != new:
            made.append((place, number_of.setdefault(new, len(number_of))))
    places, chosen = np.array(made, np.int64).reshape(-1, 2).T
    return _edits(text, starts[places], lengths[places], chosen, list(number_of))


def _continues(character: str) -> bool:
    """Whether a character may be reordered, or compose with one before it.

    Marks do; and letters of no combining class that are second in a composition: vowels and final
    consonants of Hangul, a vowel sign of Kirat Rai.
    """
    first = unicodedata.normalize("NFKD", character)[0]
    hangul = "\u1160" <= first <= "\u11ff" or "\ud7b0" <= first <= "\ud7ff"
    return hangul or first == "\U00016d67" or unicodedata.category(first)[0] == "M"


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One kind of edit.

    Attributes:
        name: of the kind; also what the random choices are hashed with.
        family: kinds whose figures are shown together.
        what: is done, and to what, for people.
        rate: the share of what is eligible that is hit.
        rule: says which edits that makes.
    """

    name: str
    family: str
    what: str
    rate: float
    rule: Rule

    def apply(self, text: CharacterText, seed: int) -> tuple[EditedText, Edits]:
        """The text after the edits, and these."""
        edits = self.rule(text, Chance(text, seed, self.name, self.rate))
        return EditedText(text, edits), edits


PERTURBATIONS = tuple(
    Perturbation(name, family, what, rate, rule)
    for family, kinds in {
        "case": (
            ("case_flipped", "a letter in the other case", 0.05, _changed_by(str.swapcase)),
            ("lower_case", "every character in lower case", 1.0, _changed_by(str.lower)),
        ),
        "diacritics": (
            ("diacritic_added", "an accent on an ASCII letter", 0.05, _instead(_with_a_mark)),
        ),
        "normalization": (("nfd", "canonical decomposition", 1.0, _decomposed),),
        "styling": (
            ("fullwidth", "every visible ASCII character at full width", 1.0,
             _changed_by(lambda one: FULLWIDTH.get(one, one))),
            ("struck_through", "U+0336 after every letter", 1.0,
             _instead(lambda one: [one + STROKE] if one.isalpha() else [])),
            ("mathematical_bold", "ASCII letters and digits in mathematical bold", 1.0,
             _changed_by(lambda one: MATHEMATICAL_BOLD.get(one, one))),
            ("mathematical_script", "ASCII letters in mathematical script", 1.0,
             _changed_by(lambda one: MATHEMATICAL_SCRIPT.get(one, one))),
        ),
        "white_space": (
            ("letters_spaced", "a word with a space between its letters", 0.05, _letters_spaced),
        ),
        "latex": (("latex_bold", r"a word in \textbf{}", 0.1, _latex_bold),),
    }.items()
    for name, what, rate, rule in kinds
)  # fmt: skip
FAMILIES = tuple(dict.fromkeys(one.family for one in PERTURBATIONS))
