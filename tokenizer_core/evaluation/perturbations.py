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
    EMOJI,
    FULLWIDTH,
    HOMOGLYPHS,
    MARKS_ADDED,
    MATHEMATICAL_BOLD,
    MATHEMATICAL_SCRIPT,
    NEIGHBOURING_KEYS,
    OCR_PAIRS,
    OCR_TWINS,
    STROKE,
    ZERO_WIDTH,
    latex_of,
)
from bpeline.tokenizer_core.evaluation.perturbed_text import (
    CharacterText,
    EditedText,
    Edits,
    Mask,
    Places,
    following,
    previous,
    ranges,
)

EDITION = 1  # of the table below; figures of different editions are not of the same perturbations
_LOW = np.uint64(0xFFFF_FFFF)
_TAB, _FEED, _RETURN, _SPACE = 0x09, 0x0A, 0x0D, 0x20
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


def _put(text: CharacterText, before: Places, piece: str) -> Edits:
    """A piece put in before some characters."""
    return _edits(text, before, 0, np.zeros(len(before), np.int64), [piece])


# Characters, each for itself


def _instead(
    alternatives: Callable[[str], Sequence[str]],
    eligible: Callable[[CharacterText], Mask] | None = None,
) -> Rule:
    """Characters replaced, each by one of its alternatives; those without any are not eligible."""

    def rule(text: CharacterText, chance: Chance) -> Edits:
        offered = [list(alternatives(character)) for character in text.characters]
        many = np.fromiter(map(len, offered), np.int64, len(offered))
        possible = (many > 0)[text.numbers]
        if eligible is not None:
            possible &= eligible(text)
        at = np.flatnonzero(chance.hits(possible))
        numbers = text.numbers[at]
        chosen = (np.cumsum(many) - many)[numbers] + chance.choices(at, many[numbers])
        return _edits(text, at, 1, chosen, [piece for row in offered for piece in row])

    return rule


def _changed_by(change: Callable[[str], str]) -> Rule:
    """Characters replaced by what a function makes of them, where that is something else."""
    return _instead(lambda one: [made] if (made := change(one)) != one else [])


def _if_letter(*pieces: str) -> Callable[[str], Sequence[str]]:
    """For letters, pieces in which ``@`` is the letter."""
    return lambda one: [piece.replace("@", one) for piece in pieces] if one.isalpha() else []


def _only(character: str, *pieces: str) -> Callable[[str], Sequence[str]]:
    return lambda one: pieces if one == character else ()


def _neighbouring_keys(character: str) -> Sequence[str]:
    keys = NEIGHBOURING_KEYS.get(character.lower(), "")
    return keys.upper() if character.isupper() else keys


def _with_a_mark(character: str) -> Sequence[str]:
    if not (character.isascii() and character.isalpha()):
        return ()
    return [unicodedata.normalize("NFC", character + mark) for mark in MARKS_ADDED]


def _other_digits(character: str) -> Sequence[str]:
    digits = "0123456789"
    return digits.replace(character, "") if character in digits else ""


def _at_word_ends(text: CharacterText) -> Mask:
    firsts, lasts = text.words
    ends = np.zeros(len(text.points), np.bool_)
    ends[lasts[lasts > firsts]] = True
    return ends


def _not_after_a_return(text: CharacterText) -> Mask:
    return ~previous(text.points == _RETURN)


def _after_lower_case(text: CharacterText) -> Mask:
    return previous(text.where(str.islower))


# Two characters or more


def _letters_swapped(text: CharacterText, chance: Chance) -> Edits:
    """Of hits side by side the first counts."""
    differ = np.append(text.points[:-1] != text.points[1:], False)
    hit = chance.hits(text.letters & following(text.letters) & differ)
    at = np.flatnonzero(hit & ~previous(hit))
    pairs, chosen = np.unique(_pairs(text, at), return_inverse=True)
    pieces = [chr(pair & 0x1FFFFF) + chr(pair >> 21) for pair in pairs.tolist()]
    return _edits(text, at, 2, chosen.astype(np.int64), pieces)


def _pairs(text: CharacterText, at: Places) -> Places:
    """Two characters as one number."""
    pairs: Places = (text.points[at].astype(np.int64) << 21) | text.points[at + 1]
    return pairs


