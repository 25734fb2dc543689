"""MLflow's database where it is a SQLite file: made whole, brought up to date whole, or left alone.

Kills while it is made are in tests/reliability/test_first_publications.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from ast import literal_eval
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from faulty_disk import mounted
from mlflow_tables import OLDER, make_older, revision_of

from bpeline.registry.tracking import MlflowTracker, TrackingSettings, mlflow_database
from bpeline.registry.tracking.mlflow_database import OUT_OF_DATE, database_of, make
from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, StorageError, WorkspaceLocked


def tracker_of(path: Path, *, ui_is_served: bool = False) -> MlflowTracker:
    return MlflowTracker(TrackingSettings(f"sqlite:///{path}", ui_is_served=ui_is_served))


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def names_beside(path: Path) -> list[str]:
    found = {one.name for one in path.parent.iterdir()}
    return sorted(found - {path.name, f"{path.name}.lock"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mlflow.sqlite"


@pytest.fixture
def complete(path: Path, empty_mlflow: Path) -> Path:
    shutil.copyfile(empty_mlflow, path)
    return path


@pytest.fixture(scope="session")
def older_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as an older MLflow leaves it, with a registered model in it."""
    path = tmp_path_factory.mktemp("older") / "older.sqlite"
    make_older(path)
    return path


@pytest.fixture
def older(path: Path, older_mlflow: Path) -> Path:
    shutil.copyfile(older_mlflow, path)
    return path


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("sqlite:////srv/mlflow.db", "/srv/mlflow.db"),
        ("sqlite:///mlflow.db?timeout=5", "mlflow.db"),
        ("sqlite+pysqlite:////srv/my 100%.db", "/srv/my 100%.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///file:mlflow.db?uri=true", None),
        ("postgresql:///mlflow", None),
        ("http://127.0.0.1:5000", None),
    ],
)
def test_the_file_of_a_uri(uri: str, file: str | None) -> None:
    assert database_of(uri) == (file and Path(file))


# ---- what is found -----------------------------------------------------------------------------


def of_a_newer_mlflow(path: Path) -> None:
    run_sql(path, "UPDATE alembic_version SET version_num = '0123456789ab'")


def without_a_table(path: Path) -> None:
    run_sql(path, "DROP TABLE model_version_tags")


def half_upgraded(path: Path) -> None:
    run_sql(
        path, "CREATE TABLE _alembic_tmp_trace_tags (a)", "CREATE TABLE _alembic_tmp_runs (a)",
        f"UPDATE alembic_version SET version_num = '{OLDER}'",
    )  # fmt: skip


def of_something_else(path: Path) -> None:
    path.unlink()
    run_sql(path, "CREATE TABLE customers (a)")


def no_database(path: Path) -> None:
    path.write_bytes(b"hello" * 1000)


def torn(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    "damage", [of_a_newer_mlflow, of_something_else, no_database, torn, without_a_table]
)
def test_what_cannot_be_used_stays_byte_for_byte(
    complete: Path, damage: Callable[[Path], None]
) -> None:
    damage(complete)
    before = complete.read_bytes()
    assert tracker_of(complete).why_unusable()
    with pytest.raises(StorageError, match=re.escape(str(complete))):
        tracker_of(complete).versions()
    assert complete.read_bytes() == before
    assert names_beside(complete) == []


