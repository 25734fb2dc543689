"""The catalogue on a real PostgreSQL: writers take turns, restarts are waited for, no password."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import PostgresServer, postgres_server
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bpeline.registry.catalogue import AliasMove, Metric, Version, database
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import RegistryError, RegistryUnreachable, StorageError

ROOT = Path(__file__).parents[2]

psycopg = pytest.importorskip("psycopg")


pytestmark = pytest.mark.night  # a server


def digest(number: int) -> str:
    return f"{number:064x}"


def measured(catalogue: Catalogue, name: str, of: str) -> list[Metric]:
    version = catalogue.find_version(name, of)
    return [] if version is None else version.metrics


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgresServer]:
    """A server that tests may stop."""
    with postgres_server() as server:
        yield server


def connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""))


def test_a_url_without_a_driver_takes_the_one_that_comes_with_us(url: str) -> None:
    Catalogue(url).add_version(Version("news", digest(1)))
    catalogue = Catalogue(url.replace("postgresql+psycopg:", "postgresql:"))
    assert [one.digest for one in catalogue.versions()] == [digest(1)]


def test_a_readers_transaction_sees_one_state_and_writes_nothing(url: str) -> None:
    catalogue = Catalogue(url)
    with database.Database(url).reading() as session:
        connection = session.connection()
        settings = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("transaction_isolation", "transaction_read_only")
        ]
        assert settings == ["repeatable read", "on"]
        count = "SELECT count(*) FROM lineage"
        assert connection.exec_driver_sql(count).scalar() == 0
        catalogue.add_version(Version("news", digest(1)))
        assert connection.exec_driver_sql(count).scalar() == 0
    assert len(catalogue.versions()) == 1


def test_rows_are_ordered_by_their_bytes_as_on_sqlite(url: str) -> None:
    catalogue = Catalogue(url)
    names = ["b", "a_b", "a-b", "a.b", "ab", "a0"]
    for number, name in enumerate(names):
        catalogue.add_version(Version(name, digest(number)))
    assert [one.name for one in catalogue.versions()] == sorted(names)
    keys = ["a/b", "a_b", "B", "a.b"]
    catalogue.add_metrics("b", digest(0), dict.fromkeys(keys, 1.0))
    assert [one.key for one in measured(catalogue, "b", digest(0))] == sorted(keys)


def test_numbers_come_back_as_they_went(url: str) -> None:
    catalogue = Catalogue(url)
    catalogue.add_version(Version("news", digest(1)))
    values = {
        "big": 1.7976931348623157e308,
        "tiny": 5e-324,
        "third": 1 / 3,
        "endless": float("inf"),
    }
    catalogue.add_metrics("news", digest(1), values)
    kept = {one.key: one.value for one in measured(catalogue, "news", digest(1))}
    assert kept == values
    catalogue.add_metrics("news", digest(1), {}, curves={"far": [(2**40, 1.0)]})
    assert Metric("far", 2**40, 1.0) in measured(catalogue, "news", digest(1))


def test_text_that_postgresql_cannot_keep_is_escaped(url: str) -> None:
    catalogue = Catalogue(url)
    catalogue.add_version(Version("news", digest(1), pattern="a\0b|ä"))
    assert [one.pattern for one in catalogue.versions()] == [r"a\x00b|ä"]
    run = catalogue.start_run("news", {"special_tokens": ["\0", "\udc80"]})
    assert catalogue.run(run.id).config == {"special_tokens": ["\0", "\udc80"]}
    catalogue.end_run(run.id, "failed", "no file \udcff")
    assert catalogue.run(run.id).error == r"no file \udcff"


# ---- writers at once -----------------------------------------------------------------------------

ADD_AND_MOVE = """
import sys
from bpeline.registry.catalogue import AliasMove, Catalogue, Version
catalogue = Catalogue(sys.argv[1])
me = int(sys.argv[2])
for k in range(15):
    catalogue.add_version(Version("own", f"{me:032x}{k:032x}"))
for k in range(15):
    with catalogue.moving():
        moves = catalogue.alias_history("own", "turn")
        now = moves[0].to_number if moves else None
        catalogue.add_move(AliasMove("own", "turn", now, (now or 0) + 1, by=str(me)))
