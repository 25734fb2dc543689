"""Seeded perturbations of texts: the table of kinds, and their edits.

A rule decides which characters (code points) are eligible. Each of these is hit with the kind's
rate, by the upper 32 of its random bits; the lower 32 choose among alternatives.

Random bits depend neither on the machine nor on other documents: SHA-256 of seed, kind and document
gives a key, and SplitMix64 of the key and the position in the document gives 64 bits per position.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

_COUNTER_STEP = 0x9E3779B97F4A7C15  # SplitMix64 (Steele, Lea & Flood 2014), also the two factors
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BETWEEN = b"\0"  # after every document, so that no edit crosses its end
EDITION = 2  # of `PERTURBATIONS`; figures of different editions are not comparable
_LOW = np.uint64(0xFFFF_FFFF)
_APART = "\ud800"  # separator: never in UTF-8, never composed or reordered
MARKS_ADDED = "\u0300\u0301\u0302\u0303\u0308"  # grave, acute, circumflex, tilde, diaeresis
STROKE = "\u0336"  # long stroke through the character before


def _alphabet(
    upper: int, lower: int, digits: int | None, holes: Mapping[str, str]
) -> dict[str, str]:
    styled = {chr(65 + i): chr(upper + i) for i in range(26)}
    styled |= {chr(97 + i): chr(lower + i) for i in range(26)}
    if digits is not None:
        styled |= {chr(48 + i): chr(digits + i) for i in range(10)}
    return styled | dict(holes)


MATHEMATICAL_BOLD = _alphabet(0x1D400, 0x1D41A, 0x1D7CE, {})
# Some letters were in Unicode earlier, at other code points.
MATHEMATICAL_SCRIPT = _alphabet(
    0x1D49C,
    0x1D4B6,
    None,
    dict(zip("BEFHILMRego", "\u212c\u2130\u2131\u210b\u2110\u2112\u2133\u211b\u212f\u210a\u2134",
             strict=True)),
)  # fmt: skip
FULLWIDTH = {chr(point): chr(point + 0xFEE0) for point in range(0x21, 0x7F)}


def ranges(begins: Places, lengths: Places) -> Places:
    """``begin, begin + 1, …`` of each range, concatenated."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


class CharacterText:
    """Documents (UTF-8, at least one) joined, each followed by a NUL.

    Attributes:
        data: uint8, the bytes.
        ends: int64 ``[documents]``, the offset of the NUL after each document.
        points: uint32 ``[n]``, code points.
        begins: int64 ``[n + 1]``, the byte offset of each character, and the end.
        characters: the distinct characters, by code point.
        numbers: int64 ``[n]``, the index of each character in ``characters``.
    """

    def __init__(self, documents: Sequence[bytes]) -> None:
        joined = b"".join(document + _BETWEEN for document in documents)
        self.data: NDArray[np.uint8] = np.frombuffer(joined, np.uint8)
        sizes = np.fromiter(map(len, documents), np.int64, len(documents)) + 1
        self.ends: Places = np.cumsum(sizes) - 1
        self.points = np.frombuffer(joined.decode().encode("utf-32-le"), "<u4")
        leads = np.flatnonzero((self.data & 0xC0) != 0x80)
        self.begins: Places = np.append(leads, self.data.size)
        self._digests = [hashlib.sha256(document).digest() for document in documents]
        lasts = np.searchsorted(self.begins, self.ends)
        self._lengths = np.diff(lasts, prepend=-1)
        firsts = np.repeat(lasts - self._lengths + 1, self._lengths)
        positions = np.arange(1, len(self.points) + 1, dtype=np.uint64) - firsts.astype(np.uint64)
        self._counters = positions * np.uint64(_COUNTER_STEP)
        self.opens: Mask = np.zeros(len(self.points), np.bool_)
        self.opens[lasts - self._lengths + 1] = True
        highest = int(self.points.max())
        seen = np.zeros(highest + 1, np.bool_)
        seen[self.points] = True
        distinct = np.flatnonzero(seen)
        number_of = np.zeros(highest + 1, np.int64)
        number_of[distinct] = np.arange(len(distinct))
        self.characters = list(map(chr, distinct.tolist()))
        self.numbers: Places = number_of[self.points]

    @property
    def documents(self) -> int:
        return len(self.ends)

    def where(self, test: Callable[[str], bool]) -> Mask:
        passed: Mask = np.array([test(character) for character in self.characters], np.bool_)
        return passed[self.numbers]

    @cached_property
    def letters(self) -> Mask:
        """Letters of all scripts (``str.isalpha``: categories L*)."""
        return self.where(str.isalpha)

    @cached_property
    def words(self) -> tuple[Places, Places]:
        """First and last characters of words, inclusive: a letter, then letters and marks."""
        is_mark = self.where(_is_mark)
        here = np.arange(len(self.points))
        stopped = np.maximum.accumulate(np.where(self.letters | is_mark, -1, here))
        begun = np.maximum.accumulate(np.where(self.letters, here, -1))
        inside = (self.letters | is_mark) & (begun > stopped)
        return (
            np.flatnonzero(inside & ~previous(inside)),
            np.flatnonzero(inside & ~following(inside)),
        )

    def draws(self, seed: int, kind: str) -> NDArray[np.uint64]:
        """uint64 ``[n]``: 64 random bits per character, from seed, kind and document."""
        salt = f"{seed}\0{kind}\0".encode()
        hashed = (hashlib.sha256(salt + digest).digest()[:8] for digest in self._digests)
        keys = np.array([int.from_bytes(digest_bytes, "big") for digest_bytes in hashed], np.uint64)
        mixed: NDArray[np.uint64] = np.repeat(keys, self._lengths) + self._counters
        for shift, factor in zip((30, 27), _FACTORS, strict=True):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= factor
        mixed ^= mixed >> np.uint64(31)
        return mixed


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def previous(mask: Mask) -> Mask:
    """Shift a mask right: whether it holds for the character before."""
    return np.concatenate((np.zeros(1, np.bool_), mask[:-1]))


