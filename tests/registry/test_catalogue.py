"""The catalogue: one row whatever races, history kept, killed runs seen, plain values returned."""

from __future__ import annotations

import dataclasses
import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from registry.catalogue import Catalogue
from registry.catalogue_records import ChunkRecord, CountTable, FileReading, Metric
from tokenizer_core.corpus import SourceFile
from tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    RegistryError,
    StorageError,
    UnknownVersion,
)

ROOT = Path(__file__).parents[2]


def digest(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'catalogue.sqlite'}"


@pytest.fixture
def catalogue(url: str) -> Iterator[Catalogue]:
    catalogue = Catalogue(url)
    yield catalogue
    catalogue.close()


FILE = SourceFile(
    path="/corpus/a.txt",
    source="corpus",
    format="text",
    compression=None,
    size=10,
    mtime_ns=2**60,
    ctime_ns=2**60 + 1,
    inode=2**64 - 1,
)


# ---- files and tables ----------------------------------------------------------------------------


def test_an_unchanged_file_is_recalled_with_its_chunks(catalogue: Catalogue) -> None:
    chunks = [ChunkRecord(digest(1), 0, 7, 0), ChunkRecord(digest(2), 7, 10, 3)]
    reading = FileReading.of(FILE, 64, digest(9), chunks)
    catalogue.remember_file_readings([reading])
    recalled = catalogue.recall_file_readings([FILE], 64, digest(9))
    assert recalled == {"/corpus/a.txt": reading}


@pytest.mark.parametrize("changed", ["size", "mtime_ns", "ctime_ns", "inode"])
def test_a_changed_file_is_not_recalled(catalogue: Catalogue, changed: str) -> None:
    catalogue.remember_file_readings([FileReading.of(FILE, 64, digest(9), [])])
    now = replace(FILE, **{changed: 5})
    assert catalogue.recall_file_readings([now], 64, digest(9)) == {}


def test_a_reading_belongs_to_its_grid_and_its_settings(catalogue: Catalogue) -> None:
    catalogue.remember_file_readings([FileReading.of(FILE, 64, digest(9), [])])
    assert catalogue.recall_file_readings([FILE], 65, digest(9)) == {}
    assert catalogue.recall_file_readings([FILE], 64, digest(8)) == {}


def test_a_later_reading_of_the_same_path_replaces_the_earlier(catalogue: Catalogue) -> None:
    for size in (10, 20):
        file = replace(FILE, size=size)
        chunk = ChunkRecord(digest(size), 0, size, 0)
        catalogue.remember_file_readings([FileReading.of(file, 64, digest(9), [chunk])])
    recalled = catalogue.recall_file_readings([file], 64, digest(9))
    assert [reading.chunks for reading in recalled.values()] == [
        (ChunkRecord(digest(20), 0, 20, 0),)
    ]
    assert catalogue.recall_file_readings([FILE], 64, digest(9)) == {}


def test_thousands_of_files_are_recalled_at_once(catalogue: Catalogue) -> None:
    files = [replace(FILE, path=f"/corpus/{k}.txt") for k in range(1201)]
    catalogue.remember_file_readings([FileReading.of(f, 64, digest(9), []) for f in files])
    assert len(catalogue.recall_file_readings(files, 64, digest(9))) == 1201


def test_a_count_table_is_remembered_once_even_beyond_64_bits(catalogue: Catalogue) -> None:
    table = CountTable(digest(1), digest(2), digest(3), words=5, total=2**63 + 1, run_id="r")
    assert catalogue.count_table(digest(1)) is None
    catalogue.remember_count_table(table)
    catalogue.remember_count_table(replace(table, run_id="later"))
    found = catalogue.count_table(digest(1))
    assert found is not None
    assert replace(found, created_at="") == table


# ---- runs ----------------------------------------------------------------------------------------


