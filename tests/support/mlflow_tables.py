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


OLDER = "b7e2c1a4d9f3"  # two migrations before that of MLflow 3.17


def make_older(path: Path) -> None:
    """Make a database as an older MLflow leaves it, with a registered model in it."""
    from alembic import command
    from mlflow.store.db import utils
    from mlflow.store.tracking.dbmodels.initial_models import Base

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        engine = utils.sqlalchemy.create_engine(
            "sqlite://", creator=lambda: connection, poolclass=utils.StaticPool
        )
        Base.metadata.create_all(engine)
        config = utils._get_alembic_config("sqlite://")
        with engine.begin() as shared:
            config.attributes["connection"] = shared
            command.upgrade(config, OLDER)
        connection.execute("INSERT INTO registered_models (name) VALUES ('news')")
        connection.commit()


def revision_of(path: Path) -> str:
    """The migration that a database was brought to; empty where there is none."""
    if not path.exists():
        return ""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def copy_database(source: Path, target: Path) -> None:
    """Fill a SQLite database with all that is in another; who has it open sees the new content."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
