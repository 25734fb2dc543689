"""Parser of `regex` patterns that an automaton can run, and Unicode classes.

Sets and classes are evaluated by the installed `regex` package, so kernels use its Unicode version.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.kernels.scanning.classes import (
    ALTERNATING,
    CASELESS,
    CLASS_RANGES,
    LOWER,
    MARK,
    NUMBER,
    UPPER,
    WHITE_SPACE,
)

CODE_POINTS = 0x110000

_SURROGATES = (0xD800, 0xE000)
MOST_CLASSES = 254  # two more columns: the end, and a line feed before it
_CLASSES = {
    UPPER: r"[\p{Lu}\p{Lt}]",
    LOWER: r"\p{Ll}",
    CASELESS: r"[\p{Lm}\p{Lo}]",
    MARK: r"\p{M}",
    NUMBER: r"\p{N}",
    WHITE_SPACE: r"\s",
}
# A letter that each Unicode version added; tells the version of an engine.
LETTERS_SINCE = {
    "14.0": "\U0001e290",
    "15.0": "\U0001e4d0",
    "15.1": "\U0002ebf0",
    "16.0": "\U00010d4a",
    "17.0": "\U00016ea0",
    "18.0": "\U0003d000",
}
# The classes in `unicode_classes_digest`, with their numbers.
_IN_DIGEST = {1: r"\p{L}", 2: r"\p{N}", 4: r"\s"}

Kind = Literal["greedy", "lazy", "possessive"]

_DEEPEST = 50
_FEW = 16
_SET = regex.compile(r"\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\]", regex.DOTALL)
_PROPERTY = regex.compile(r"\\[pP](?:\{[^}]*\}|[A-Za-z])")
_CODE_POINT = regex.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_COUNTS = regex.compile(r"\{(?:([0-9]+)(?:(,)([0-9]*))?|,([0-9]+))\}")
_GROUP = regex.compile(r"\((?:\?(?::|P?<[^\W\d]\w*>|[is]*(?:-[is]+)?:))?")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_SHORTHANDS = frozenset("sSdDwW")
_REASONS = {
    "\\b": "a word boundary", "\\B": "a word boundary", "\\m": "a word boundary",
    "\\M": "a word boundary", "\\G": "the anchor \\G", "\\A": "an anchor at the start",
    "\\K": "\\K", "\\X": "a grapheme (\\X)", "\\R": "\\R", "\\L": "a named list",
    "\\g": "a back-reference", "\\N": "a character by name",
    "(?<=": "look-behind", "(?<!": "look-behind", "(?P=": "a back-reference",
    "(?P>": "recursion", "(?&": "recursion", "(?R": "recursion", "(?(": "a conditional",
    "(?#": "a comment", "(?|": "a branch reset",
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def all_characters() -> str:
    """Every character but surrogates, in order: 4.4 MB."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    return np.delete(points, np.s_[slice(*_SURROGATES)]).tobytes().decode("utf-32-le")


@functools.lru_cache(maxsize=256)
def _runs(source: str) -> NDArray[np.int64]:
    """Runs of code points in a set: int64 ``[n, 2]``, half-open, ascending.

    A run across the surrogates includes them.
    """
    if len(source) == 1:
        return np.array([[ord(source), ord(source) + 1]], np.int64)
    matches = regex.finditer(f"(?:{source})++", all_characters())
    runs = np.array([match.span() for match in matches], np.int64).reshape(-1, 2)
    first, behind = _SURROGATES
    runs[:, 0] += (behind - first) * (runs[:, 0] >= first)
    runs[:, 1] += (behind - first) * (runs[:, 1] > first)
    return runs


def class_runs(classes: Mapping[int, str] = _CLASSES) -> tuple[tuple[int, int, int], ...]:
    """Runs of code points of each class: (class, first, one past the last).

    ``classes`` maps a class to a regex for one of its characters.
    """
    return tuple(
        (class_, begin, end)
        for class_, source in classes.items()
        for begin, end in _runs(source).tolist()
    )


@functools.cache
def class_table() -> NDArray[np.uint8]:
    """The class of each code point: uint8 ``[0x110000]``, 0 for *other*."""
    # Faster than a two-stage table: a text touches few pages of this one.
    table = np.zeros(CODE_POINTS, np.uint8)
    for class_, begin, end in class_runs():
        table[begin:end] = class_
    for class_, begin, end in itertools.chain(*CLASS_RANGES.values()):
        expected = np.full(end - begin, class_, np.int8)
        if class_ == ALTERNATING:
            expected[::2], expected[1::2] = UPPER, LOWER
        if not (table[begin:end] == expected).all():
            raise RuntimeError(
                f"regex {regex.__version__} classifies U+{begin:04X} to U+{end - 1:04X} unlike all "
                "known Unicode versions; install another version of regex"
            )
    return table


@functools.cache
def unicode_classes_digest() -> str:
    """Digest of the classes of all code points; depends on the Unicode version."""
    return digest_of(class_runs(_IN_DIGEST))


