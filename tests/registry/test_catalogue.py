"""The catalogue's database: set up to lose nothing, migrated, refused when it is not ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from bpeline.registry.catalogue import Version, database, models
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption, StorageError

HERE = Path(__file__).parent


def digest(number: int) -> str:
    return f"{number:064x}"


def test_sqlite_is_set_up_to_lose_nothing(sqlite_url: str, tmp_path: Path) -> None:
    catalogue = Catalogue(sqlite_url)
    with database.Database(sqlite_url).reading() as session:
        connection = session.connection()
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout")
        }
    full = 2
    assert pragmas == {"journal_mode": "delete", "synchronous": full, "busy_timeout": 30000}
    catalogue.start_run("news", {})
    assert [path.name for path in tmp_path.iterdir()] == ["catalogue.sqlite"]


def test_the_unique_constraint_is_in_the_database_itself(catalogue: Catalogue, url: str) -> None:
    catalogue.add_version(Version("news", digest(1)))
    engine = create_engine(url, poolclass=NullPool)
    with pytest.raises(IntegrityError), Session(engine) as session, session.begin():
        session.add(Version("news", digest(1)))


def test_the_tables_compile_for_postgresql() -> None:
    statements = [
        str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        for table in models.Base.metadata.sorted_tables
    ]
    names = {table.name for table in models.Base.metadata.sorted_tables}
    assert names == {
        "schema_version", "identity", "file_readings", "count_tables", "trainings", "lineage",
        "alias_moves", "evaluation_sets",
    }  # fmt: skip
    assert any("UNIQUE (name, digest)" in statement for statement in statements)
    assert all("BIGINT" in s for s in statements if "CREATE TABLE file_readings" in s)


def test_the_catalogue_of_release_0_1_is_refused(catalogue: Catalogue, url: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE schema_version SET number = 5"))
    with pytest.raises(StorageError, match=r"0\.1") as refused:
        Catalogue(url)
    assert "bpeline promote" in refused.value.next_step


def test_the_catalogue_of_a_newer_bpeline_is_refused(catalogue: Catalogue, url: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("INSERT INTO schema_version VALUES (99, '')"))
    with pytest.raises(StorageError, match="99"):
        Catalogue(url)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    path.write_bytes(b"not a database at all, but long enough to have a header" * 10)
    with pytest.raises(CorruptFile, match=r"catalogue\.sqlite"):
        Catalogue(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"not a database")


@pytest.mark.parametrize(
    "wrong", ["nonsense", "", "oracle-of-delphi://x/y", "postgresql+asyncpg://u:pw-1@h/d"]
)
def test_a_url_that_cannot_be_used_is_an_invalid_option(wrong: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Catalogue(wrong)
    assert "pw-1" not in str(refused.value)


@pytest.mark.night
def test_a_writer_waits_for_a_lock_and_gives_up_with_a_typed_error(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    catalogue = Catalogue(sqlite_url)
    monkeypatch.setattr(database, "_BUSY_MILLISECONDS", 20)
    monkeypatch.setattr(database, "_PATIENCE_SECONDS", 0.1)
    blocker = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StorageError, match="locked"):
            catalogue.start_run("news", {})
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert catalogue.runs() == []
    assert catalogue.start_run("news", {}).state == "running"