"""


def test_processes_lose_no_update_and_leave_no_gap(url: str) -> None:
    """They make the tables at once, register different contents, and count up one alias."""
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_AND_MOVE, url, str(k)], cwd=ROOT)
        for k in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    catalogue = Catalogue(url)
    assert len(catalogue.versions("own")) == 60
    moves = catalogue.alias_history("own", "turn")[::-1]
    assert [(m.from_number, m.to_number) for m in moves] == [(k or None, k + 1) for k in range(60)]
    assert {m.by for m in moves} == {"0", "1", "2", "3"}


def test_a_writer_sees_what_the_writer_before_has_left(url: str) -> None:
    """The one that waits for its turn began before the other committed."""
    catalogue = Catalogue(url)
    inside, leave = threading.Event(), threading.Event()

    def slow(session: Session) -> None:
        session.add(AliasMove("n", "a", None, 1))
        session.flush()
        inside.set()
        assert leave.wait(60)

    def look(session: Session) -> int:
        return session.scalar(select(func.count(AliasMove.id))) or 0

    seen: list[int] = []
    opened = database.Database(url)
    first = threading.Thread(target=opened.writing, args=(slow,))
    second = threading.Thread(target=lambda: seen.append(opened.writing(look)))
    first.start()
    assert inside.wait(60)
    second.start()
    time.sleep(0.2)
    assert seen == []
    assert catalogue.versions() == []  # readers wait for nobody
    leave.set()
    first.join(60)
    second.join(60)
    assert seen == [1]


def test_a_writer_gives_up_with_a_typed_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(url)
    monkeypatch.setattr(database, "_BUSY_MILLISECONDS", 50)
    with connected(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (database.TURN_TO_WRITE,))
        with pytest.raises(StorageError, match="locked"):
            catalogue.start_run("news", {})
        assert catalogue.runs() == []
    assert catalogue.start_run("news", {}).state == "running"


# ---- servers that go away ------------------------------------------------------------------------


def test_a_restarted_server_is_waited_for(fragile: PostgresServer) -> None:
    catalogue = Catalogue(fragile.new_url())
    run = catalogue.start_run("news", {})
    fragile.stop()
    back = threading.Timer(0.5, fragile.start)
    back.start()
    catalogue.step_reached(run.id, "count words")
    assert catalogue.run(run.id).step == "count words"
    back.join()


def test_a_transaction_that_was_cut_off_is_run_again(fragile: PostgresServer) -> None:
    url = fragile.new_url()
    opened = database.Database(url)
    calls: list[int] = []

    def work(session: Session) -> None:
        session.add(AliasMove("n", "a", None, len(calls)))
        session.flush()
        calls.append(1)
        if len(calls) == 1:
            end = "SELECT pg_terminate_backend(pg_backend_pid())"
            session.connection().exec_driver_sql(end)

    opened.writing(work)
    assert len(calls) == 2
    with connected(url) as connection:
        kept = connection.execute("SELECT to_number FROM alias_moves").fetchall()
    assert kept == [(1,)]


def test_a_server_that_is_down_is_a_typed_error_at_once(fragile: PostgresServer) -> None:
    url = fragile.new_url()
    catalogue = Catalogue(url)
    catalogue.add_version(Version("news", digest(1)))
    fragile.stop()
    try:
        began = time.monotonic()
        with pytest.raises(RegistryUnreachable) as refused:
            Catalogue(url)
        assert time.monotonic() - began < database._PATIENCE_SECONDS, "nothing is tried again"
        assert_three_parts_without(refused.value, fragile.password)
        for ask in (catalogue.versions, lambda: catalogue.start_run("news", {})):
            with pytest.MonkeyPatch.context() as patience:
                patience.setattr(database, "_PATIENCE_SECONDS", 0.2)
                with pytest.raises(RegistryUnreachable) as refused:
                    ask()
            assert_three_parts_without(refused.value, fragile.password)
    finally:
        fragile.start()
    assert len(catalogue.versions()) == 1


@pytest.mark.parametrize("wrong", ["password", "database", "in the query"])
def test_a_server_that_refuses_tells_no_password(postgres: PostgresServer, wrong: str) -> None:
    url = postgres.new_url()
    secret = postgres.password
    if wrong == "password":
        secret = "hunter2 & no other"
        url = url.replace(postgres.password, "hunter2%20%26%20no%20other")
    elif wrong == "database":
        url += "-that-is-not-there"
    else:
        secret = "hunter2"
        url = url.replace(f":{postgres.password}@", "@") + f"?password={secret}"
    with pytest.raises(RegistryError) as refused:
        Catalogue(url)
    assert_three_parts_without(refused.value, secret)


def test_a_user_without_rights_is_told_so(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    Catalogue(url)
    postgres.ask("DROP ROLE IF EXISTS guest")
    postgres.ask("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
    guest = url.replace(f"tester:{postgres.password}", "guest:hunter2")
    with pytest.raises(RegistryError, match="permission denied") as refused:
        Catalogue(guest).start_run("news", {})
    assert_three_parts_without(refused.value, "hunter2")


def test_what_is_kept_holds_no_password(url: str, postgres: PostgresServer) -> None:
    catalogue = Catalogue(url)
    run = catalogue.start_run("news", {"paths": ["/corpus"]})
    catalogue.end_run(run.id, "failed", "no reason")
    with connected(url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        for (name,) in names:
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
            assert postgres.password not in json.dumps(rows, default=str)


def assert_three_parts_without(error: RegistryError, secret: str) -> None:
    assert error.happened
    assert error.accepted
    assert error.next_step
    assert secret not in str(error)
    assert secret.split(" ")[0] not in str(error)
