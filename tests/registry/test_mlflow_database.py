"""MLflow's database where it is a SQLite file: its states, how it is made and brought up to date.

Kills while it is made are in tests/reliability/test_first_publications.py.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from faulty_disk import mounted

from bpeline.registry.tracking import MlflowTracker, TrackingSettings, mlflow_database
from bpeline.registry.tracking.mlflow_database import (
    DatabaseState,
    database_of,
    is_complete,
    look_at,
    make_ready,
)
from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    DiskFull,
    RegistryUnreachable,
    StorageError,
    WorkspaceLocked,
)

OLDER = "b7e2c1a4d9f3"  # two migrations before that of MLflow 3.17


def tracker_of(path: Path) -> MlflowTracker:
    return MlflowTracker(TrackingSettings(f"sqlite:///{path}"))


def ready(path: Path, **named: Any) -> str:
    return make_ready(path, tracker_of(path)._migrate, **named)


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
    from alembic import command
    from mlflow.store.db import utils
    from mlflow.store.tracking.dbmodels.initial_models import Base

    path = tmp_path_factory.mktemp("older") / "older.sqlite"
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
    return path


@pytest.fixture
def older(path: Path, older_mlflow: Path) -> Path:
    shutil.copyfile(older_mlflow, path)
    return path


# ---- states ------------------------------------------------------------------------------------


def test_the_newest_revision_is_read_as_mlflow_reads_it() -> None:
    from alembic.script import ScriptDirectory
    from mlflow.store.db import utils

    head, known = mlflow_database._revisions()
    scripts = ScriptDirectory.from_config(utils._get_alembic_config("sqlite://"))
    assert [head] == scripts.get_heads()
    assert known == {one.revision for one in scripts.walk_revisions()}


def test_the_tables_that_are_looked_for_are_those_of_mlflow(complete: Path) -> None:
    from mlflow.store.db.base_sql_model import Base
    from mlflow.store.tracking.dbmodels import initial_models

    assert set(initial_models.Base.metadata.tables) == mlflow_database._FIRST_TABLES
    assert set(Base.metadata.tables) >= mlflow_database._NEEDED_TABLES - {"alembic_version"}
    assert set(Base.metadata.tables) >= set(mlflow_database._CONTENT)


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


def empty(path: Path) -> None:
    path.write_bytes(b"")


def without_revision(path: Path) -> None:
    path.unlink()
    run_sql(path, *(f"CREATE TABLE {name} (a)" for name in ("experiments", "runs", "metrics")))


def unfinished(path: Path) -> None:
    run_sql(path, "CREATE TABLE _alembic_tmp_trace_tags (a)")


def without_a_table(path: Path) -> None:
    run_sql(path, "DROP TABLE model_version_tags")


def of_an_older_mlflow(path: Path) -> None:
    run_sql(path, f"UPDATE alembic_version SET version_num = '{OLDER}'")


def of_a_newer_mlflow(path: Path) -> None:
    run_sql(path, "UPDATE alembic_version SET version_num = '0123456789ab'")


def of_something_else(path: Path) -> None:
    path.unlink()
    run_sql(path, "CREATE TABLE customers (a)")


def no_database(path: Path) -> None:
    path.write_bytes(b"hello" * 1000)


def torn(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("damage", "state"),
    [
        (Path.unlink, DatabaseState.ABSENT),
        (empty, DatabaseState.EMPTY),
        (without_revision, DatabaseState.HALF_MADE),
        (unfinished, DatabaseState.HALF_MADE),
        (without_a_table, DatabaseState.HALF_MADE),
        (of_an_older_mlflow, DatabaseState.OUTDATED),
        (of_a_newer_mlflow, DatabaseState.UNKNOWN),
        (of_something_else, DatabaseState.FOREIGN),
        (no_database, DatabaseState.UNREADABLE),
        (torn, DatabaseState.UNREADABLE),
    ],
)
def test_what_is_found_and_what_becomes_of_it(
    complete: Path, damage: Callable[[Path], None], state: DatabaseState
) -> None:
    assert is_complete(complete)
    damage(complete)
    before = complete.read_bytes() if complete.exists() else None
    assert look_at(complete).state is state
    assert not is_complete(complete)
    assert (complete.read_bytes() if complete.exists() else None) == before, (
        "looking changes nothing"
    )

    lost = {DatabaseState.ABSENT, DatabaseState.EMPTY, DatabaseState.HALF_MADE}
    with pytest.raises(StorageError, match=str(complete)):
        ready(complete, expected=True)
    if state in lost or state is DatabaseState.OUTDATED:
        said = ready(complete)
        assert is_complete(complete)
        kept = names_beside(complete)
        assert len(kept) == (state is not DatabaseState.ABSENT)
        assert all(one in said for one in kept)
        if before is not None:
            assert complete.with_name(kept[0]).read_bytes() == before
        assert ready(complete) == ""
        assert tracker_of(complete).versions() == []
    else:
        with pytest.raises(StorageError, match=str(complete)):
            ready(complete)
        assert complete.read_bytes() == before
        assert names_beside(complete) == []


def test_what_holds_runs_is_mended_as_a_copy_or_left_as_it_is(complete: Path) -> None:
    run_sql(complete, "INSERT INTO registered_models (name, workspace) VALUES ('news', 'default')")
    unfinished(complete)
    run_sql(complete, "CREATE TABLE _alembic_tmp_runs (a)")
    assert look_at(complete).in_use
    assert "before-" in ready(complete, expected=True)
    assert is_complete(complete)
    with closing(sqlite3.connect(complete)) as connection:
        assert connection.execute("SELECT name FROM registered_models").fetchall() == [("news",)]

    without_a_table(complete)
    before, beside = complete.read_bytes(), names_beside(complete)
    with pytest.raises(CorruptFile, match="bpeline doctor"):
        ready(complete)
    assert (complete.read_bytes(), names_beside(complete)) == (before, beside)


def test_a_write_that_was_cut_short_is_taken_back(complete: Path) -> None:
    program = (
        "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
        "connection.execute('PRAGMA cache_size = 1'); "
        "connection.executemany('INSERT INTO registered_models (name, description) VALUES (?, ?)', "
        "[(str(n), 'x' * 500) for n in range(500)]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, complete], check=True)
    assert names_beside(complete) == [f"{complete.name}-journal"]
    assert look_at(complete).state is DatabaseState.INTERRUPTED
    assert is_complete(complete)
    assert names_beside(complete) == []
    assert not look_at(complete).in_use


def test_a_database_in_wal_mode_is_read(complete: Path) -> None:
    run_sql(complete, "PRAGMA journal_mode = WAL")
    assert is_complete(complete)


@pytest.mark.night
def test_looking_is_quick_and_imports_no_mlflow(complete: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; "
        "from bpeline.registry.tracking import is_complete; "
        "assert is_complete(Path(sys.argv[1])); assert 'mlflow' not in sys.modules; "
        "began = time.process_time(); assert is_complete(Path(sys.argv[1])); "
        "print(time.process_time() - began)"
    )
    asked = [sys.executable, "-c", program, str(complete)]
    said = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert float(said.stdout) < 0.05


def test_a_complete_one_is_not_written_and_needs_no_lock(complete: Path) -> None:
    before = complete.stat()
    assert ready(complete, expected=True) == ""
    assert complete.stat() == before
    assert [one.name for one in complete.parent.iterdir()] == [complete.name]


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
    ready(path)
    assert path.is_symlink()
    assert is_complete(tmp_path / "elsewhere" / "real.sqlite")


def test_what_lies_beside_a_lost_database_is_not_written_into_the_new_one(path: Path) -> None:
    stale = path.with_name(f"{path.name}-journal")
    stale.write_bytes(os.urandom(2000))
    temporary = path.with_name(f".tmp-0123456789ab-made-{path.name}")
    temporary.write_bytes(b"killed")
    ready(path)
    assert names_beside(path) == [f"{path.name}.lost-journal"]


@pytest.mark.night
def test_without_links_it_is_renamed(
    path: Path, older_mlflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    ready(path)
    assert is_complete(path)
    shutil.copyfile(older_mlflow, path)
    ready(path)
    assert is_complete(path)
    assert names_beside(path) == [f"{path.name}.before-{OLDER}"]


def test_one_that_others_make_meanwhile_is_used(path: Path, empty_mlflow: Path) -> None:
    def slow(connection: sqlite3.Connection) -> None:
        shutil.copyfile(empty_mlflow, path)  # a writer that knows nothing of our lock
        tracker_of(path)._migrate(connection)

    assert make_ready(path, slow) == ""
    assert path.read_bytes() == empty_mlflow.read_bytes()
    assert names_beside(path) == []


@pytest.mark.parametrize("name", ["q'uo\"te", "a :b", "ü"])
def test_the_current_directory_may_have_any_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / name
    here.mkdir()
    monkeypatch.chdir(here)
    place = (here / "files").as_uri()
    tracker = MlflowTracker(TrackingSettings(f"sqlite:///{here}/mlflow.sqlite", place))
    (default,) = tracker._client.search_experiments()
    assert (default.experiment_id, default.name) == ("0", "Default")
    assert default.artifact_location == f"{place}/0"


def test_whoever_comes_second_waits_and_makes_none(path: Path) -> None:
    begun, go, made = threading.Event(), threading.Event(), []

    def slow(connection: sqlite3.Connection) -> None:
        made.append(threading.current_thread().name)
        begun.set()
        go.wait()
        tracker_of(path)._migrate(connection)

    threads = [threading.Thread(target=make_ready, args=(path, slow)) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    time.sleep(0.2)
    go.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert is_complete(path)


def test_waiting_has_an_end_and_says_for_whom(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_UNATTENDED_SECONDS", 0.1)
    with (
        lock.holding(path.with_name(f"{path.name}.lock"), "making it"),
        pytest.raises(WorkspaceLocked, match=str(os.getpid())),
    ):
        ready(path)
    assert names_beside(path) == []


def test_migrations_that_fail_leave_nothing(path: Path) -> None:
    def failing(_: sqlite3.Connection) -> None:
        raise ValueError("no such table")

    with pytest.raises(StorageError, match="no such table"):
        make_ready(path, failing)
    with pytest.raises(StorageError, match="tables"):
        make_ready(path, lambda connection: None)
    assert not path.exists()
    assert names_beside(path) == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("empty_mlflow")  # its tables are remembered before there is no room
@pytest.mark.parametrize("size", [0, 100_000, 900_000])
def test_a_full_disk_leaves_nothing(path: Path, size: int) -> None:
    with largest_file(size), pytest.raises(DiskFull, match=str(path.parent)):
        ready(path)
    assert not path.exists()
    assert names_beside(path) == []
    ready(path)
    assert is_complete(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1.5 MB."""
    with mounted(tmp_path / "disk", "1536k") as place:
        yield place


