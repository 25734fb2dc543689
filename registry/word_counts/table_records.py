"""Look up word-count tables by their records, without slow imports."""

from __future__ import annotations

from bpeline.registry.word_counts.handles import TableHandle
from bpeline.registry.workspace import Workspace, fetch, read_record
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.records import check_fields

TABLE_FORMAT = 2


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
