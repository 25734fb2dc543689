"""Find an existing table that is a part of a new table's sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bpeline.registry.word_counts.shard_records import ShardRef
from bpeline.registry.workspace import Workspace, read_record
from bpeline.tokenizer_core.errors import CorruptFile

PLACES = "places"  # member of a table's record: `ShardRef.row` of all its shards
_LOOKED_AT = 8  # number of latest tables to check


def part_of(
    workspace: Workspace, refs: Sequence[ShardRef], table_format: int
) -> tuple[str, list[ShardRef]] | None:
    """Return the key of the table with the most of these shards, and the other shards.

    Shards must have the same positions in the corpus: it may grow at its end, but not before.
    """
    wanted = Counter(map(_place, refs))
    best: tuple[int, str, Counter[tuple[str, str, int]]] | None = None
    for path in _latest(workspace):
        try:
            record = read_record(path, table_format)
            contained = Counter((key, weight, base) for key, weight, base in record[PLACES])
            key = str(record["key"])
        except (CorruptFile, KeyError, TypeError, ValueError):
            continue
        if contained <= wanted and (best is None or contained.total() > best[0]):
            best = contained.total(), key, contained
    if best is None:
        return None
    remaining = list((wanted - best[2]).elements())
    return best[1], [ShardRef(key, base) for key, _, base in remaining]


def _place(ref: ShardRef) -> tuple[str, str, int]:
    key, weight, base = ref.row
    return key, weight, base


def _latest(workspace: Workspace) -> list[Path]:
    tables = []
    for path in workspace.tables.glob("*.json"):
        if not path.name.endswith(".corpus.json"):
            tables.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(tables, reverse=True)[:_LOOKED_AT]]
