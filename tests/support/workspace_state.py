"""What a workspace holds, in values that are equal when two histories led to the same.

Of DuckDB's files the rows, of SQLite's the rows that are ours, of the others their bytes; of
records of runs all but ids, times and durations. Knows nothing of what was done to a workspace.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bpeline.registry.opening import open_registry
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.tokenizer_core.digests import unsealed
from bpeline.tokenizer_core.durable_files import is_temporary
from bpeline.tokenizer_core.merging.checkpoint import load_checkpoint

# Of a version's and an outbox record's JSON what tells of the run and not of its result.
_VOLATILE = {
    "seal", "workers", "run", "run_id", "created_at", "started_at", "mlflow_run_id", "seconds",
    "report", "trained",
}  # fmt: skip


def state_of(workspace: str) -> dict[str, Any]:
    """Everything in a workspace that must not depend on how it came about."""
    root = Path(workspace)
    state: dict[str, Any] = {"sound": unsound(root)}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = str(path.relative_to(root))
        if name.startswith(("catalogue.", "mlflow")):
            continue
        said = _said_of(path)
        if said is not None:
            state[name] = said
    state["temporary"] = [path.name for path in (root / "temporary").glob("*")]
    state["half-written"] = [path.name for path in root.rglob("*") if is_temporary(path)]
    state["rows"] = _rows(root)
    return state


def swept_state_of(workspace: str) -> dict[str, Any]:
    """After what the next run removes: those who need no lock leave what they wrote aside."""
    open_registry(workspace).workspace.sweep()
    return state_of(workspace)


def _said_of(path: Path) -> str | None:
    content = path.read_bytes()
    match path.name:
        case "lock" | "workspace.json" | "checkpoint.previous" | "report.html":
            return None
        case "stores.json":
            stores = unsealed(json.loads(content))["stores"]
            return str(sorted({store["kind"] for store in stores}))
        case "checkpoint":
            return sha256(load_checkpoint(path).left.tobytes())
        case "manifest.json" | "evaluation.json":
            with suppress(ValueError):  # else it is damaged, and its bytes are what it says
                content = json.dumps(_steady(json.loads(content)), sort_keys=True).encode()
            return sha256(content)
    if path.suffix == ".duckdb":
        return _table_digest(path)
    if path.parent.name == "outbox":
        return sha256(json.dumps(_steady(json.loads(content)), sort_keys=True).encode())
    return sha256(content)


def _steady(value: Any) -> Any:
    """A JSON value without what tells of times and of the run."""
    if isinstance(value, dict):
        return {
            key: _steady(one)
            for key, one in value.items()
            if key not in _VOLATILE and not _is_a_time(key)
        }
    if isinstance(value, list):
        return [_steady(one) for one in value]
    return value.partition("/versions/")[2] or value if isinstance(value, str) else value


def _is_a_time(metric: str) -> bool:
    return metric.startswith("seconds/") or metric.endswith("_per_second")


def _table_digest(path: Path) -> str:
    store = WordCountStore(open_registry(path.parents[1]).workspace)
    handle = store.table(path.stem)
    return "no record" if handle is None else store.open_table(handle).digest


def _rows(root: Path) -> dict[str, Any]:
    """The rows of both databases that must come out the same."""
    catalogue = open_registry(root).catalogue
    names = sorted({v.name for v in catalogue.versions()})
    runs = sorted((run.name, run.state) for run in catalogue.runs())
    rows: dict[str, Any] = {
        "runs": runs,
        "tables": sorted((t.key, t.counts_digest, t.words) for t in catalogue.count_tables()),
        "versions": [(v.name, v.digest) for v in catalogue.versions()],
        "registrations": [(v.name, v.number, v.digest) for v in catalogue.registrations()],
        "moves": {name: len(catalogue.alias_history(name)) for name in names},
        "metrics": {
            f"{v.name}/{v.digest}": sorted(
                (m.key, m.step, m.value) for m in v.metrics if not _is_a_time(m.key)
            )
            for v in catalogue.versions()
        },
    }
    database = root / "mlflow.sqlite"
    if database.exists():
        with closing(sqlite3.connect(database)) as connection:
            rows["mlflow versions"] = connection.execute(
                "SELECT v.name, v.version, t.value FROM model_versions v"
                " JOIN model_version_tags t ON t.name = v.name AND t.version = v.version"
                " AND t.key = 'digest' WHERE v.current_stage != 'Deleted_Internal'"
                " ORDER BY 1, 2"
            ).fetchall()
            rows["mlflow aliases"] = connection.execute(
                "SELECT name, alias, version FROM registered_model_aliases ORDER BY 1, 2"
            ).fetchall()
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]


def unsound(root: Path) -> list[str]:
    """Which databases SQLite finds damaged, and which write-ahead logs there are."""
    found = [str(path.name) for path in root.rglob("*.wal")]
    for name in ("catalogue.sqlite", "mlflow.sqlite"):
        if (root / name).exists():
            with closing(sqlite3.connect(root / name)) as connection:
                said = connection.execute("PRAGMA integrity_check").fetchall()
            if said != [("ok",)]:
                found.append(f"{name}: {said}")
    return found


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