def test_a_run_is_followed_from_start_to_end(catalogue: Catalogue) -> None:
    run = catalogue.start_run("news", {"vocab_size": 32000, "paths": ["ä.txt"]})
    assert run.state == "running"
    assert catalogue.run(run.id[:4]) == run
    catalogue.step_reached(run.id, "count words", corpus_digest="c")
    catalogue.step_reached(run.id, "train merges", counts_digest="w")
    reached = catalogue.run(run.id)
    assert (reached.step, reached.corpus_digest, reached.counts_digest) == (
        "train merges",
        "c",
        "w",
    )
    assert catalogue.unfinished_runs() == [reached]
    catalogue.finish_run(run.id)
    assert catalogue.unfinished_runs() == []
    done = catalogue.run(run.id)
    assert (done.state, done.config) == ("finished", {"vocab_size": 32000, "paths": ["ä.txt"]})
    assert done.finished_at >= done.started_at


def test_failed_and_unpublished_runs_stay_unfinished_and_can_be_continued(
    catalogue: Catalogue,
) -> None:
    failed, waiting = catalogue.start_run("a", {}), catalogue.start_run("b", {})
    catalogue.fail_run(failed.id, "disk full")
    catalogue.leave_unpublished(waiting.id, "no answer")
    states = [(run.name, run.state, run.error) for run in catalogue.unfinished_runs()]
    assert states == [("b", "unpublished", "no answer"), ("a", "failed", "disk full")]
    continued = catalogue.continue_run(failed.id)
    assert (continued.state, continued.error, continued.finished_at) == ("running", "", "")


def test_a_run_whose_process_was_killed_is_interrupted_and_can_be_taken_over(
    catalogue: Catalogue, url: str
) -> None:
    program = (
        "import os, sys; from registry.catalogue import Catalogue; "
        "print(Catalogue(sys.argv[1]).start_run('news', {}).id, flush=True); os._exit(137)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    run_id = killed.stdout.strip()
    assert [run.state for run in catalogue.unfinished_runs()] == ["interrupted"]
    assert catalogue.continue_run(run_id).state == "running"
    assert catalogue.run(run_id).state == "running"


def test_a_run_of_another_living_process_is_not_taken_over(catalogue: Catalogue, url: str) -> None:
    program = (
        "import sys; from registry.catalogue import Catalogue; "
        "print(Catalogue(sys.argv[1]).start_run('news', {}).id, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, url],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        run_id = other.stdout.readline().strip()
        assert [run.state for run in catalogue.unfinished_runs()] == ["running"]
        with pytest.raises(RegistryError, match=str(other.pid)):
            catalogue.continue_run(run_id)
        other.communicate("")


def test_runs_are_listed_newest_first(catalogue: Catalogue) -> None:
    started = [catalogue.start_run("news", {"k": k}).id for k in range(3)]
    assert [run.id for run in catalogue.runs()] == started[::-1]
    assert [run.id for run in catalogue.runs(limit=2)] == started[:0:-1]


@pytest.mark.parametrize("prefix", ["", "zz", "%", "_"])
def test_an_unknown_run_is_said_to_be_unknown(catalogue: Catalogue, prefix: str) -> None:
    catalogue.start_run("news", {})
    with pytest.raises(RegistryError):
        catalogue.run(prefix)
    with pytest.raises(RegistryError):
        catalogue.heartbeat(prefix)


# ---- versions ------------------------------------------------------------------------------------


def test_a_version_is_registered_once_and_keeps_its_lineage(catalogue: Catalogue) -> None:
    first = catalogue.add_version(
        "news", digest(1), run_id="r1", corpus_digest="c", counts_digest="w", vocab_size=512,
        pattern="gpt2",
    )  # fmt: skip
    again = catalogue.add_version("news", digest(1), run_id="r2", mlflow_run_id="m", number=7)
    assert (first.number, first.reference, again.number) == (1, "news/1", 1)
    assert again == replace(first, mlflow_run_id="m")
    later = catalogue.add_version("news", digest(1), mlflow_run_id="another")
    assert later.mlflow_run_id == "m"
    assert catalogue.versions() == [again]
    assert catalogue.find_version("news", digest(1)) == again
    assert catalogue.find_version("news", digest(2)) is None


def test_numbers_count_up_under_each_name_or_follow_the_trackers(catalogue: Catalogue) -> None:
    numbers = [
        catalogue.add_version(name, digest(k), number=number).number
        for k, (name, number) in enumerate(
            [("a", None), ("a", None), ("b", None), ("a", 7), ("a", None), ("a", 2)]
        )
    ]
    assert numbers == [1, 2, 1, 7, 8, 9]  # 2 is taken by another digest
    assert catalogue.names() == ["a", "b"]
    assert [one.reference for one in catalogue.versions("a")] == ["a/1", "a/2", "a/7", "a/8", "a/9"]


def test_a_digest_or_enough_of_it_names_a_version(catalogue: Catalogue) -> None:
    first = catalogue.add_version("news", "aa" + "0" * 62)
    catalogue.add_version("other", "aa" + "0" * 62)
    catalogue.add_version("news", "ab" + "0" * 62)
    assert catalogue.version_by_digest("aa0") == first
    for prefix in ("a", "ff", "", "%", "_a"):
        with pytest.raises(UnknownVersion):
            catalogue.version_by_digest(prefix)
    with pytest.raises(UnknownVersion):
        catalogue.version("news", 3)


ADD_VERSIONS = """
import sys
from registry.catalogue import Catalogue
catalogue = Catalogue(sys.argv[1])
for k in range(10):
    version = catalogue.add_version("news", f"{k % 5:064x}", run_id=sys.argv[2])
    catalogue.set_alias("news", "candidate", version.number, by=sys.argv[2])
"""


def test_processes_that_register_the_same_contents_make_one_row_each(url: str) -> None:
    # They also make the tables at once: the file does not exist yet.
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_VERSIONS, url, f"w{k}"], cwd=ROOT)
        for k in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    catalogue = Catalogue(url)
    assert sorted(one.digest for one in catalogue.versions()) == [digest(k) for k in range(5)]
    assert [one.number for one in catalogue.versions()] == [1, 2, 3, 4, 5]
    moves = catalogue.alias_history("news", "candidate")[::-1]
    assert [move.from_number for move in moves[1:]] == [move.to_number for move in moves[:-1]]
    assert catalogue.aliases("news") == {"candidate": moves[-1].to_number}


