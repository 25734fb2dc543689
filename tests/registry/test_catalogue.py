"""The catalogue's database: set up to lose nothing, migrated, refused when it is not ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from registry.catalogue import Catalogue
from tokenizer_core.errors import CorruptFile, InvalidOption, StorageError


def digest(number: int) -> str:
    return f"{number:064x}"


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
