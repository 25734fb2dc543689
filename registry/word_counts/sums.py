"""Shards added up in memory, read ahead by threads: the way of all but the largest corpora.

Knows neither where shards lie nor what becomes of the sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from bpeline.tokenizer_core.counting import WordCounts, WordSum
from bpeline.tokenizer_core.splitting import SplitPattern

Read = Callable[[str], WordCounts]


def sum_in_memory(
    places: Mapping[str, Sequence[int]],
    read: Read,
    pattern: SplitPattern,
    *,
    begun: WordCounts | None = None,
    memory_limit: int,
    threads: int,
) -> WordCounts | None:
    """Add up shards of weight 1.

    Args:
        places: for each shard's key, the positions in the corpus at which it stands. All counts
            together, each place by itself, must not exceed 2⁶³ − 1.
        read: gives the words of a shard; called from several threads.
        pattern: of all shards.
        begun: a sum that they are added to; its positions are those in the corpus already.
        memory_limit: bytes that the distinct words may take.
        threads: that read.

    Returns:
        Distinct words in order of sight, or None when they do not fit.

    Raises:
        CorruptFile: a shard cannot be read.
    """
    words = WordSum(pattern)
    if begun is not None:
        words.add(begun)
    in_order = sorted(places, key=lambda key: min(places[key]))
    with closing(_read_ahead(in_order, read, threads)) as parts:
        for key, part in zip(in_order, parts, strict=True):
            words.add(_at(part, places[key]))
            if words.memory > memory_limit // 2:  # it grows by doubling
                return None
    return words.result().in_order_of_sight()


def _at(part: WordCounts, bases: Sequence[int]) -> WordCounts:
    """A chunk's counts at all its places together: the earliest sight, every occurrence."""
    moved = part.shifted(min(bases))
    return moved if len(bases) == 1 else replace(moved, counts=moved.counts * len(bases))


def _read_ahead(keys: Iterable[str], read: Read, threads: int) -> Generator[WordCounts, None, None]:
    """Parts in the order of keys; only a few are ever waiting in memory."""
    running: deque[Future[WordCounts]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="read counts") as pool:
        try:
            for key in keys:
                running.append(pool.submit(read, key))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
