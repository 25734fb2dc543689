"""Counts of tables that this process has just made, so that it need not read what it wrote.

A cache: whoever finds nothing here reads the file. Lets go when it is told to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from bpeline.registry.word_counts.handles import TableHandle
from bpeline.tokenizer_core.counting import WordCounts

_held: dict[tuple[str, str], WordCounts] = {}
_holding = threading.Lock()


def hold(handle: TableHandle, counts: WordCounts) -> None:
    """Keep the content of a table that this handle names."""
    with _holding:
        _held[_key(handle)] = counts


def held(handle: TableHandle) -> WordCounts | None:
    """The content, where this process has made the table; never of one that it found made."""
    return None if handle.reused else _held.get(_key(handle))


def let_go(paths: Iterable[Path] | None = None) -> None:
    """Forget the contents of the tables in these files, or of all."""
    with _holding:
        gone = None if paths is None else set(map(str, paths))
        for key in [one for one in _held if gone is None or one[0] in gone]:
            del _held[key]


def _key(handle: TableHandle) -> tuple[str, str]:
    return str(handle.path), handle.counts_digest