def _ocr_twins(text: CharacterText, chance: Chance) -> Edits:
    """Two letters that look like one, else one by itself; what a hit takes in is not hit again."""
    pairs = {ord(pair[0]) << 21 | ord(pair[1]): twin for pair, twin in OCR_PAIRS.items()}
    known = np.array(sorted(pairs), np.int64)
    here = _pairs(text, np.arange(len(text.points) - 1))
    paired = np.append(np.isin(here, known), False)
    hit = chance.hits(paired | text.where(OCR_TWINS.__contains__))
    # In a row of pairs, each of which has a letter with the next one, every other one counts.
    row = _numbers_in_runs(hit & paired)
    pair_hit = hit & paired & (row % 2 == 0)
    single_hit = hit & ~pair_hit & ~previous(pair_hit) & text.where(OCR_TWINS.__contains__)
    singles = [list(OCR_TWINS.get(one, ())) for one in text.characters]
    many = np.fromiter(map(len, singles), np.int64, len(singles))
    pieces = [pairs[one] for one in known.tolist()] + [one for row in singles for one in row]
    at = np.flatnonzero(pair_hit | single_hit)
    in_pair = pair_hit[at]
    numbers = text.numbers[at]
    alternatives = np.where(in_pair, 1, many[numbers])
    offset = len(known) + (np.cumsum(many) - many)[numbers]
    of_pair = np.searchsorted(known, _pairs(text, at))
    chosen = np.where(in_pair, of_pair, offset + chance.choices(at, alternatives))
    return _edits(text, at, 1 + in_pair, chosen, pieces)


def _numbers_in_runs(mask: Mask) -> Places:
    """Counted from 0 in each run of a mask; below 0 elsewhere."""
    here = np.arange(len(mask))
    outside = np.maximum.accumulate(np.where(mask, -1, here))
    return here - outside - 1


def _zero_width(text: CharacterText, chance: Chance) -> Edits:
    hit = np.flatnonzero(chance.hits(text.letters & following(text.letters)))
    chosen = chance.choices(hit, len(ZERO_WIDTH))
    return _edits(text, hit + 1, 0, chosen, list(ZERO_WIDTH))


def _tabs_and_spaces(text: CharacterText, chance: Chance) -> Edits:
    """In the white space that a line begins with: four spaces to a tab, a tab to four spaces."""
    space, tab = text.points == _SPACE, text.points == _TAB
    here = np.arange(len(text.points))
    line = np.maximum.accumulate(np.where(text.opens | previous(text.points == _FEED), here, -1))
    inked = np.maximum.accumulate(np.where(space | tab, -1, here))
    leading = inked < line
    spaces = space & leading
    turned = tab & leading
    turned[np.flatnonzero(spaces & (_numbers_in_runs(spaces) % 4 == 3)) - 3] = True
    at = np.flatnonzero(chance.hits(turned))
    is_tab = tab[at]
    return _edits(text, at, np.where(is_tab, 1, 4), is_tab.astype(np.int64), ["\t", "    "])


def _snake_to_camel(text: CharacterText, chance: Chance) -> Edits:
    score, lower = text.points == ord("_"), text.where(_has_capital)
    name = text.where(str.isalnum)
    at = np.flatnonzero(chance.hits(score & previous(name) & following(lower)))
    letters, chosen = np.unique(text.points[at + 1], return_inverse=True)
    return _edits(text, at, 2, chosen.astype(np.int64), [chr(one).upper() for one in letters])


def _has_capital(character: str) -> bool:
    return character.islower() and character.upper() != character


# Words and numbers


def _hit_words(text: CharacterText, chance: Chance) -> tuple[Places, Places]:
    """First and last characters of words hit, of those with two characters or more."""
    firsts, lasts = text.words
    eligible = np.zeros(len(text.points), np.bool_)
    eligible[firsts[lasts > firsts]] = True
    hit = chance.hits(eligible)[firsts]
    return firsts[hit], lasts[hit]