def test_threads_that_register_different_contents_leave_no_gap(catalogue: Catalogue) -> None:
    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(lambda k: catalogue.add_version("news", digest(k)), range(20)))
    assert sorted(version.number for version in versions) == list(range(1, 21))


# ---- aliases and metrics -------------------------------------------------------------------------


def test_an_alias_moves_and_its_history_tells_who_and_why(catalogue: Catalogue) -> None:
    for k in range(3):
        catalogue.add_version("news", digest(k))
    catalogue.set_alias("news", "champion", 1, by="ada", reason="first")
    catalogue.set_alias("news", "champion", 3, by="bob", reason="better")
    catalogue.set_alias("news", "champion", 3, by="bob", reason="again")
    catalogue.set_alias("news", "candidate", 2)
    assert catalogue.alias("news", "champion").number == 3
    assert catalogue.aliases("news") == {"candidate": 2, "champion": 3}
    catalogue.remove_alias("news", "champion", by="eve", reason="broken")
    history = [
        (move.from_number, move.to_number, move.by, move.reason)
        for move in catalogue.alias_history("news", "champion")
    ]
    assert history == [
        (3, None, "eve", "broken"),
        (1, 3, "bob", "better"),
        (None, 1, "ada", "first"),
    ]
    assert len(catalogue.alias_history("news")) == 4
    assert catalogue.remove_alias("news", "champion") is None


def test_an_alias_that_moved_meanwhile_is_not_overwritten(catalogue: Catalogue) -> None:
    for k in range(3):
        catalogue.add_version("news", digest(k))
    catalogue.set_alias("news", "champion", 1, expected=None)
    catalogue.set_alias("news", "champion", 2, expected=1)
    for stale in (1, None):
        with pytest.raises(RegistryError, match="meanwhile"):
            catalogue.set_alias("news", "champion", 3, expected=stale)
    assert catalogue.aliases("news") == {"champion": 2}


def test_an_alias_needs_a_version(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownVersion):
        catalogue.set_alias("news", "champion", 1)
    assert catalogue.aliases("news") == {}
    with pytest.raises(UnknownVersion, match="champion"):
        catalogue.alias("news", "champion")