def unicode_version() -> str:
    """Unicode version of the installed ``regex``, such as ``"18.0"``."""
    return newest_unicode(filter(regex.compile(r"\p{L}").match, LETTERS_SINCE.values()))


def newest_unicode(letters: Iterable[str]) -> str:
    """Unicode version of an engine that knows these letters of `LETTERS_SINCE`, or ""."""
    letters_known = set(letters)
    versions = itertools.takewhile(lambda item: item[1] in letters_known, LETTERS_SINCE.items())
    return max((version for version, _ in versions), key=float, default="")


@dataclass(frozen=True, slots=True, eq=False)
class CharacterClasses:
    """A partition of all characters: those in the same sets are one class.

    Attributes:
        of_point: uint8 ``[0x110000]``, the class of each code point.
        members: for each set, its classes.
        number: of classes.
    """

    of_point: NDArray[np.uint8]
    members: tuple[frozenset[int], ...]
    number: int


def character_classes(sources: Sequence[str]) -> CharacterClasses | None:
    """The coarsest partition that separates all sets; None if it is too fine.

    ``sources`` are regexes for one character; a single character stands for itself.
    """
    runs = [_runs(source) for source in sources]
    edges = np.unique(np.concatenate([np.array([0, CODE_POINTS]), *(r.ravel() for r in runs)]))
    begins = edges[:-1]
    inside = np.zeros((begins.size, len(runs) + 1), np.bool_)
    for index, run in enumerate(runs):
        inside[:, index] = np.searchsorted(run[:, 0], begins, "right") > np.searchsorted(
            run[:, 1], begins, "right"
        )
    different, class_of = np.unique(np.packbits(inside, axis=1), axis=0, return_inverse=True)
    if len(different) > MOST_CLASSES:
        return None
    of_point = np.repeat(class_of.reshape(-1).astype(np.uint8), np.diff(edges))
    holds = np.unpackbits(different, axis=1)[:, : len(runs)].astype(np.bool_)
    members = tuple(frozenset(np.flatnonzero(column).tolist()) for column in holds.T)
    return CharacterClasses(of_point, members, len(different))


class NotRegular(Exception):
    """The regex holds something that no automaton here can run; the message names it."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set, given as a regex; a single character stands for itself."""

    source: str


