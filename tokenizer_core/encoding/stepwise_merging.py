"""Merging one word step by step in plain Python, with or without dropout; knows nothing of text."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence


def never() -> bool:
    """No merge is dropped."""
    return False


def fired_merges(
    symbols: list[int | None],
    ranks: Mapping[tuple[int, int], int],
    results: Sequence[int],
    dropped: Callable[[], bool] = never,
) -> Iterator[tuple[int, int, int, int]]:
    """Merge in place: at each step the pair of lowest rank, the leftmost of several.

    With dropout, every place where a merge is possible is dropped or not, at each step anew; the
    best of those that are left is merged, and when none is left, the word is done. Places are
    asked about in order of rank, and behind the first that is not dropped none needs to be: what
    comes out has the same probability as when all are asked.

    Args:
        symbols: int ids ``[n]``; where two were merged, the first becomes the result and the
            second None.
        ranks: pair of ids → rank, distinct.
        results: the id that each rank makes.
        dropped: whether a place is left out at this step.

    Yields:
        Rank, left id, right id and place of each merge.
    """
    count = len(symbols)
    behind, before = list(range(1, count + 1)), list(range(-1, count - 1))
    heap: list[tuple[int, int]] = []

    def rank_at(at: int) -> int | None:
        if symbols[at] is None or behind[at] >= count:
            return None
        return ranks.get((symbols[at], symbols[behind[at]]))  # type: ignore[arg-type]

    def consider(at: int) -> None:
        rank = rank_at(at)
        if rank is not None:
            heapq.heappush(heap, (rank, at))

    def next_merge() -> tuple[int, int] | None:
        left_out: list[tuple[int, int]] = []
        found = None
        while heap and found is None:
            rank, at = heapq.heappop(heap)
            if rank_at(at) != rank:
                continue  # a part of it was merged since
            if dropped():
                left_out.append((rank, at))
            else:
                found = rank, at
        if found is not None:
            for one in left_out:
                heapq.heappush(heap, one)
        return found

    for at in range(count - 1):
        consider(at)
    while (merge := next_merge()) is not None:
        rank, at = merge
        left, right = symbols[at], symbols[behind[at]]
        assert left is not None
        assert right is not None
        symbols[at], symbols[behind[at]] = results[rank], None
        behind[at] = behind[behind[at]]
        if behind[at] < count:
            before[behind[at]] = at
        yield rank, left, right, at
        consider(at)
        if at > 0:
            consider(before[at])
