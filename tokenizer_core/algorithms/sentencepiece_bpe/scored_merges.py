"""Merges from the scores of tokens; knows no file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path

from bpeline.tokenizer_core.bounded_files import refuse

Merge = tuple[bytes, bytes]


def merges_of_scores(
    scores: Mapping[str, float], known: Collection[str], path: Path, frozen: Set[str] = frozenset()
) -> tuple[list[Merge], list[int]]:
    """All splits of tokens into two, and which of the tokens have the score of the one before.

    The neighbours whose text is the token of greatest score are merged first, the leftmost of
    equals: tokens are in the order of their scores, and for one token its splits by the left part.

    Args:
        scores: of the tokens that merges may make.
        known: what may be a part.
        path: of the file, for messages.
        frozen: what never is one, though it stands in texts.

    Raises:
        InvalidTokenizer: a token would be made of a character that is no token itself.
    """
    merges: list[Merge] = []
    ties: list[int] = []
    made = 0
    before = 0.0
    for text in sorted(scores, key=lambda text: -scores[text]):
        splits = [pair for pair in splits_of(text, known) if frozen.isdisjoint(pair)]
        if not splits:
            continue
        if made and scores[text] == before:
            ties.append(made)
        for left, right in splits:
            if part := next((p for p in (left, right) if p not in known), None):
                refuse(
                    path,
                    f"has the token {text[:40]!r}, which is made of {part!r}, no token itself",
                    "tokens made of tokens",
                    "train or export the model again",
                )
            merges.append((left.encode(), right.encode()))
        before = scores[text]
        made += 1
    return merges, ties


def splits_of(text: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Both sides of each place where a text comes apart into characters and what is known."""
    for at in range(1, len(text)):
        left, right = text[:at], text[at:]
        if (at == 1 or left in known) and (len(right) == 1 or right in known):
            yield left, right
