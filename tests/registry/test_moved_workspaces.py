"""Workspaces that were moved or copied along with their MLflow: each has its own files."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from mlflow_tables import copy_database

from bpeline.registry import configure, environment, publish_version
from bpeline.registry.loading.version_files import keep_files
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import keep_in_outbox, publish_outbox
from bpeline.registry.records.publication import Publication
from bpeline.registry.records.references import ByNumber
from bpeline.registry.tracking.moved_artifacts import follow_artifacts
from bpeline.registry.upkeep.deletion import delete_versions
from bpeline.registry.workspace.workspace import Workspace

Made = Callable[..., Publication]

pytestmark = pytest.mark.night

COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


@pytest.fixture
def first(
    tmp_path: Path, empty_mlflow: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Registry]:
    """A workspace with an MLflow of its own, in which two versions are registered."""
    monkeypatch.setattr(environment, "_configured", None)
    workspace = Workspace.open(tmp_path / "first 100%")
    copy_database(empty_mlflow, workspace.root / "mlflow.sqlite")
    configure(workspace=workspace.root)
    registry = open_registry()
    for word in (b"the", b"and"):
        publish_version(registry, made(word))
    yield registry
    environment._configured = None


def database_of(registry: Registry) -> Path:
    return registry.workspace.root / "mlflow.sqlite"


def addresses_in(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        rows = [
            connection.execute(f"SELECT {column} FROM {table}").fetchall()
            for table, column in COLUMNS
        ]
    return {address for found in rows for (address,) in found if address.startswith("file:")}


def files_of(registry: Registry) -> dict[Path, bytes]:
    root = registry.workspace.mlflow_artifacts
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_copy_of_a_workspace_writes_and_removes_its_own_files(
    first: Registry, tmp_path: Path, made: Made
) -> None:
    before = files_of(first)
    copied = tmp_path / "it's a copy"
    shutil.copytree(first.workspace.root, copied)
    configure(workspace=copied)
    second = open_registry()
    with pytest.warns(UserWarning, match="MLflow"):
        publish_version(second, made(b"then"))
    assert len(files_of(second)) > len(before)
    delete_versions(second, ByNumber("news", 1))
    assert len(files_of(second)) == len(before)
    assert files_of(first) == before
    inside = (copied / "mlflow-artifacts").as_uri()
    assert all(
        one == inside or one.startswith(f"{inside}/")
        for one in addresses_in(copied / "mlflow.sqlite")
    )


def test_what_waits_is_published_where_the_workspace_is_now(
    first: Registry, tmp_path: Path, made: Made
) -> None:
    kept = keep_files(first.workspace, made(b"of"))
    keep_in_outbox(first.workspace, kept)
    moved = tmp_path / "moved"
    first.catalogue.close()
    first.workspace.root.rename(moved)
    environment._configured = None
    configure(workspace=moved)
    (published,) = publish_outbox(open_registry())
    assert published.number == 3
    assert published.directory.is_relative_to(moved)


def test_the_same_folder_by_another_path_is_no_other_one(first: Registry, tmp_path: Path) -> None:
    """As a container sees a folder of the machine, or the machine that of a container."""
    database, artifacts = database_of(first), first.workspace.mlflow_artifacts
    before = addresses_in(database)
    other = tmp_path / "mounted"
    other.symlink_to(first.workspace.root)
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, column in COLUMNS:
            connection.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?)",
                (artifacts.as_uri(), (other / "mlflow-artifacts").as_uri()),
            )
    through_it = addresses_in(database)
    assert not through_it & before
    assert follow_artifacts(database, artifacts.as_uri()) == ""
    assert addresses_in(database) == through_it
    other.unlink()
    assert artifacts.as_uri() in follow_artifacts(database, artifacts.as_uri())
    assert addresses_in(database) == before
    assert follow_artifacts(database, artifacts.as_uri()) == ""


def test_files_of_others_stay_where_they_are(first: Registry, tmp_path: Path) -> None:
    """Another workspace may use the same database, or a store be where new experiments go."""
    database, artifacts = database_of(first), first.workspace.mlflow_artifacts
    others = {
        "texts": "file:///srv/other/mlflow-artifacts/texts",
        "more": "file:///srv/backup/news",
    }
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany(
            "INSERT INTO experiments (name, artifact_location, lifecycle_stage, workspace) "
            "VALUES (?, ?, 'active', 'default')",
            others.items(),
        )
    before = addresses_in(database)
    assert before > set(others.values())
    for told in (artifacts.as_uri(), "s3://bucket/mlflow", None, tmp_path.as_uri()):
        assert follow_artifacts(database, told) == ""
    assert addresses_in(database) == before


def test_nothing_is_done_where_nobody_may_write(
    first: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(first.workspace.root, copied)
    database = copied / "mlflow.sqlite"
    before = addresses_in(database)
    from bpeline.registry.tracking import moved_artifacts

    real = moved_artifacts.connect
    monkeypatch.setattr(moved_artifacts, "connect", lambda path, _: real(path, "ro"))
    assert follow_artifacts(database, (copied / "mlflow-artifacts").as_uri()) == ""
    assert addresses_in(database) == before