@pytest.mark.night
def test_a_disk_that_is_full_for_a_while(small_disk: Path, older_mlflow: Path) -> None:
    path, ballast = small_disk / "mlflow.sqlite", small_disk / "ballast"
    for taken in (1_550_000, 1_000_000):
        ballast.write_bytes(bytes(min(taken, shutil.disk_usage(small_disk).free)))
        with pytest.raises(DiskFull):
            ready(path)
        ballast.unlink()
        assert [one.name for one in small_disk.iterdir() if one.name != f"{path.name}.lock"] == []
    ready(path)
    assert is_complete(path)

    shutil.copyfile(older_mlflow, path)  # and there is no room for a copy of it
    before = path.read_bytes()
    with pytest.raises(DiskFull):
        ready(path)
    assert path.read_bytes() == before
    assert names_beside(path) == []


# ---- upgrades ----------------------------------------------------------------------------------


@pytest.mark.night
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_an_older_one_is_migrated_as_a_copy_and_kept(older: Path, mode: str) -> None:
    run_sql(older, f"PRAGMA journal_mode = {mode}")
    older.chmod(0o640)
    assert look_at(older).state is DatabaseState.OUTDATED
    with pytest.warns(UserWarning, match=f"before-{OLDER}"):
        assert tracker_of(older).versions() == []
    assert is_complete(older)
    kept = older.with_name(f"{older.name}.before-{OLDER}")
    opened = {f"{older.name}-wal", f"{older.name}-shm"}  # by MLflow
    assert [one for one in names_beside(older) if one not in opened] == [kept.name]
    assert look_at(kept).state is DatabaseState.OUTDATED
    assert older.stat().st_mode & 0o777 == 0o640
    with closing(sqlite3.connect(older)) as connection:
        assert connection.execute("SELECT name FROM registered_models").fetchall() == [("news",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)


@pytest.mark.night
def test_one_that_a_server_has_open_is_left_alone(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_database, "READER_SECONDS", 0.2)
    program = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
        "connection.execute('SELECT * FROM runs').fetchall(); print('open', flush=True); input()"
    )
    asked = [sys.executable, "-c", program, str(older)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        before = older.read_bytes()
        with pytest.raises(StorageError, match=f"{server.pid}") as refused:
            ready(older)
        assert not isinstance(refused.value, CorruptFile)
        assert older.read_bytes() == before
        assert names_beside(older) == []
        server.communicate(b"\n")
    ready(older)
    assert is_complete(older)


@pytest.mark.night
def test_one_that_somebody_writes_is_left_alone(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system does not say who has it open, SQLite's lock does."""
    monkeypatch.setattr(mlflow_database, "_PROC", older.parent / "nothing")
    monkeypatch.setattr(mlflow_database, "_BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(older, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="unknown"):
            ready(older)
    assert look_at(older).state is DatabaseState.OUTDATED


@pytest.mark.night
def test_a_migration_that_is_killed_is_done_again(older: Path) -> None:
    def killed(_: sqlite3.Connection) -> None:
        os._exit(9)

    before = older.read_bytes()
    child = os.fork()
    if not child:
        make_ready(older, killed)
    os.waitpid(child, 0)
    assert older.read_bytes() == before
    assert len(names_beside(older)) == 1
    ready(older)
    assert names_beside(older) == [f"{older.name}.before-{OLDER}"]


def test_what_cannot_be_made_ready_is_told_as_it_is(path: Path) -> None:
    of_something_else_there = path
    run_sql(of_something_else_there, "CREATE TABLE customers (a)")
    with pytest.raises(StorageError, match="customers") as refused:
        tracker_of(path).versions()
    assert not isinstance(refused.value, RegistryUnreachable)