def test_metrics_come_back_by_key_and_step(catalogue: Catalogue) -> None:
    catalogue.add_version("news", digest(1))
    catalogue.add_metrics("news", 1, {"speed": 1.0, "nothing": math.nan})
    catalogue.add_curve("news", 1, "bytes_per_token", [(1024, 3.25), (512, 2.5)])
    catalogue.add_metrics("news", 1, {"speed": 1.5})
    found = catalogue.metrics("news", 1)
    assert found[:2] == [Metric("bytes_per_token", 512, 2.5), Metric("bytes_per_token", 1024, 3.25)]
    assert (found[2].key, math.isnan(found[2].value)) == ("nothing", True)
    assert found[3:] == [Metric("speed", 0, 1.5)]
    with pytest.raises(UnknownVersion):
        catalogue.add_metrics("news", 2, {"speed": 1.0})


def test_answers_are_frozen_values(catalogue: Catalogue) -> None:
    run, version = catalogue.start_run("news", {}), catalogue.add_version("news", digest(1))
    move = catalogue.set_alias("news", "champion", 1)
    for value, attribute in ((run, "state"), (version, "number"), (move, "by")):
        assert dataclasses.is_dataclass(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, attribute, "changed")


# ---- the database --------------------------------------------------------------------------------


def test_sqlite_is_set_up_to_lose_nothing(catalogue: Catalogue, tmp_path: Path) -> None:
    from registry.catalogue_tables import Database

    with Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}").reading() as session:
        connection = session.connection()
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    full = 2
    assert pragmas == {
        "journal_mode": "delete", "synchronous": full, "foreign_keys": 1, "busy_timeout": 30000,
    }  # fmt: skip
    catalogue.start_run("news", {})
    assert [path.name for path in tmp_path.iterdir()] == ["catalogue.sqlite"]


def test_the_unique_constraints_are_in_the_database_itself(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    catalogue.add_version("news", digest(1))
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as connection:
        for number, content in ((2, digest(1)), (1, digest(2))):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(
                    "INSERT INTO versions SELECT 99, name, ?, ?, run_id, corpus_digest, "
                    "counts_digest, vocab_size, pattern, mlflow_run_id, mlflow_version, created_at "
                    "FROM versions",
                    (number, content),
                )
    connection.close()


def test_the_tables_compile_for_postgresql() -> None:
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable

    from registry.catalogue_tables import Base

    statements = [
        str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        for table in Base.metadata.sorted_tables
    ]
    names = {table.name for table in Base.metadata.sorted_tables}
    assert names == {
        "schema_version", "file_readings", "count_tables", "runs", "versions", "aliases",
        "alias_history", "metrics",
    }  # fmt: skip
    assert any("UNIQUE (name, digest)" in statement for statement in statements)
    assert all("BIGINT" in s for s in statements if "CREATE TABLE file_readings" in s)


def test_the_catalogue_of_a_newer_bpeline_is_refused(catalogue: Catalogue, url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("INSERT INTO schema_version VALUES (99, '')")
    connection.close()
    with pytest.raises(StorageError, match="schema version 99"):
        Catalogue(url)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    path.write_bytes(b"not a database at all, but long enough to have a header" * 10)
    with pytest.raises(CorruptFile, match=r"catalogue\.sqlite"):
        Catalogue(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"not a database")


@pytest.mark.parametrize("url", ["nonsense", "", "oracle-of-delphi://x/y"])
def test_a_url_that_cannot_be_used_is_an_invalid_option(url: str) -> None:
    with pytest.raises(InvalidOption):
        Catalogue(url)


def test_a_writer_waits_for_a_lock_and_gives_up_with_a_typed_error(
    catalogue: Catalogue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from registry import catalogue_tables

    monkeypatch.setattr(catalogue_tables, "_BUSY_MILLISECONDS", 20)
    blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StorageError, match="locked"):
            catalogue.start_run("news", {})
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert catalogue.runs() == []
    assert catalogue.start_run("news", {}).state == "running"