def _between_letters(piece: str) -> Rule:
    def rule(text: CharacterText, chance: Chance) -> Edits:
        firsts, lasts = _hit_words(text, chance)
        inside = ranges(firsts + 1, lasts - firsts)
        return _put(text, inside[text.letters[inside]], piece)

    return rule


def _around(firsts: Places, lasts: Places, text: CharacterText, before: str, after: str) -> Edits:
    """Pieces put in around ranges of characters, between which others stand."""
    at = np.stack((firsts, lasts + 1), axis=1).reshape(-1)
    return _edits(text, at, 0, np.tile(np.arange(2), len(firsts)), [before, after])


def _latex_bold(text: CharacterText, chance: Chance) -> Edits:
    return _around(*_hit_words(text, chance), text, r"\textbf{", "}")


def _numbers(text: CharacterText) -> tuple[Places, Places]:
    """First and last of the ASCII digits side by side."""
    digits = (text.points >= ord("0")) & (text.points <= ord("9"))
    return (
        np.flatnonzero(digits & ~previous(digits)),
        np.flatnonzero(digits & ~following(digits)),
    )


def _latex_numbers(text: CharacterText, chance: Chance) -> Edits:
    return _around(*_numbers(text), text, "$", "$")


def _digits_grouped(text: CharacterText, chance: Chance) -> Edits:
    firsts, lasts = _numbers(text)
    before = previous(text.where(lambda one: one in ".,_" or one.isalnum()))
    long = (lasts - firsts >= 3) & ~before[firsts]
    firsts, lasts = firsts[long], lasts[long]
    inside = ranges(firsts + 1, lasts - firsts)
    to_end = np.repeat(lasts + 1, lasts - firsts) - inside
    return _put(text, inside[to_end % 3 == 0], ",")


def _emoji(text: CharacterText, chance: Chance) -> Edits:
    firsts, lasts = _hit_words(text, chance)
    chosen = chance.choices(firsts, len(EMOJI))
    return _edits(text, lasts + 1, 0, chosen, [f" {emoji}" for emoji in EMOJI])


# Normalization


def _normalized(change: Callable[[str], str]) -> Rule:
    """A normalization of the whole text, as edits of the smallest parts that it changes.

    The parts are what no normalization reaches over: a character that starts one, and all that may
    compose with it or be reordered. They are normalized in one call, kept apart by surrogates.
    """

    def rule(text: CharacterText, chance: Chance) -> Edits:
        starts = np.flatnonzero(text.opens | ~text.where(_continues))
        lengths = np.diff(starts, append=len(text.points))
        touched = text.where(lambda one: change(one) != one or _continues(one))
        parts = np.logical_or.reduceat(touched, starts)
        starts, lengths = starts[parts], lengths[parts]
        points = text.points[ranges(starts, lengths)]
        marked = np.insert(points, np.cumsum(lengths) - lengths, ord(_APART))
        before = marked.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        made, number_of = [], dict[str, int]()
        pairs = zip(before.split(_APART)[1:], change(before).split(_APART)[1:], strict=True)
        for place, (old, new) in enumerate(pairs):
            if old != new:
                made.append((place, number_of.setdefault(new, len(number_of))))
        places, chosen = np.array(made, np.int64).reshape(-1, 2).T
        return _edits(text, starts[places], lengths[places], chosen, list(number_of))

    return rule


def _continues(character: str) -> bool:
    """Whether a character may be reordered, or compose with one before it.

    Marks do; and letters of no combining class that are second in a composition: vowels and final
    consonants of Hangul, a vowel sign of Kirat Rai.
    """
    first = unicodedata.normalize("NFKD", character)[0]
    hangul = "\u1160" <= first <= "\u11ff" or "\ud7b0" <= first <= "\ud7ff"
    return hangul or first == "\U00016d67" or unicodedata.category(first)[0] == "M"


def _form(name: str) -> Callable[[str], str]:
    return lambda text: unicodedata.normalize(name, text)  # type: ignore[arg-type]


