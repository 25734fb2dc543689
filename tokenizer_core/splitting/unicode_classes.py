"""Which characters are in a set, or of a class, as the `regex` package sees it.

Tables are made from the installed package, so a kernel that reads them equals it by construction,
whichever Unicode version it carries. Nothing here knows where in a pattern a set stands.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.kernels.scanning.character_classes import (
    CASELESS,
    LOWER,
    MARK,
    NUMBER,
    UPPER,
    WHITE_SPACE,
)
from bpeline.tokenizer_core.kernels.scanning.class_ranges import ALTERNATING, CLASS_RANGES

CODE_POINTS = 0x110000
_SURROGATES = (0xD800, 0xE000)
MOST_CLASSES = 254  # two more numbers are spoken for: the end, and a line feed before it
_CLASSES = {
    UPPER: r"[\p{Lu}\p{Lt}]",
    LOWER: r"\p{Ll}",
    CASELESS: r"[\p{Lm}\p{Lo}]",
    MARK: r"\p{M}",
    NUMBER: r"\p{N}",
    WHITE_SPACE: r"\s",
}
# A letter that came with each version of Unicode: engines are asked which they know.
LETTERS_SINCE = {
    "14.0": "\U0001e290",
    "15.0": "\U0001e4d0",
    "15.1": "\U0002ebf0",
    "16.0": "\U00010d4a",
    "17.0": "\U00016ea0",
    "18.0": "\U0003d000",
}
# The classes whose digest tells versions of Unicode apart, by the numbers they have in it.
_IN_DIGEST = {1: r"\p{L}", 2: r"\p{N}", 4: r"\s"}


@functools.lru_cache(maxsize=1)
def all_characters() -> str:
    """Every character that UTF-8 can hold, in order, surrogates left out: 4.4 MB."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    return np.delete(points, np.s_[slice(*_SURROGATES)]).tobytes().decode("utf-32-le")


@functools.lru_cache(maxsize=256)
def _runs(source: str) -> NDArray[np.int64]:
    """Runs of code points in a set: int64 of shape [n, 2], half-open, ascending.

    A run across the surrogates includes them (no text holds them).
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
    """Runs of code points of one class: (class, first, one past the last), by class and position.

    Args:
        classes: for each, a regex that matches one of its characters.
    """
    return tuple(
        (class_, begin, end)
        for class_, source in classes.items()
        for begin, end in _runs(source).tolist()
    )


@functools.cache
def class_table() -> NDArray[np.uint8]:
    """The class of each code point: uint8 of shape [0x110000], 0 for *other*.

    One load per character beats a two-stage table here: a text visits few pages of this one.
    """
    table = np.zeros(CODE_POINTS, np.uint8)
    for class_, begin, end in class_runs():
        table[begin:end] = class_
    for class_, begin, end in itertools.chain(*CLASS_RANGES.values()):
        expected = np.full(end - begin, class_, np.int8)
        if class_ == ALTERNATING:
            expected[::2], expected[1::2] = UPPER, LOWER
        if not (table[begin:end] == expected).all():  # never yet; every token would depend on it
            raise RuntimeError(
                f"regex {regex.__version__} classifies U+{begin:04X} to U+{end - 1:04X} otherwise "
                "than every version of Unicode so far; install another version of regex"
            )
    return table


@functools.cache
def unicode_classes_digest() -> str:
    """Digest of the classes of all code points: changes when ``regex`` learns a new Unicode."""
    return digest_of(class_runs(_IN_DIGEST))


def unicode_version() -> str:
    """The newest version of Unicode that the installed ``regex`` knows, such as ``"18.0"``."""
    return newest_unicode(filter(regex.compile(r"\p{L}").match, LETTERS_SINCE.values()))


def newest_unicode(letters: Iterable[str]) -> str:
    """The newest version of Unicode of an engine, by which of `LETTERS_SINCE` it takes for letters.

    Empty where it is older than all of these. One that is newer is the newest of them.
    """
    known = set(letters)
    versions = itertools.takewhile(lambda one: one[1] in known, LETTERS_SINCE.items())
    return max((version for version, _ in versions), key=float, default="")


@dataclass(frozen=True, slots=True, eq=False)
class CharacterClasses:
    """A partition of all characters: those in the same sets are one class.

    Attributes:
        of_point: uint8 of shape [0x110000], the class of each code point.
        members: for each set, the classes in it.
        number: how many classes there are.
    """

    of_point: NDArray[np.uint8]
    members: tuple[frozenset[int], ...]
    number: int


def character_classes(sources: Sequence[str]) -> CharacterClasses | None:
    """The coarsest partition that tells all sets apart, or None when it is too fine.

    Args:
        sources: each a regex that matches one character; a single character stands for itself.
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
