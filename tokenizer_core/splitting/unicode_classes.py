"""Letters by case, numbers, marks, white space: every code point's class as `regex` sees it.

The tables are made from the installed ``regex`` package, so a kernel that reads them equals that
package by construction, whichever Unicode version it carries. Nothing here knows any pattern.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.kernels.character_masks import (
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
_CLASSES = {
    UPPER: r"[\p{Lu}\p{Lt}]++",
    LOWER: r"\p{Ll}++",
    CASELESS: r"[\p{Lm}\p{Lo}]++",
    MARK: r"\p{M}++",
    NUMBER: r"\p{N}++",
    WHITE_SPACE: r"\s++",
}
# The classes whose digest tells versions of Unicode apart, by the numbers they have in it.
_IN_DIGEST = {1: r"\p{L}++", 2: r"\p{N}++", 4: r"\s++"}


@functools.lru_cache(maxsize=1)
def all_characters() -> str:
    """Every character that UTF-8 can hold, in order, surrogates left out: 4.4 MB."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    return np.delete(points, np.s_[slice(*_SURROGATES)]).tobytes().decode("utf-32-le")


def code_point_runs(spans: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Half-open spans of `all_characters` as half-open runs of code points.

    Returns:
        int64 of shape [n, 2]; a run across the surrogates includes them (no text holds them).
    """
    runs = np.array(list(spans), np.int64).reshape(-1, 2)
    first, behind = _SURROGATES
    runs[:, 0] += (behind - first) * (runs[:, 0] >= first)
    runs[:, 1] += (behind - first) * (runs[:, 1] > first)
    return runs


def class_runs(classes: Mapping[int, str] = _CLASSES) -> tuple[tuple[int, int, int], ...]:
    """Runs of code points of one class: (class, first, one past the last), by class and position.

    Args:
        classes: for each, a regex that matches runs of its characters.
    """
    return tuple(
        (class_, begin, end)
        for class_, pattern in classes.items()
        for begin, end in code_point_runs(
            match.span() for match in regex.finditer(pattern, all_characters())
        ).tolist()
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
