"""Whether a trainer learned what it promises, and if not, where it first differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contestants import Contestant, Merge


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison.

    Attributes:
        equal: None where equality is not to be expected.
        words: for the table.
        divergence: (index, ours, theirs) of the first difference, printable.
    """

    equal: bool | None
    words: str
    divergence: tuple[int, str, str] | None = None


def verdict(contestant: Contestant, theirs: Sequence[Merge], expected: Sequence[Merge]) -> Verdict:
    """Compare a trainer's merges with ours under the tie-break it promises.

    Args:
        contestant: who learned them.
        theirs: (left, right) of each merge, or (token,) where pairs are not told.
        expected: our merges with the same numbering of bytes.
    """
    if contestant.package is None:
        return Verdict(True, "ours")
    if contestant.promise == "other":
        return Verdict(None, "another algorithm, by design")
    tokens_only = bool(theirs) and len(theirs[0]) == 1
    ours = [(b"".join(merge),) if tokens_only else merge for merge in expected]
    what = "tokens" if tokens_only else "merges"
    numbering = "" if contestant.promise == "printable" else ", bytes numbered by value"
    found = first_divergence(ours, theirs)
    if found is None:
        return Verdict(True, f"all {len(ours):,} {what} equal{numbering}")
    return Verdict(False, f"differ from merge {found[0]:,} on", found)


def first_divergence(ours: Sequence[Merge], theirs: Sequence[Merge]) -> tuple[int, str, str] | None:
    """(index, ours, theirs) of the first difference; a list that ends shows as ``nothing``."""
    for index, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine != other:
            return index, _shown(mine), _shown(other)
    shorter = min(len(ours), len(theirs))
    if len(ours) == len(theirs):
        return None
    rest = [_shown(side[shorter]) if len(side) > shorter else "nothing" for side in (ours, theirs)]
    return shorter, rest[0], rest[1]


def _shown(merge: Merge) -> str:
    return " + ".join(repr(token)[1:] for token in merge)
