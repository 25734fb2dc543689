"""Which characters are in a set, as the `regex` package sees it; sets become character classes.

Characters that the same sets hold are one class: an automaton need not tell them apart. Nothing
here knows where in a pattern a set stands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.splitting.unicode_classes import (
    CODE_POINTS,
    all_characters,
    code_point_runs,
)

MOST_CLASSES = 254  # two more numbers are spoken for: the end, and a line feed before it


@dataclass(frozen=True, slots=True, eq=False)
class CharacterClasses:
    """A partition of all characters.

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


@functools.lru_cache(maxsize=256)
def _runs(source: str) -> NDArray[np.int64]:
    """Runs of code points in the set: int64 of shape [n, 2], half-open, ascending."""
    if len(source) == 1:
        return np.array([[ord(source), ord(source) + 1]], np.int64)
    matches = regex.finditer(f"(?:{source})++", all_characters())
    return code_point_runs(match.span() for match in matches)
