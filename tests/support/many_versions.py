"""Thousands of versions of one name, made from the one that was published, row for row.

Publishing takes a second; here MLflow's tables and the catalogue's are filled directly. Every copy
has a digest, metrics, curves, a run and a move of its alias; it has no files.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

COPIED = "'copy-' || n"  # what the id of a copied run begins with
_OF_RUN = "run_uuid = (SELECT run_id FROM model_versions WHERE version = 1)"
_RUN = {"run_uuid": COPIED}
# For each table, which rows are those of version 1, and what says in them which copy it is.
Tables = Mapping[str, tuple[str, Mapping[str, str]]]
_IN_MLFLOW: Tables = {
    "runs": (_OF_RUN, {**_RUN, "name": "'news/' || n"}),
    "tags": (_OF_RUN, _RUN),
    "params": (_OF_RUN, _RUN),
    "metrics": (_OF_RUN, _RUN),
    "latest_metrics": (_OF_RUN, _RUN),
    "model_versions": ("version = 1", {"version": "n", "run_id": COPIED}),
    "model_version_tags": (
        "version = 1",
        {
            "version": "n",
            "value": f"CASE key WHEN 'digest' THEN digest_of(n) WHEN 'run_id' THEN {COPIED} "
            "ELSE value END",
        },
    ),
}
_IN_CATALOGUE: Tables = {
    "lineage": (
        "id = 1",
        {
            "id": "n", "digest": "digest_of(n)", "run_id": COPIED,
            "registered": "(SELECT json_group_object(key, n) FROM json_each(registered))",
        },
    ),
    "alias_moves": ("id = 1", {"id": "n", "from_number": "n - 1", "to_number": "n"}),
}  # fmt: skip


def digest_of_copy(number: int) -> str:
    """The digest of a copied version; no tokenizer has it."""
    return hashlib.sha256(b"%d" % number).hexdigest()


def copy_first_version(mlflow: Path, catalogue: Path, numbers: Iterable[int]) -> None:
    """Copy version 1 of the one name there is; its aliases point to the last copy then.

    Args:
        mlflow, catalogue: SQLite files.
        numbers: of the copies; no version has them.
    """
    wanted = list(numbers)
    with closing(sqlite3.connect(mlflow)) as tables:
        _copy(tables, _IN_MLFLOW, wanted)
        tables.execute("UPDATE registered_model_aliases SET version = ?", (wanted[-1],))
        tables.commit()
    with closing(sqlite3.connect(catalogue)) as tables:
        _copy(tables, _IN_CATALOGUE, wanted)
        tables.commit()


def _copy(tables: sqlite3.Connection, copied: Tables, numbers: list[int]) -> None:
    tables.create_function("digest_of", 1, digest_of_copy, deterministic=True)
    tables.execute("CREATE TEMP TABLE numbers (n INTEGER PRIMARY KEY)")
    tables.executemany("INSERT INTO numbers VALUES (?)", [(one,) for one in numbers])
    for table, (first, changed) in copied.items():
        columns = [row[1] for row in tables.execute(f"PRAGMA table_info({table})")]
        listed = ", ".join(f'"{column}"' for column in columns)
        chosen = ", ".join(changed.get(column, f'"{column}"') for column in columns)
        tables.execute(
            f"INSERT INTO {table} ({listed}) "
            f"SELECT {chosen} FROM (SELECT * FROM {table} WHERE {first}), numbers"
        )
