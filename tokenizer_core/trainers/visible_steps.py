"""Training made visible: each iteration's pair, its count, and the tokens there are then.

For people and small inputs. Merges are learned by the trainers; here they are applied once more,
one after another, in plain Python, and everything is counted anew. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class VisibleMerge(NamedTuple):
    """Two tokens and the token they become."""

    left: str
    right: str
    made: str


@dataclass(frozen=True, slots=True)
class VisibleStep:
    """The words after some merges.

    Attributes:
        number: of merges; 0 before the first.
        merge: the last merge; None before the first.
        count: how often its pair occurred then. ``aaa`` counts (a, a) twice.
        tokens: token → how often it occurs now, in order of sight.
    """

    number: int
    merge: VisibleMerge | None
    count: int
    tokens: dict[str, int]


def visible_steps(
    words: Iterable[tuple[Sequence[str], int]], merges: Iterable[VisibleMerge]
) -> Iterator[VisibleStep]:
    """The state before the first merge and after each one.

    Args:
        words: the symbols of each word and its count.
        merges: in the order in which they were learned.
    """
    present = [(list(symbols), count) for symbols, count in words]
    yield VisibleStep(0, None, 0, _counted(present))
    for number, merge in enumerate(merges, 1):
        found = sum(
            count
            for symbols, count in present
            for pair in pairwise(symbols)
            if pair == (merge.left, merge.right)
        )
        present = [(_merged(symbols, merge), count) for symbols, count in present]
        yield VisibleStep(number, merge, found, _counted(present))


def lines_of(step: VisibleStep) -> list[str]:
    """A step as lines of text."""
    tokens = ", ".join(f"{token} {count}" for token, count in step.tokens.items())
    head = "start"
    if step.merge is not None:
        left, right, made = step.merge
        head = f"merge {step.number}: {left} + {right} = {made}, which occurs {step.count} times"
    return [head, f"  tokens: {tokens}", f"  number of tokens: {len(step.tokens)}"]


def _counted(words: list[tuple[list[str], int]]) -> dict[str, int]:
    tokens: dict[str, int] = {}
    for symbols, count in words:
        for symbol in symbols:
            tokens[symbol] = tokens.get(symbol, 0) + count
    return tokens


def _merged(symbols: list[str], merge: VisibleMerge) -> list[str]:
    merged: list[str] = []
    position = 0
    while position < len(symbols):
        if symbols[position : position + 2] == [merge.left, merge.right]:
            merged.append(merge.made)
            position += 2
        else:
            merged.append(symbols[position])
            position += 1
    return merged
