"""In-memory cache of the counts of tables that this process has created."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from bpeline.registry.word_counts.handles import TableHandle
from bpeline.tokenizer_core.counting import WordCounts

_held: dict[tuple[str, str], WordCounts] = {}
_holding = threading.Lock()


def keep(handle: TableHandle, counts: WordCounts) -> None:
    """Cache the content of a table."""
    with _holding:
        _held[_key(handle)] = counts


def held(handle: TableHandle) -> WordCounts | None:
    """Return the cached content; None unless this process created the table."""
    return None if handle.reused else _held.get(_key(handle))


def evict(paths: Iterable[Path] | None = None) -> None:
    """Drop the cached contents of these table files, or all."""
    with _holding:
        names = None if paths is None else set(map(str, paths))
        for key in [entry for entry in _held if names is None or entry[0] in names]:
            del _held[key]


def _key(handle: TableHandle) -> tuple[str, str]:
    return str(handle.path), handle.counts_digest