@dataclass(frozen=True, slots=True)
class Parts:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``part`` repeated ``least`` to ``most`` times; None: without limit."""

    part: Node
    least: int
    most: int | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Next:
    """Look-ahead: matches no text where the next character or an end is as given.

    Attributes:
        at_end: the end of the text matches, too.
        at_last_line_feed: a final line feed matches, too.
        negated: the opposite.
    """

    sources: tuple[str, ...]
    at_end: bool = False
    at_last_line_feed: bool = False
    negated: bool = False


Node: TypeAlias = Characters | Parts | Choice | Repeat | Next


def parsed(pattern: str) -> Node:
    """The tree of a regex that is known to compile.

    `NotRegular` names what is not a literal, set, alternation, group, quantifier, one-character
    look-ahead, ``$`` or ``\\Z``.
    """
    return _Reader(pattern).whole()


def can_be_empty(node: Node) -> bool:
    """Whether the node can match an empty string."""
    match node:
        case Characters():
            return False
        case Next():
            return True
        case Parts(parts):
            return all(map(can_be_empty, parts))
        case Choice(options):
            return any(map(can_be_empty, options))
        case Repeat(part, least):
            return least == 0 or can_be_empty(part)


def never_tries_twice(pattern: str) -> bool:
    """Whether the ``regex`` package never backtracks: each match is a run of one set."""
    node = parsed(pattern)
    options = node.options if isinstance(node, Choice) else (node,)
    return len(options) <= _FEW and all(map(_is_run, options))


def _is_run(node: Node) -> bool:
    match node:
        case Characters():
            return True
        case Repeat(Characters(), least, most, kind):
            return kind != "lazy" and least <= _FEW and (most is None or most <= _FEW)
    return False


class _Reader:
    """Recursive descent parser; ``flags`` holds ``i`` and ``s`` where they are on."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        flags = frozenset[str]()
        if inline := regex.match(r"\(\?([is]+)\)", self._pattern):
            flags = frozenset(inline.group(1))
            self._at = inline.end()
        node = self._choice(flags)
        if self._at < len(self._pattern):
            self._refuse("an unmatched parenthesis")
        return node

    def _refuse(self, what: str) -> NoReturn:
        raise NotRegular(f"{what} at position {self._at}")

    def _startswith(self, *texts: str) -> bool:
        return self._pattern.startswith(texts, self._at)

    def _take(self, expression: regex.Pattern[str]) -> regex.Match[str] | None:
        match = expression.match(self._pattern, self._at)
        if match:
            self._at = match.end()
        return match

    def _choice(self, flags: frozenset[str]) -> Node:
        options = [self._sequence(flags)]
        while self._startswith("|"):
            self._at += 1
            options.append(self._sequence(flags))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, flags: frozenset[str]) -> Node:
        parts: list[Node] = []
        while self._at < len(self._pattern) and not self._startswith("|", ")"):
            parts.append(self._quantified(self._atom(flags)))
        return parts[0] if len(parts) == 1 else Parts(tuple(parts))

    def _quantified(self, part: Node) -> Node:
        bounds: tuple[int, int | None]
        if self._startswith("?", "*", "+"):
            bounds = {"?": (0, 1), "*": (0, None), "+": (1, None)}[self._pattern[self._at]]
            self._at += 1
        elif self._startswith("{"):
            counts = self._take(_COUNTS)
            if counts is None:
                self._refuse("a brace that is no count")
            exact, comma, upper, only_upper = counts.groups()
            least = int(exact or 0)
            most_text = only_upper if exact is None else upper if comma else exact
            bounds = least, int(most_text) if most_text else None
        else:
            return part
        kind: Kind = "greedy"
        if self._startswith("?", "+"):
            kind = "lazy" if self._startswith("?") else "possessive"
            self._at += 1
        return Repeat(part, *bounds, kind)

    def _atom(self, flags: frozenset[str]) -> Node:
        character = self._pattern[self._at]
        if character == "(":
            return self._group(flags)
        if character == "[":
            match = self._take(_SET)
            if match is None:
                self._refuse("an unusual set")
            return self._set(match.group(), flags)
        if character == "\\":
            return self._escape(flags)
        if character == "$":
            self._at += 1
            return Next((), at_end=True, at_last_line_feed=True)
        if character == "^":
            self._refuse("an anchor at the start")
        if character == "{":
            self._refuse("a brace that is no count")
        self._at += 1
        if character == ".":
            return Characters("(?s:.)" if "s" in flags else "(?:.)")
        return self._literal(character, flags)

    def _set(self, source: str, flags: frozenset[str]) -> Characters:
        return Characters(f"(?i:{source})" if "i" in flags else source)

    def _literal(self, character: str, flags: frozenset[str]) -> Characters:
        return Characters(f"(?i:{regex.escape(character)})" if "i" in flags else character)

    def _escape(self, flags: frozenset[str]) -> Node:
        if match := self._take(_CODE_POINT):
            return self._literal(chr(int("".join(filter(None, match.groups())), 16)), flags)
        if match := self._take(_PROPERTY):
            return self._set(match.group(), flags)
        escape = self._pattern[self._at : self._at + 2]
        letter = escape[1:]
        if escape in _REASONS:
            self._refuse(_REASONS[escape])
        if letter.isdecimal():
            self._refuse("a back-reference or an octal escape")
        if letter in ("Z", "z"):
            self._at += 2
            return Next((), at_end=True)
        if letter in _SHORTHANDS:
            self._at += 2
            return self._set(escape, flags)
        if letter.isalpha() and letter.isascii() and letter not in _CONTROLS:
            self._refuse(f"the escape {escape}")
        self._at += 2
        return self._literal(_CONTROLS.get(letter, letter), flags)

    def _group(self, flags: frozenset[str]) -> Node:
        start = self._at
        negated = self._startswith("(?!")
        if negated or self._startswith("(?="):
            self._at += 3
            return self._look_ahead(self._inside(flags), negated, start)
        if self._startswith("(?>"):
            self._at += 3
            inside = self._inside(flags)
            if isinstance(inside, Repeat) and inside.kind == "greedy":
                return Repeat(inside.part, inside.least, inside.most, "possessive")
            return Repeat(inside, 1, 1, "possessive")
        for opening in (self._pattern[start : start + 4], self._pattern[start : start + 3]):
            if opening in _REASONS:
                self._refuse(_REASONS[opening])
        match = self._take(_GROUP)
        if match is None or (match.group() == "(" and self._startswith("?", "*")):
            self._at = start
            if regex.match(r"\(\?[0-9]", self._pattern[start:]):
                self._refuse("recursion")
            self._refuse("an inline flag" if self._startswith("(?") else "a verb")
        on, _, off = match.group()[2:-1].partition("-")
        if match.group().endswith(":"):
            flags = (flags | set(on)) - set(off)
        return self._inside(flags)

    def _inside(self, flags: frozenset[str]) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"groups nested more than {_DEEPEST} deep")
        node = self._choice(flags)
        self._depth -= 1
        self._at += 1  # the closing parenthesis
        return node

    def _look_ahead(self, node: Node, negated: bool, start: int) -> Next:
        options = node.options if isinstance(node, Choice) else (node,)
        sources = [option.source for option in options if isinstance(option, Characters)]
        ends = [option for option in options if isinstance(option, Next)]
        if len(sources) + len(ends) < len(options) or any(
            end.negated or end.sources for end in ends
        ):
            self._at = start
            self._refuse("look-ahead of anything but one character")
        return Next(
            tuple(sources),
            at_end=bool(ends),
            at_last_line_feed=any(end.at_last_line_feed for end in ends),
            negated=negated,
        )
