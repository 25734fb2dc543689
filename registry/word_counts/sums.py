"""Shards added up in memory, read ahead by threads: the way of all but the largest corpora.

Knows neither where shards lie nor what becomes of the sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from bpeline.tokenizer_core.counting import WordCounts, WordSum
from bpeline.tokenizer_core.splitting import SplitPattern

T = TypeVar("T")


def sum_in_memory(
    groups: Sequence[T],
    read: Callable[[T], WordCounts],
    pattern: SplitPattern,
    *,
    begun: WordCounts | None = None,
    memory_limit: int,
    threads: int,
) -> tuple[WordCounts, int]:
    """Add up shards of weight 1, as many as fit.

    Args:
        groups: shards that are read together. All counts must not exceed 2⁶³ − 1 together.
        read: gives their words at their places in the corpus; called from several threads.
        pattern: of all shards.
        begun: a sum that they are added to; its positions are those in the corpus already.
        memory_limit: bytes to work in: when the words take half of it, that is all, for a table
            grows by doubling, and rows are made beside it.
        threads: that read.

    Returns:
        Distinct words in order of sight, and how many of the groups are in them.

    Raises:
        CorruptFile: a shard cannot be read.
    """
    words = WordSum(pattern)
    added = 0
    with closing(_read_ahead(groups, read, threads)) as parts:
        for part in parts:
            words.add(part)
            added += 1
            if words.memory > memory_limit // 2:
                break
    counts = words.result() if begun is None else words.ended_with(begun)
    return counts.in_order_of_sight(), added


def _read_ahead(
    groups: Sequence[T], read: Callable[[T], WordCounts], threads: int
) -> Generator[WordCounts, None, None]:
    """Parts in the order of groups; only a few are ever waiting in memory."""
    running: deque[Future[WordCounts]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="read counts") as pool:
        try:
            for group in groups:
                running.append(pool.submit(read, group))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
