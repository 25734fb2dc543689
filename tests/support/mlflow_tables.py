"""MLflow's tables, made by its own migrations once: they take seconds and end with the same file.

Knows how MLflow prepares a database, and nothing of what is kept there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any


@contextmanager
def made_once(template: Path) -> Iterator[None]:
    """Let every later SQLite database of this process be a copy of the first empty one.

    Args:
        template: where the first one is kept; an empty one of this MLflow may lie there already.
    """
    from mlflow.store.db import utils
    from mlflow.store.model_registry import sqlalchemy_store

    make, latest = utils._initialize_tables, utils._get_latest_schema_revision

    def initialize(engine: Any) -> None:
        if engine.url.get_backend_name() != "sqlite":
            make(engine)
            return
        with closing(engine.raw_connection()) as held, closing(sqlite3.connect(template)) as first:
            if not first.execute("SELECT 1 FROM sqlite_master").fetchone():
                make(engine)
                held.driver_connection.backup(first)
            first.backup(held.driver_connection)

    utils._initialize_tables = sqlalchemy_store._initialize_tables = initialize
    utils._get_latest_schema_revision = cache(latest)  # reads every migration there is
    try:
        yield
    finally:
        utils._initialize_tables = sqlalchemy_store._initialize_tables = make
        utils._get_latest_schema_revision = latest


def copy_database(source: Path, target: Path) -> None:
    """Fill a SQLite database with all that is in another; who has it open sees the new content."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
