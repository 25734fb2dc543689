"""What MLflow holds, kept between commands: never what it held before somebody changed it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kept_registry import KeptRegistry, with_two_versions

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.tracking import MlflowTracker, snapshot
from bpeline.registry.tracking.snapshot import Registered, stamp_of
from bpeline.registry.tracking.tracked import TrackedVersion

ROOT = Path(__file__).parents[2]
HELD = Registered("id", (TrackedVersion("news", 1, "d", "r"),), {"news": {"champion": 1}}, {})

PROGRAM = """
import sys
from bpeline.flows.cli.main import cli
from bpeline.registry import configure, load_tokenizer
configure(workspace=sys.argv[1], tracking_uri=sys.argv[2])
for typed in (["versions"], ["show", "news/1"], ["encode", "news@champion", "the"]):
    cli(typed, standalone_mode=False)
print(load_tokenizer("news@champion").digest)
print("mlflow" in sys.modules)
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    return with_two_versions(tmp_path_factory.mktemp("kept"), empty_mlflow)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "mlflow.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE aliases (name, number)")
        connection.execute("INSERT INTO aliases VALUES ('champion', 1)")
    return path


def write(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE aliases SET number = 3 - number")


def write_in_its_times(path: Path) -> None:
    """As a clock that stands still would leave it."""
    before = path.stat()
    write(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def copied_back(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def replaced_content(path: Path) -> None:
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize("change", [write, write_in_its_times, copied_back, replaced_content])
def test_every_kind_of_write_changes_the_stamp(
    database: Path, change: Callable[[Path], None]
) -> None:
    before = stamp_of(database)
    assert before == stamp_of(database) is not None
    change(database)
    assert stamp_of(database) not in (before, None)


def test_the_counter_alone_tells_two_states_apart(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = os.stat(database)
    monkeypatch.setattr("bpeline.registry.tracking.snapshot.os.fstat", lambda _: first)
    before = stamp_of(database)
    write(database)
    assert stamp_of(database) != before


def test_while_it_may_be_changing_there_is_no_stamp(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE aliases SET number = 2")
        assert stamp_of(database) is None
        writer.execute("ROLLBACK")
        assert stamp_of(database) is not None
        writer.execute("PRAGMA journal_mode = WAL")
        assert stamp_of(database) is not None
        writer.execute("UPDATE aliases SET number = 2")
        assert stamp_of(database) is None
    assert stamp_of(database) is not None
    assert stamp_of(database.with_name("nothing")) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: b"",
        lambda record: b"[" * 10_000,
        lambda record: json.dumps({**record, "stamp": [1]}).encode(),
        lambda record: json.dumps({**record, "versions": [{"name": "news"}]}).encode(),
        lambda record: json.dumps({**record, "aliases": 1}).encode(),
        lambda record: json.dumps({"stamp": record["stamp"]}).encode(),
        lambda record: json.dumps(record).encode()[:-1],
    ],
)
def test_a_damaged_one_is_none(
    tmp_path: Path, damage: Callable[[dict[str, object]], bytes]
) -> None:
    file = tmp_path / "snapshot.json"
    snapshot.write(file, [1, 2], HELD)
    assert snapshot.read(file, [1, 2]) == HELD
    assert snapshot.read(file, [1, 3]) is None
    file.write_bytes(damage(json.loads(file.read_bytes())))
    assert snapshot.read(file, [1, 2]) is None


def test_one_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    snapshot.write(tmp_path / "nowhere" / "snapshot.json", [1], HELD)
    (tmp_path / "file").touch()
    snapshot.write(tmp_path / "file" / "snapshot.json", [1], HELD)


@pytest.mark.usefixtures("kept")
def test_what_changes_while_it_is_read_is_not_kept(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, other = registry.tracker, MlflowTracker(registry.tracker.settings)
    search = tracker._search

    def overtaken(chosen: str) -> list[TrackedVersion]:
        other.move_alias("news", "champion", 2)  # after the aliases were read
        return search(chosen)

    monkeypatch.setattr(tracker, "_search", overtaken)
    tracker.keep_snapshot()
    found = MlflowTracker(registry.tracker.settings).version_of_alias("news", "champion")
    assert found is not None
    assert found.number == 2


@pytest.mark.parametrize("moves", [100, pytest.param(1_000, marks=pytest.mark.night)])
def test_an_alias_that_mlflow_alone_moves_never_means_the_former_version(
    registry: Registry, kept: KeptRegistry, moves: int
) -> None:
    from mlflow import MlflowClient

    client, digests = MlflowClient(registry.tracker.settings.uri), list(kept.filled)
    open_registry().tracker.keep_snapshot()
    for move in range(moves):
        number = move % 2 + 1
        client.set_registered_model_alias("news", "champion", str(number))
        if move % 10 == 0:
            assert load_tokenizer("news@champion").digest == digests[number - 1]
        for _ in range(2):  # the first asks MLflow where nobody has asked since the move
            reader = MlflowTracker(registry.tracker.settings)
            version = reader.version_of_alias("news", "champion")
            assert version is not None
            assert (version.number, version.digest) == (number, digests[number - 1])
        assert not reader._connection.is_open, "what was asked is kept for the next"


@pytest.mark.night
def test_commands_that_read_do_not_import_mlflow(
    registry: Registry, kept: KeptRegistry, tmp_path: Path
) -> None:
    place, uri = str(registry.workspace.root), registry.tracker.settings.uri
    for imported in ("True", "False"):  # the first one asks, for the database was put back
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, place, uri],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[-2:] == [kept.filled[0], imported]