def test_looking_at_one_changes_nothing(
    older: Path, empty_mlflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(older.parent)
    for said in (OUT_OF_DATE, ""):
        before = older.stat()
        assert tracker_of(older).why_unusable() == said
        assert older.stat() == before
        assert [one.name for one in older.parent.rglob("*")] == [older.name]
        shutil.copyfile(empty_mlflow, older)


def test_a_write_that_was_cut_short_is_taken_back(complete: Path) -> None:
    program = (
        "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
        "connection.execute('PRAGMA cache_size = 1'); "
        "connection.executemany('INSERT INTO registered_models (name, description) VALUES (?, ?)', "
        "[(str(n), 'x' * 500) for n in range(500)]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, complete], check=True)
    assert names_beside(complete) == [f"{complete.name}-journal"]
    assert tracker_of(complete).versions() == []
    assert names_beside(complete) == []


# ---- making ------------------------------------------------------------------------------------


def test_it_has_the_tables_that_mlflow_makes_itself(path: Path, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    tracker_of(path).prepare()
    usual = tmp_path / "usual.sqlite"
    MlflowClient(f"sqlite:///{usual}").search_experiments()
    schemas = []
    for one in (path, usual):
        with closing(sqlite3.connect(one)) as connection:
            rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
            # Constraints of a table stand in the order of a set of MLflow's: random.
            parts = [(*row, sorted(re.split(r",? *\n", sql or ""))) for *row, sql in rows]
            schemas.append(sorted(parts, key=str))
    assert schemas[0] == schemas[1]
    assert names_beside(path) == ["usual.sqlite"]


def test_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere" / "real.sqlite")
    tracker_of(path).prepare()
    assert path.is_symlink()
    assert tracker_of(tmp_path / "elsewhere" / "real.sqlite").why_unusable() == ""
    assert names_beside(path) == ["elsewhere"]


def test_what_lies_beside_a_lost_database_is_not_written_into_the_new_one(path: Path) -> None:
    stale = path.with_name(f"{path.name}-journal")
    stale.write_bytes(os.urandom(2000))
    path.with_name(f".tmp-0123456789ab-made-{path.name}").write_bytes(b"killed")
    tracker_of(path).prepare()
    assert tracker_of(path).why_unusable() == ""
    assert names_beside(path) == [f"{path.name}.lost-journal"]


@pytest.mark.parametrize("name", ["a b", "ü", "50 % #1", "q'uo\"te", "a :b"])
def test_the_current_directory_may_have_any_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / name
    here.mkdir()
    monkeypatch.chdir(here)
    tracker = MlflowTracker(
        TrackingSettings(f"sqlite:///{here}/mlflow.sqlite", (here / "files").as_uri())
    )
    if "'" in name or ":" in name:
        with pytest.raises(StorageError, match="BPELINE_HOME") as refused:
            tracker.prepare()
        shown = refused.value.happened.partition("directory is ")[2].partition(": it")[0]
        assert name in literal_eval(shown)
        monkeypatch.chdir(tmp_path)
    assert tracker.ensure_identity() == tracker.identity() != ""
    assert names_beside(here / "mlflow.sqlite") == []


def test_whoever_comes_second_waits_and_makes_none(path: Path) -> None:
    begun, go, made = threading.Event(), threading.Event(), []

    def slow(uri: str) -> None:
        made.append(uri)
        begun.set()
        go.wait()
        run_sql(Path(uri.removeprefix("sqlite:///")), "CREATE TABLE made (a)")

    threads = [threading.Thread(target=make, args=(path, slow)) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    time.sleep(0.2)
    go.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert names_beside(path) == []


def test_waiting_has_an_end_and_says_for_whom(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_UNATTENDED_SECONDS", 0.1)
    with (
        lock.holding(path.with_name(f"{path.name}.lock"), "making it"),
        pytest.raises(WorkspaceLocked, match=str(os.getpid())),
    ):
        tracker_of(path).prepare()
    assert names_beside(path) == []


def test_what_fails_or_is_killed_leaves_nothing(path: Path) -> None:
    def failing(uri: str) -> None:
        run_sql(Path(uri.removeprefix("sqlite:///")), "CREATE TABLE half (a)")
        raise sqlite3.OperationalError("no such table")

    def killed(uri: str) -> None:
        run_sql(Path(uri.removeprefix("sqlite:///")), "CREATE TABLE half (a)")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(StorageError, match="no such table"):
        make(path, failing)
    assert (path.exists(), names_beside(path)) == (False, [])
    child = os.fork()
    if not child:
        make(path, killed)
    os.waitpid(child, 0)
    assert not path.exists()
    assert len(names_beside(path)) == 1
    tracker_of(path).prepare()
    assert tracker_of(path).why_unusable() == ""
    assert names_beside(path) == []


@pytest.mark.night
def test_a_disk_that_is_full_for_a_while(tmp_path: Path, older_mlflow: Path) -> None:
    with mounted(tmp_path / "disk", "1536k") as small_disk:
        path, ballast = small_disk / "mlflow.sqlite", small_disk / "ballast"
        for taken in (1_550_000, 1_000_000):
            ballast.write_bytes(bytes(min(taken, shutil.disk_usage(small_disk).free)))
            with pytest.raises(DiskFull):
                tracker_of(path).prepare()
            ballast.unlink()
            assert not path.exists()
            assert names_beside(path) == []
        shutil.copyfile(older_mlflow, path)  # and there is no room for a copy of it
        with pytest.raises(DiskFull):
            tracker_of(path).prepare()
        assert path.read_bytes() == older_mlflow.read_bytes()
        assert names_beside(path) == []


# ---- upgrades ----------------------------------------------------------------------------------


def test_an_older_one_is_brought_up_to_date_and_its_content_kept(
    older: Path, empty_mlflow: Path
) -> None:
    older.chmod(0o640)
    inode = older.stat().st_ino
    with pytest.warns(UserWarning, match="was upgraded"):
        assert tracker_of(older).versions() == []
    assert revision_of(older) == revision_of(empty_mlflow)
    (kept,) = names_beside(older)
    assert kept.startswith(f"{older.name}.before-")
    assert revision_of(older.with_name(kept)) == OLDER
    assert (older.stat().st_ino, older.stat().st_mode & 0o777) == (inode, 0o640)
    with closing(sqlite3.connect(older)) as connection:
        assert connection.execute("SELECT name FROM registered_models").fetchall() == [("news",)]


def test_one_that_is_served_or_written_is_left_alone(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = older.read_bytes()
    with pytest.raises(StorageError, match="stop `bpeline serve`"):
        tracker_of(older, ui_is_served=True).versions()
    monkeypatch.setattr(mlflow_database, "_BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(older, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another program is writing") as refused:
            tracker_of(older).versions()
        assert not isinstance(refused.value, CorruptFile)
    assert older.read_bytes() == before
    assert names_beside(older) == []


@pytest.mark.parametrize("moment", ["_upgrade_copy", "_copy"])
def test_an_upgrade_that_is_killed_is_done_again(
    older: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = older.read_bytes()
    child = os.fork()
    if not child:
        monkeypatch.setattr(
            mlflow_database, moment, lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )
        tracker_of(older).prepare()
    os.waitpid(child, 0)
    assert older.read_bytes() == before
    with pytest.warns(UserWarning, match="was upgraded"):
        tracker_of(older).prepare()
    assert not [name for name in names_beside(older) if name.startswith(".tmp")]


def test_one_with_a_write_ahead_log_is_left_to_mlflow_s_command(older: Path) -> None:
    run_sql(older, "PRAGMA journal_mode = WAL")
    with pytest.raises(StorageError, match=f"mlflow db upgrade sqlite:///{older}"):
        tracker_of(older).versions()
    assert revision_of(older) == OLDER


def test_what_mlflow_cannot_bring_up_to_date_is_left_alone(complete: Path) -> None:
    half_upgraded(complete)
    before = complete.read_bytes()
    with pytest.raises(CorruptFile, match="cannot upgrade"):
        tracker_of(complete).prepare()
    assert complete.read_bytes() == before
