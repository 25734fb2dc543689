"""An MLflow server that is killed, or stands still, in the middle of publications."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from amounts import Amounts, numbers
from mlflow_proxy import Fault, MlflowServer, running_proxy, running_server
from mlflow_tables import copy_database

from bpeline.registry import environment, publish_outbox, publish_version
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import waiting_records
from bpeline.registry.records.publication import Publication
from bpeline.registry.upkeep.repairs import repair
from bpeline.tokenizer_core.errors import BpelineError

pytestmark = pytest.mark.night

Made = Callable[..., Publication]

KILLED: Fault = "server killed"
STOPPED: Fault = "server stopped"
CREATIONS = ("/runs/create", "/model-versions/create")  # what must be done once
LONGEST_WORK = 0.05  # seconds at a request before the signal comes
STANDS_STILL = (0.5, 4.0)  # seconds
PATIENCE, MOST_PATIENCE = "1", "30"  # seconds for an answer, at first and at last


@pytest.fixture(params=["sqlite", "postgresql"])
def server(
    request: pytest.FixtureRequest, empty_mlflow: Path, tmp_path: Path
) -> Iterator[MlflowServer]:
    backend = ""
    if request.param == "sqlite":
        copy_database(empty_mlflow, tmp_path / "mlflow.sqlite")
    else:
        backend = request.getfixturevalue("postgres").new_url()
    with running_server(tmp_path, backend) as server:
        yield server


def test_a_server_killed_or_stopped_while_it_registers(
    server: MlflowServer,
    home: Path,
    made: Made,
    amounts: Amounts,
    seed: int,
    point: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = []
    with running_proxy(server) as proxy:
        environment.configure(tracking_uri=proxy.uri)
        registry = open_registry()
        publish_version(registry, made(b"the", name="makes-the-store"))
        proxy.reset()
        publish_version(registry, made(b"the", name="undisturbed"))
        requests = len(proxy.requests)
        for case in numbers(seed, amounts.server_kills, point):
            chance = random.Random(case)
            fault = KILLED if case % 2 else STOPPED
            proxy.after = chance.uniform(0, LONGEST_WORK)
            proxy.still = chance.uniform(*STANDS_STILL)
            if chance.random() < 1 / 3:
                proxy.reset({0: fault}, chance.choice(CREATIONS))
            else:
                proxy.reset({chance.randrange(requests): fault})
            names.append(f"case-{case}")
            publication = made(b"the", name=names[-1])
            monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", PATIENCE)
            try:
                publish_version(registry, publication)
            except BpelineError:
                assert waiting_records(registry.workspace)
            assert proxy.ready.wait(timeout=180)
            proxy.reset()
            monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", MOST_PATIENCE)
            publish_outbox(registry)
            require_once(registry, publication)
        assert server.restarts == sum(case % 2 for case in numbers(seed, len(names), point))
        # What was asked of a server that stood still may have been done later than that.
        for name in names:
            require_once(registry, made(b"the", name=name))
        assert waiting_records(registry.workspace) == []
        assert repair(registry).found == []
    if not server.backend:
        with closing(sqlite3.connect(server.folder / "mlflow.sqlite")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def require_once(registry: Registry, publication: Publication) -> None:
    """One version, which has the alias; one run of ours; and a catalogue that says so."""
    name, tracker, catalogue = publication.name, registry.tracker, registry.catalogue
    (version,) = tracker.versions(name)
    number, digest, run = version.number, version.digest, version.mlflow_run_id
    assert digest == publication.digest, name
    assert tracker.aliases(name) == {name: {"candidate": number}}
    (row,) = catalogue.registrations(name)
    assert (row.number, row.digest) == (number, digest)
    assert [move.to_number for move in catalogue.alias_history(name)] == [number]
    shown = runs_of(registry, name)
    assert Counter(one.data.tags["run_id"] for one in shown) == {publication.run_id: 1}, name
    assert [(one.info.run_id, one.info.status) for one in shown] == [(run, "FINISHED")]


def runs_of(registry: Registry, name: str) -> list[Any]:
    client = registry.tracker._client
    return list(client.search_runs([client.get_experiment_by_name(name).experiment_id]))