def following(mask: Mask) -> Mask:
    """Shift a mask left: whether it holds for the character after."""
    return np.concatenate((mask[1:], np.zeros(1, np.bool_)))


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """Replacements of byte ranges; an empty range is an insertion.

    Attributes:
        begins, ends: int64 ``[k]``, half-open ranges of whole characters, ascending and disjoint,
            with distinct begins.
        chosen: int64 ``[k]``, the index of the piece that replaces each range.
        pieces: UTF-8.
    """

    begins: Places
    ends: Places
    chosen: Places
    pieces: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.begins)


class EditedText:
    """A text after edits, with a map from old to new positions.

    Args:
        edits: of ``text``; none may touch a NUL between documents.

    Attributes:
        data: uint8, the bytes, a NUL after each document.
        ends: int64 ``[documents]``, where each document ends.
        found: bool, by old byte: whether the position still exists, outside of replaced ranges.
        images: int64, by old byte: the new position; for an insertion, the position before it.
    """

    def __init__(self, text: CharacterText, edits: Edits) -> None:
        size = text.data.size
        pieces = np.fromiter(map(len, edits.pieces), np.int64, len(edits.pieces))
        offsets = np.cumsum(pieces) - pieces
        lengths, widths = pieces[edits.chosen], edits.ends - edits.begins
        grown = lengths - widths
        placed = edits.begins + np.cumsum(grown) - grown
        is_kept = np.ones(size, np.bool_)
        is_kept[ranges(edits.begins, widths)] = False
        self.data: NDArray[np.uint8] = np.empty(size + int(grown.sum()), np.uint8)
        old = np.ones(self.data.size, np.bool_)
        new = ranges(placed, lengths)
        old[new] = False
        self.data[old] = text.data[is_kept]
        piece_bytes = np.frombuffer(b"".join(edits.pieces), np.uint8)
        self.data[new] = piece_bytes[ranges(offsets[edits.chosen], lengths)]
        self.found: Mask = np.ones(size, np.bool_)
        self.found[ranges(edits.begins + 1, np.maximum(widths - 1, 0))] = False
        steps = np.ones(size + 1, np.int64)
        steps[0] = 0
        steps[edits.begins + 1] += grown
        self.images: Places = np.cumsum(steps[:size])
        puts = widths == 0
        self._puts, self._added = edits.begins[puts], lengths[puts]
        self.ends: Places = self.images[text.ends]
        put_at_ends = np.isin(text.ends, self._puts)
        self.ends[put_at_ends] += self._added[np.searchsorted(self._puts, text.ends[put_at_ends])]

    def at_images(self, marked: Mask) -> Mask:
        """bool, by old byte: whether its new position is marked.

        For an insertion, a mark at any of its positions counts. ``marked`` is bool, by new byte.
        """
        there = marked[self.images]
        if len(self._puts):
            before = np.zeros(len(marked) + 1, np.int32)
            np.cumsum(marked, out=before[1:])
            first = self.images[self._puts]
            there[self._puts] = before[first + self._added + 1] > before[first]
        return there


class Chance:
    """Random choices of one kind in one text; a rate of 1 does not draw."""

    def __init__(self, text: CharacterText, seed: int, kind: str, rate: float) -> None:
        self._of, self._threshold = (text, seed, kind), round(rate * 2**32)

    @cached_property
    def _draws(self) -> NDArray[np.uint64]:
        text, seed, kind = self._of
        return text.draws(seed, kind)

    def hits(self, eligible: Mask) -> Mask:
        if self._threshold == 2**32:
            return eligible
        return eligible & ((self._draws >> np.uint64(32)) < self._threshold)

    def choices(self, at: Places, alternatives: int | Places) -> Places:
        """For each position a random number below its number of alternatives."""
        if np.all(np.asarray(alternatives) == 1):
            return np.zeros(len(at), np.int64)
        many = np.asarray(alternatives, np.uint64)
        return (((self._draws[at] & _LOW) * many) >> np.uint64(32)).astype(np.int64)


