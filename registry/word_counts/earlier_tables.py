"""Tables that hold a part of a new table's sum: yesterday's is the beginning of today's.

Knows the records of tables, not their content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bpeline.registry.word_counts.shard_records import ShardRef
from bpeline.registry.workspace import Workspace, read_record
from bpeline.tokenizer_core.errors import CorruptFile

PLACES = "places"  # member of a table's record: `ShardRef.row` of everything it adds up
_LOOKED_AT = 8  # latest tables; a corpus that grows finds its own among them


def part_of(
    workspace: Workspace, refs: Sequence[ShardRef], table_format: int
) -> tuple[str, list[ShardRef]] | None:
    """The table that adds up the most of these shards and nothing else, if there is one.

    Positions are those in the whole corpus, so a table serves as long as its chunks stand where
    they stood: behind them a corpus may grow, before them nothing may change its length.

    Returns:
        The table's key, and the shards that are left to be added; None when no table helps.
    """
    wanted = Counter(map(_place, refs))
    best: tuple[int, str, Counter[tuple[str, str, int]]] | None = None
    for path in _latest(workspace):
        try:
            record = read_record(path, table_format)
            held = Counter((key, weight, base) for key, weight, base in record[PLACES])
            key = str(record["key"])
        except (CorruptFile, KeyError, TypeError, ValueError):
            continue
        if held <= wanted and (best is None or held.total() > best[0]):
            best = held.total(), key, held
    if best is None:
        return None
    left = list((wanted - best[2]).elements())
    return best[1], [ShardRef(key, base) for key, _, base in left]


def _place(ref: ShardRef) -> tuple[str, str, int]:
    key, weight, base = ref.row
    return key, weight, base


def _latest(workspace: Workspace) -> list[Path]:
    found = []
    for path in workspace.tables.glob("*.json"):
        if not path.name.endswith(".corpus.json"):
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)[:_LOOKED_AT]]
