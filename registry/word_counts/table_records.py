"""Word-count tables: look them up by their records, and cache those made by this process."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.workspace import Workspace, fetch, read_record
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.records import check_fields

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import WordCounts

TABLE_FORMAT = 2
_held: dict[tuple[str, str], WordCounts] = {}  # path and digest → content
_holding = threading.Lock()


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A finished word-count table.

    Attributes:
        key: digest of its shards, their positions, and weights other than 1.
        total: Σ count.
        total_bytes: Σ count · length.
        counts_digest: `WordCounts.digest` of its content.
        reused: whether the table existed before.
    """

    key: str
    path: Path
    rows: int
    total: int
    total_bytes: int
    counts_digest: str
    reused: bool = False


def recorded_table(workspace: Workspace, key: str) -> TableHandle | None:
    """Return the table with this key; None if it or its record is missing or damaged."""
    path, manifest = workspace.table(key), workspace.table_manifest(key)
    if not (fetch(workspace, manifest) and (path.exists() or workspace.store)):
        return None
    try:
        record = read_record(manifest, TABLE_FORMAT)
        fields = {name: record[name] for name in ("rows", "total", "total_bytes", "counts_digest")}
        return check_fields(TableHandle(key, path, **fields, reused=True))
    except (CorruptFile, KeyError, ValueError):
        return None


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