Rule = Callable[[CharacterText, Chance], Edits]


def _edits(
    text: CharacterText, at: Places, widths: int | Places, chosen: Places, pieces: Sequence[str]
) -> Edits:
    """Edits of ``widths`` characters each, from the positions ``at``."""
    ends = text.begins[at + widths]
    return Edits(text.begins[at], ends, chosen, [piece.encode() for piece in pieces])


def _instead(alternatives: Callable[[str], Sequence[str]]) -> Rule:
    """Replace eligible characters by one of their alternatives."""

    def rule(text: CharacterText, chance: Chance) -> Edits:
        offered = [list(alternatives(character)) for character in text.characters]
        many = np.fromiter(map(len, offered), np.int64, len(offered))
        at = np.flatnonzero(chance.hits((many > 0)[text.numbers]))
        numbers = text.numbers[at]
        chosen = (np.cumsum(many) - many)[numbers] + chance.choices(at, many[numbers])
        return _edits(text, at, 1, chosen, [piece for row in offered for piece in row])

    return rule


def _changed_by(change: Callable[[str], str]) -> Rule:
    """Replace the characters that a function changes."""
    return _instead(lambda one: [made] if (made := change(one)) != one else [])


def _in_alphabet(styled: Mapping[str, str]) -> Rule:
    return _changed_by(lambda one: styled.get(one, one))


def _struck_through(character: str) -> Sequence[str]:
    return [character + STROKE] if character.isalpha() else ()


def _with_a_mark(character: str) -> Sequence[str]:
    if not (character.isascii() and character.isalpha()):
        return ()
    return [unicodedata.normalize("NFC", character + mark) for mark in MARKS_ADDED]


def _hit_words(text: CharacterText, chance: Chance) -> tuple[Places, Places]:
    """First and last characters of the words that are hit; only words of two or more."""
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


def _decomposed(text: CharacterText, chance: Chance) -> Edits:
    """NFD of the whole text, as edits of the smallest parts that it changes.

    A part is a character that starts one, and all that may be reordered after it: normalization
    never crosses its edges. All parts are normalized in one call, separated by surrogates.
    """
    starts = np.flatnonzero(text.opens | ~text.where(_continues))
    lengths = np.diff(starts, append=len(text.points))
    touched = text.where(lambda one: _nfd(one) != one or _continues(one))
    parts = np.logical_or.reduceat(touched, starts)
    starts, lengths = starts[parts], lengths[parts]
    points = text.points[ranges(starts, lengths)]
    marked = np.insert(points, np.cumsum(lengths) - lengths, ord(_APART))
    before = marked.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    changed_parts, number_of = [], dict[str, int]()
    pairs = zip(before.split(_APART)[1:], _nfd(before).split(_APART)[1:], strict=True)
    for place, (old, new) in enumerate(pairs):
        if old != new:
            changed_parts.append((place, number_of.setdefault(new, len(number_of))))
    places, chosen = np.array(changed_parts, np.int64).reshape(-1, 2).T
    return _edits(text, starts[places], lengths[places], chosen, list(number_of))


def _continues(character: str) -> bool:
    """Whether a character may be reordered, or compose with the one before it.

    True for marks, and for vowels and final consonants of Hangul and a vowel sign of Kirat Rai.
    """
    first = unicodedata.normalize("NFKD", character)[0]
    hangul = "\u1160" <= first <= "\u11ff" or "\ud7b0" <= first <= "\ud7ff"
    return hangul or first == "\U00016d67" or unicodedata.category(first)[0] == "M"


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One kind of edit."""

    name: str  # also part of the random key
    family: str  # kinds that are reported together
    rate: float  # the share of eligible characters or words that is hit
    rule: Rule

    def apply(self, text: CharacterText, seed: int) -> tuple[EditedText, Edits]:
        edits = self.rule(text, Chance(text, seed, self.name, self.rate))
        return EditedText(text, edits), edits


PERTURBATIONS = (
    Perturbation("case_flipped", "case", 0.05, _changed_by(str.swapcase)),
    Perturbation("lower_case", "case", 1.0, _changed_by(str.lower)),
    Perturbation("diacritic_added", "diacritics", 0.05, _instead(_with_a_mark)),
    Perturbation("nfd", "normalization", 1.0, _decomposed),
    Perturbation("fullwidth", "styling", 1.0, _in_alphabet(FULLWIDTH)),
    Perturbation("struck_through", "styling", 1.0, _instead(_struck_through)),
    Perturbation("mathematical_bold", "styling", 1.0, _in_alphabet(MATHEMATICAL_BOLD)),
    Perturbation("mathematical_script", "styling", 1.0, _in_alphabet(MATHEMATICAL_SCRIPT)),
    Perturbation("letters_spaced", "white_space", 0.05, _letters_spaced),
    Perturbation("latex_bold", "latex", 0.1, _latex_bold),
)
FAMILIES = tuple(dict.fromkeys(one.family for one in PERTURBATIONS))
