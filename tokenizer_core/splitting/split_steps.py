"""One cut of several: a regex, and what becomes of its matches; knows no text outside of a piece.

The words are those of the pre-tokenizer Split of a tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.regex_export import respelled_for_export
from bpeline.tokenizer_core.splitting.split_automaton import SplitAutomaton, split_automaton
from bpeline.tokenizer_core.text import Text

Behavior: TypeAlias = Literal[
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"
]
BEHAVIORS: tuple[str, ...] = get_args(Behavior)
MOST_STEPS = 32


@dataclass(frozen=True, slots=True)
class SplitStep:
    """Cuts a piece at the matches of a regex.

    Attributes:
        regex: known to compile, and read alike by Oniguruma.
        behavior: what becomes of a match: dropped, a piece, part of what stands before or after it
            unless that is a match, or one piece with the matches beside it.
        invert: what lies between matches counts as match, and matches as what lies between.
    """

    regex: str
    behavior: Behavior
    invert: bool = False

    def described(self) -> dict[str, Any]:
        """The step as in a tokenizer.json."""
        return {
            "type": "Split",
            "pattern": {"Regex": self.regex},
            "behavior": self.behavior,
            "invert": self.invert,
        }

    @property
    def drops(self) -> bool:
        return self.behavior == "Removed"

    @property
    def automaton(self) -> SplitAutomaton:
        """The tables that find the matches.

        Raises:
            InvalidPattern: there are none, or Oniguruma reads the regex differently.
        """
        made = split_automaton(self.regex)
        respelled = respelled_for_export(self.regex)
        if isinstance(made, SplitAutomaton) and respelled == self.regex:
            return made
        raise InvalidPattern(
            f"one of several splits has the regex {self.regex[:200]!r}, which is beyond an "
            f"automaton: {made}"
            if isinstance(made, str)
            else f"one of several splits has the regex {self.regex[:200]!r}, which tokenizers "
            "(Oniguruma) reads differently",
            "regexes without look-behind, back-references and \\w, that never match nothing",
            "ask for a tokenizer.json without it"
            if isinstance(made, str)
            else f"write {respelled[:200]!r}",
        )


def mark_in_steps(
    text: Text, spans: NDArray[np.int64], steps: Sequence[tuple[SplitStep, SplitAutomaton]]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Cut spans by the first step, its pieces by the second and so on: see `Splitter.mark`.

    Args:
        text, spans: as there; the spans are within the text.
        steps: each with its automaton.
    """
    pieces = spans[spans[:, 0] < spans[:, 1]]
    pieces = pieces[np.argsort(pieces[:, 0])]
    left_out = [np.zeros(0, np.int64)]
    for step, automaton in steps:
        pieces, dropped = _cut(text, pieces, step, automaton)
        left_out.append(dropped)
    out = np.concatenate(left_out)
    return bits_at(text.size, np.append(pieces[:, 0], out)), bits_at(text.size, out)


def _cut(
    text: Text, pieces: NDArray[np.int64], step: SplitStep, automaton: SplitAutomaton
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pieces of pieces, and where those begin that are dropped."""
    starts = np.zeros(text.size // 64 + 2, np.uint64)
    gaps = np.zeros(starts.size, np.uint64)
    automaton.mark(text, np.ascontiguousarray(pieces), starts, gaps)
    begins = np.flatnonzero(np.unpackbits(starts.view(np.uint8), bitorder="little"))
    between = gaps.view(np.uint8)[begins >> 3] >> (begins & 7).astype(np.uint8) & 1 > 0
    matched = between if step.invert else ~between
    firsts = np.searchsorted(begins, pieces[:, 0])  # every piece begins one
    limits = np.repeat(pieces[:, 1], np.diff(np.append(firsts, begins.size)))
    if step.drops:
        return _up_to(begins, limits, text.size)[~matched], begins[matched]
    before = np.append(False, matched[:-1])
    if step.behavior == "Isolated":
        joined = np.zeros(begins.size, np.bool_)
    elif step.behavior == "MergedWithPrevious":
        joined = matched & ~before
    elif step.behavior == "MergedWithNext":
        joined = before & ~matched
    else:
        joined = before == matched
    joined[firsts] = False
    return _up_to(begins[~joined], limits[~joined], text.size), begins[:0]


def _up_to(begins: NDArray[np.int64], limits: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Pieces that end where the next begins, at the latest at their limits."""
    return np.stack((begins, np.minimum(np.append(begins[1:], size), limits)), axis=1)


def bits_at(size: int, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A bitmap of a text of so many bytes, as `Splitter.mark` gives it."""
    flags = np.zeros((size // 64 + 2) * 64, np.bool_)
    flags[positions] = True
    return np.packbits(flags, bitorder="little").view(np.uint64)
