"""Parts added up into a table: in memory as long as they fit, the rest by DuckDB.

Which way was taken shows in nothing but seconds and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bpeline.registry.word_counts.handles import Limits
from bpeline.registry.word_counts.sums import sum_in_memory
from bpeline.registry.word_counts.tables import build_table, read_table, write_table
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import BpelineError, StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

T = TypeVar("T")


def add_up(
    path: Path,
    parts: Sequence[T],
    read: Callable[[T], WordCounts],
    pattern: SplitPattern,
    workspace: Workspace,
    limits: Limits,
    *,
    begun: WordCounts | None = None,
    in_memory: bool = True,
) -> WordCounts:
    """Write the table of a sum.

    Args:
        path: a file that does not exist yet.
        parts: at least one.
        read: gives the counts of a part at their places in the corpus; called from several threads.
        pattern: of all parts.
        workspace: DuckDB spills to its disk.
        limits: threads, and bytes to work in; the distinct words alone may take more.
        begun: a sum that they are added to.
        in_memory: whether they may be added up in memory; all counts must not exceed 2⁶³ − 1
            together then.

    Returns:
        What the table holds, in order of sight.

    Raises:
        BpelineError: what ``read`` raises, and as `tables.build_table`.
    """
    sums, added = [begun] if begun else [], 0
    if in_memory:
        counts, added = sum_in_memory(parts, read, pattern, begun=begun, **limits)
        if added == len(parts):
            write_table(path, counts, threads=limits["threads"])
            return counts
        sums = [counts] if len(counts) else []
        del counts, begun
    left = limits["memory_limit"] - sum(_size(one) for one in sums)
    with workspace.temporary_directory("duckdb") as spill, _heard(read) as heard:
        build_table(
            path,
            _released(sums, map(heard, parts[added:])),
            spill=spill,
            threads=limits["threads"],
            memory_limit=max(left, limits["memory_limit"] // 2),
        )
    return read_table(path, pattern, threads=limits["threads"])


def _size(counts: WordCounts) -> int:
    columns = (counts.word_bytes, counts.offsets, counts.counts, counts.first_positions)
    return sum(column.nbytes for column in columns)


def _released(sums: list[WordCounts], more: Iterable[WordCounts]) -> Iterator[WordCounts]:
    """The sums, which are not kept, and then more."""
    while sums:
        yield sums.pop()
    yield from more


@contextmanager
def _heard(function: Callable[[T], WordCounts]) -> Iterator[Callable[[T], WordCounts]]:
    """The same function; DuckDB, which calls it, would tell of its stream and not of its error."""
    failed: list[BpelineError] = []

    def called(one: T) -> WordCounts:
        try:
            return function(one)
        except BpelineError as error:
            failed.append(error)
            raise

    try:
        yield called
    except StorageError:
        if failed:
            raise failed[0] from None
        raise
