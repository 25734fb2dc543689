"""MLflow's empty database, kept between workspaces: equal to one that is migrated, or not taken."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from bpeline.registry.tracking import kept_empty, mlflow_database
from bpeline.registry.tracking.mlflow_database import is_complete, made_with, make_ready
from bpeline.registry.tracking.tracking import MlflowTracker, TrackingSettings

CONTENT = b"tables" * 1000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is kept: not in the cache of who runs the tests."""
    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def migrations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that MLflow migrates an empty database."""
    from mlflow.store.db import utils

    make, made = utils._initialize_tables, list[str]()

    def counted(engine: object) -> None:
        made.append("migrated")
        make(engine)

    monkeypatch.setattr(utils, "_initialize_tables", counted)
    return made


def make(path: Path) -> Path:
    make_ready(path, MlflowTracker(TrackingSettings(f"sqlite:///{path}"))._migrate)
    assert is_complete(path)
    return path


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_the_second_workspace_takes_what_the_first_migrated(
    home: Path, tmp_path: Path, migrations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_750_000_000_000_000_000)
    first = make(tmp_path / "first.sqlite")
    assert migrations == ["migrated"]
    second = make(tmp_path / "second.sqlite")
    assert migrations == ["migrated"]
    assert dumped(second) == dumped(first)
    assert second.stat().st_mode == first.stat().st_mode
    assert MlflowTracker(TrackingSettings(f"sqlite:///{second}")).versions() == []


def test_what_another_mlflow_made_is_not_taken(
    home: Path, tmp_path: Path, migrations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "first.sqlite")
    texts = mlflow_database._migrations()
    monkeypatch.setattr(mlflow_database, "_migrations", lambda: [*texts[:-1], f"{texts[-1]}\n"])
    make(tmp_path / "second.sqlite")
    make(tmp_path / "third.sqlite")
    assert migrations == ["migrated"] * 2


def test_it_is_named_by_all_that_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {made_with()}
    for library in ("mlflow", "alembic", "sqlalchemy"):
        with monkeypatch.context() as patch:
            versions = {"mlflow": "1", "alembic": "1", "sqlalchemy": "1", library: "2"}
            patch.setattr(mlflow_database, "version", versions.__getitem__)
            names.add(made_with())
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "sqlite_version", "3.0")
        names.add(made_with())
    assert len(names) == 5


def test_what_is_kept_is_read_whole_or_not_at_all(home: Path) -> None:
    assert kept_empty.read("this") is None
    kept_empty.write("this", CONTENT)
    assert kept_empty.read("this") == CONTENT
    assert kept_empty.read("another") is None
    (file,) = home.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:20], whole[:-1], whole[:40] + b"x" + whole[41:], b"x" + whole[1:]):
        file.write_bytes(damaged)
        assert kept_empty.read("this") is None
    kept_empty.write("this", CONTENT)
    assert kept_empty.read("this") == CONTENT


def test_nobody_else_has_a_hand_in_it(home: Path, tmp_path: Path, migrations: list[str]) -> None:
    home.mkdir()
    home.chmod(0o777)
    kept_empty.write("this", CONTENT)
    assert list(home.iterdir()) == []
    home.chmod(0o700)
    kept_empty.write("this", CONTENT)
    (file,) = home.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o666)
    assert kept_empty.read("this") is None
    aside = tmp_path / "aside"
    os.rename(file, aside)
    aside.chmod(0o600)
    file.symlink_to(aside)
    assert kept_empty.read("this") is None
    home.chmod(0o777)
    make(tmp_path / "mlflow.sqlite")  # migrated, as nothing can be kept
    assert migrations == ["migrated"]
