"""A name with a thousand versions is asked about as often as one with two."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from many_versions import copy_first_version, digest_of_copy
from mlflow_proxy import running_proxy, running_server
from mlflow_tables import copy_database
from sqlalchemy import Engine, event

from bpeline.flows.versions import version_details
from bpeline.registry import (
    environment,
    list_versions,
    load_tokenizer,
    promote,
    publish_version,
)
from bpeline.registry.opening import open_registry
from bpeline.registry.records.publication import Publication

Made = Callable[..., Publication]
Count = Callable[[], int]

pytestmark = pytest.mark.night

MANY = range(1001, 2201)  # more than MLflow shows on a page where nobody asks for more


@contextmanager
def statements() -> Iterator[Count]:
    """How many SQL statements were executed since, by whomever in this process."""
    said: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        connection.set_trace_callback(said.append)
        return connection

    def executed(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", executed)
    sqlite3.connect = traced  # type: ignore[assignment]
    try:
        yield lambda: len(said)
    finally:
        sqlite3.connect = connect
        event.remove(Engine, "before_cursor_execute", executed)


def asked(made: Made, count: Count, turn: int) -> dict[str, int]:
    """How many questions each use of versions costs."""
    second = made(b"and" if turn == 0 else b"there", run_id=f"run-{turn}")
    uses: dict[str, Callable[[], Any]] = {
        "versions": lambda: list_versions("news"),
        "show": lambda: version_details("news/1"),
        "load": lambda: load_tokenizer("news/1"),
        "promote": lambda: promote("news/1", f"alias-{turn}"),
        "publish": lambda: publish_version(open_registry(), second),
    }
    costs = {}
    for use, do in uses.items():
        before = count()
        do()
        costs[use] = count() - before
    return costs


def require_all_shown(catalogue_has: int) -> None:
    found = list_versions("news")
    assert [one.number for one in found] == [1, 2, *MANY, MANY[-1] + 1]
    assert found[2].digest == digest_of_copy(MANY[0])
    assert {len(one.metrics) for one in found} == {catalogue_has}
    aliases = {one.number: one.aliases for one in found if one.aliases}
    assert aliases == {
        MANY[-1]: ("alias-0",), 1: ("alias-1",), MANY[-1] + 1: ("candidate",),
    }  # fmt: skip


def test_statements_do_not_grow_with_the_versions(home: Path, made: Made, mlflow_uri: str) -> None:
    publish_version(open_registry(), made(b"the"))
    with statements() as count:
        few = asked(made, count, 0)
        catalogue = home / "catalogue.sqlite"
        copy_first_version(Path(mlflow_uri.removeprefix("sqlite:///")), catalogue, MANY)
        list_versions("news")  # MLflow's file has changed: what it holds is looked at once
        many = asked(made, count, 1)
    assert few == many
    assert few["versions"] > 3
    require_all_shown(len(made(b"the").metrics))


def test_requests_do_not_grow_with_the_versions(
    tmp_path: Path, home: Path, made: Made, empty_mlflow: Path
) -> None:
    database = tmp_path / "mlflow.sqlite"
    copy_database(empty_mlflow, database)
    with running_server(tmp_path) as server, running_proxy(server) as proxy:
        environment.configure(tracking_uri=proxy.uri)
        publish_version(open_registry(), made(b"the"))
        few = asked(made, lambda: len(proxy.requests), 0)
        copy_first_version(database, home / "catalogue.sqlite", MANY)
        many = asked(made, lambda: len(proxy.requests), 1)
        assert few == many
        assert 0 < few["versions"] <= 5
        require_all_shown(len(made(b"the").metrics))
