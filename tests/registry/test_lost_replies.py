"""Publishing through a real MLflow server, with every kind of fault at every request."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from amounts import Amounts
from mlflow_proxy import Fault, MlflowServer, Proxy, running_proxy, running_server

from bpeline.registry import environment, load_tokenizer
from bpeline.registry.loading.resolution import StaleAlias
from bpeline.registry.opening import open_registry
from bpeline.registry.publishing.publish import publish_outbox, publish_version
from bpeline.registry.records.publication import Publication
from bpeline.registry.tracking.lookup import lookup
from bpeline.tokenizer_core.errors import BpelineError, RegistryUnreachable

pytestmark = [pytest.mark.slow, pytest.mark.server]

CREATE = "/model-versions/create"
KILLED: Fault = "server killed"
Made = Callable[..., Publication]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def proxy(server: MlflowServer, home: Path) -> Iterator[Proxy]:
    with running_proxy(server) as proxy:
        environment.configure(tracking_uri=proxy.uri)
        yield proxy


def publish_at_last(proxy: Proxy, publication: Publication) -> None:
    """Publish, from the outbox if the first attempt failed; there must be one version then."""
    registry = open_registry()
    name = publication.name
    try:
        publish_version(registry, publication)
    except BpelineError:
        assert proxy.ready.wait(timeout=180)
        proxy.reset()
        publish_outbox(registry)
    proxy.reset()
    found = registry.tracker.versions(name)
    assert [(one.number, one.digest) for one in found] == [(1, publication.digest)], name
    assert registry.tracker.aliases(name) == {name: {"candidate": 1}}
    assert [row.number for row in registry.catalogue.registrations(name)] == [1]
    assert [move.to_number for move in registry.catalogue.alias_history(name)] == [1]


def worth_a_fault(requests: list[tuple[str, str]]) -> list[int]:
    """Numbers of the requests that say something, and of the first that uploads a source file."""
    sources = [number for number, (_, path) in enumerate(requests) if "/code/" in path]
    return [number for number in range(len(requests)) if number not in sources[1:]]


def test_a_fault_at_any_request_leaves_one_version(
    proxy: Proxy, made: Made, amounts: Amounts, seed: int
) -> None:
    publish_at_last(proxy, made(b"the", name="makes-the-experiment"))
    registry = open_registry()
    undisturbed = made(b"the", name="undisturbed")
    publish_version(registry, undisturbed)
    numbers = worth_a_fault(proxy.requests)
    assert len(numbers) > 10
    cases = [(fault, number) for fault in get_args(Fault) if fault != KILLED for number in numbers]
    for fault, number in cases[seed % amounts.one_of_requests :: amounts.one_of_requests]:
        proxy.reset({number: fault})
        publish_at_last(proxy, made(b"the", name=f"{fault.replace(' ', '-').lower()}-{number}"))


@pytest.mark.rotating(2)
def test_a_server_killed_while_it_registers_leaves_one_version(
    tmp_path: Path, home: Path, made: Made, amounts: Amounts
) -> None:
    with running_server(tmp_path) as server, running_proxy(server) as proxy:
        environment.configure(tracking_uri=proxy.uri)
        for kill in range(amounts.server_kills):
            proxy.reset({0: KILLED}, CREATE)
            publish_at_last(proxy, made(b"the", name=f"killed-{kill}"))
        assert server.restarts == amounts.server_kills
    with closing(sqlite3.connect(tmp_path / "mlflow.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("losing", [0, 1, 10])
def test_however_many_replies_are_lost_one_version_remains(
    proxy: Proxy, made: Callable[..., Publication], losing: int
) -> None:
    registry = open_registry()
    publication = made(b"the", name=f"lost-{losing}")
    lost: dict[int, Fault] = dict.fromkeys(range(losing), "reply lost")
    proxy.reset(lost, CREATE)
    version = publish_version(registry, publication)
    assert version.newly_registered
    assert version.reference == f"lost-{losing}/1"
    assert len(proxy.requests) >= 1
    found = registry.tracker.versions(publication.name)
    assert [(one.number, one.digest) for one in found] == [(1, publication.digest)]
    assert load_tokenizer(f"lost-{losing}@candidate").digest == publication.digest


def test_what_a_server_missed_is_published_when_it_is_back(
    proxy: Proxy, made: Callable[..., Publication], tmp_path: Path
) -> None:
    registry = open_registry()
    publication = made(b"the", name="missed")
    proxy.down = True
    begin = time.monotonic()
    with pytest.raises(RegistryUnreachable, match="finished and kept in"):
        publish_version(registry, publication)
    assert time.monotonic() - begin < 60
    proxy.down = False
    (version,) = publish_outbox(registry)
    assert version.reference == "missed/1"
    environment.configure(workspace=tmp_path / "another machine")
    assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
    there = open_registry()
    there.tracker.prepare()
    quick = lookup(proxy.uri)
    assert quick is not None
    for question in (
        lambda store: store.version_of_alias("missed", "candidate"),
        lambda store: store.version_of_alias("missed", "nobody"),
        lambda store: store.version("missed", 1),
        lambda store: store.version("missed", 2),
        lambda store: store.aliases("missed"),
        lambda store: store.identity(),
    ):
        assert question(quick) == question(there.tracker)
    assert quick.versions("missed") == there.tracker.versions("missed")
    proxy.down = True
    with pytest.warns(StaleAlias, match="missed/1"):
        assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