def _without_marks(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    marks = [one for one in set(parts) if unicodedata.category(one) == "Mn"]
    return unicodedata.normalize("NFC", parts.translate(dict.fromkeys(map(ord, marks))))


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
        "typos": (
            ("letter_deleted", "a letter left out", 0.02, _instead(_if_letter(""))),
            ("letter_doubled", "a letter twice", 0.02, _instead(_if_letter("@@"))),
            ("letters_swapped", "two different letters side by side, exchanged", 0.02,
             _letters_swapped),
            ("neighbouring_key", "the key beside that of a letter or digit, case kept", 0.02,
             _instead(_neighbouring_keys)),
            ("ocr_twin", "what recognition of print reads instead: rn as m, l as 1", 0.02,
             _ocr_twins),
            ("last_letter_tripled", "the last letter of a word three times", 0.1,
             _instead(_if_letter("@@@"), _at_word_ends)),
        ),
        "case": (
            ("case_flipped", "a letter in the other case", 0.05, _changed_by(str.swapcase)),
            ("lower_case", "every character in lower case", 1.0, _changed_by(str.lower)),
            ("upper_case", "every character in upper case", 1.0, _changed_by(str.upper)),
        ),
        "diacritics": (
            ("diacritics_removed", "NFD, all non-spacing marks left out, NFC", 1.0,
             _normalized(_without_marks)),
            ("diacritic_added", "an accent on an ASCII letter", 0.05, _instead(_with_a_mark)),
        ),
        "normalization": (
            ("nfd", "canonical decomposition", 1.0, _normalized(_form("NFD"))),
            ("nfkc", "compatibility composition", 1.0, _normalized(_form("NFKC"))),
        ),
        "lookalikes": (
            ("homoglyph", "a letter of another script that looks the same", 0.05,
             _instead(lambda one: HOMOGLYPHS.get(one, ""))),
            ("zero_width", "a character of no width between two letters", 0.02, _zero_width),
        ),
        "styling": (
            ("fullwidth", "every visible ASCII character at full width", 1.0,
             _changed_by(lambda one: FULLWIDTH.get(one, one))),
            ("struck_through", "U+0336 after every letter", 1.0,
             _instead(_if_letter(f"@{STROKE}"))),
            ("mathematical_bold", "ASCII letters and digits in mathematical bold", 1.0,
             _changed_by(lambda one: MATHEMATICAL_BOLD.get(one, one))),
            ("mathematical_script", "ASCII letters in mathematical script", 1.0,
             _changed_by(lambda one: MATHEMATICAL_SCRIPT.get(one, one))),
        ),
        "white_space": (
            ("space_dropped", "a space left out", 0.1, _instead(_only(" ", ""))),
            ("space_doubled", "a space twice", 0.1, _instead(_only(" ", "  "))),
            ("letters_spaced", "a word with a space between its letters", 0.05,
             _between_letters(" ")),
            ("letters_hyphenated", "a word with a hyphen between its letters", 0.05,
             _between_letters("-")),
            ("crlf", "a carriage return before every line feed that has none", 1.0,
             _instead(_only("\n", "\r\n"), _not_after_a_return)),
            ("tabs_and_spaces", "in indentation, four spaces as a tab and a tab as four spaces",
             1.0, _tabs_and_spaces),
        ),
        "latex": (
            ("latex_escaped", "every special character and accented letter as LaTeX writes it",
             1.0, _changed_by(latex_of)),
            ("latex_bold", r"a word in \textbf{}", 0.1, _latex_bold),
            ("latex_numbers", "every number between dollar signs", 1.0, _latex_numbers),
        ),
        "digits": (
            ("digit_replaced", "an ASCII digit that is another one", 0.5, _instead(_other_digits)),
            ("digits_grouped", "commas in every number of four ASCII digits or more", 1.0,
             _digits_grouped),
        ),
        "emoji": (("emoji_inserted", "a space and an emoji after a word", 0.05, _emoji),),
        "identifiers": (
            ("snake_to_camel", "foo_bar as fooBar", 1.0, _snake_to_camel),
            ("camel_to_snake", "fooBar as foo_bar", 1.0,
             _instead(lambda one: [f"_{one.lower()}"] if one.isupper() else [],
                      _after_lower_case)),
        ),
    }.items()
    for name, what, rate, rule in kinds
)  # fmt: skip
FAMILIES = tuple(dict.fromkeys(one.family for one in PERTURBATIONS))
