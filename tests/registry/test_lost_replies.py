"""Publishing through a real MLflow server, with every kind of fault at every request."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from amounts import Amounts
from mlflow_proxy import Fault, MlflowServer, Proxy, running_proxy, running_server
from own_time import own_time

from bpeline.registry import alias_history, environment, load_tokenizer, promote
from bpeline.registry.aliases.moves import AliasMovedMeanwhile
from bpeline.registry.loading.resolution import StaleAlias
from bpeline.registry.opening import open_registry
from bpeline.registry.publishing.publish import publish_outbox, publish_version
from bpeline.registry.records.publication import Publication
from bpeline.registry.tracking import server_alias
from bpeline.tokenizer_core.errors import BpelineError, RegistryUnreachable

pytestmark = pytest.mark.night

CREATE = "/model-versions/create"
CREATE_RUN = "/runs/create"
SET_ALIAS = "/registered-models/alias"
Made = Callable[..., Publication]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def proxy(
    server: MlflowServer, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    # Requests are repeated as often as ever, and at once.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    with running_proxy(server) as proxy:
        environment.configure(tracking_uri=proxy.uri)
        yield proxy
    assert list(here.iterdir()) == [], "files were written into the current directory"


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


def test_a_fault_at_any_request_leaves_one_version(
    proxy: Proxy, made: Made, amounts: Amounts, seed: int
) -> None:
    publish_at_last(proxy, made(b"the", name="makes-the-experiment"))
    registry = open_registry()
    undisturbed = made(b"the", name="undisturbed")
    publish_version(registry, undisturbed)
    numbers = range(len(proxy.requests))
    assert len(numbers) > 10
    faults = [fault for fault in get_args(Fault) if not fault.startswith("server")]
    cases = [(fault, number) for fault in faults for number in numbers]
    for fault, number in cases[seed % amounts.one_of_requests :: amounts.one_of_requests]:
        proxy.reset({number: fault})
        publish_at_last(proxy, made(b"the", name=f"{fault.replace(' ', '-').lower()}-{number}"))


def test_files_whose_place_a_server_does_not_tell_go_nowhere(proxy: Proxy, made: Made) -> None:
    """MLflow's client remembers for the whole process where it was told that files lie."""
    publish_at_last(proxy, made(b"the", name="makes-the-experiment"))
    registry = open_registry()
    proxy.reset()
    publish_version(registry, made(b"the", name="whole"))
    methods = [method for method, _ in proxy.requests]
    asked = [n for n, two in enumerate(itertools.pairwise(methods)) if two == ("GET", "PUT")]
    assert asked
    for number in asked:
        proxy.reset({number: "an empty answer"})
        publish_at_last(proxy, made(b"the", name=f"nowhere-{number}"))


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


@pytest.mark.parametrize("losing", [1, 10])
def test_however_many_replies_are_lost_one_run_is_shown(
    proxy: Proxy, made: Made, losing: int
) -> None:
    registry = open_registry()
    publication = made(b"the", name=f"lost-run-{losing}")
    lost: dict[int, Fault] = dict.fromkeys(range(losing), "reply lost")
    proxy.reset(lost, CREATE_RUN)
    version = publish_version(registry, publication)
    client = registry.tracker._client
    experiment = client.get_experiment_by_name(publication.name)
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_id, run.data.tags["run_id"]) == (version.mlflow_run_id, publication.run_id)


def test_an_alias_that_a_server_only_says_it_moved_is_not_said_to_have_moved(
    proxy: Proxy, made: Made
) -> None:
    registry = open_registry()
    publications = [made(word, name="lies") for word in (b"the", b"and")]
    proxy.reset({0: "an empty answer"}, SET_ALIAS)
    assert publish_version(registry, publications[0]).number == 1  # asked again, it does
    proxy.reset()
    publish_version(registry, publications[1])
    proxy.reset({0: "an empty answer"}, SET_ALIAS)
    with pytest.raises(AliasMovedMeanwhile):
        promote("lies/1")
    assert "champion" not in registry.tracker.aliases("lies")["lies"]
    proxy.reset()
    promote("lies/1")
    proxy.reset({0: "an empty answer"}, SET_ALIAS)
    with pytest.raises(AliasMovedMeanwhile, match="lies/1"):
        promote("lies/2")
    proxy.reset()
    assert registry.tracker.aliases("lies")["lies"]["champion"] == 1
    assert [one.to_number for one in alias_history("lies", "champion")] == [1]


def test_what_a_server_missed_is_published_when_it_is_back(
    proxy: Proxy, made: Callable[..., Publication], tmp_path: Path
) -> None:
    registry = open_registry()
    publication = made(b"the", name="missed")
    proxy.down = True
    begin = own_time()
    with pytest.raises(RegistryUnreachable):
        publish_version(registry, publication)
    assert own_time() - begin < 60
    proxy.down = False
    (version,) = publish_outbox(registry)
    assert version.reference == "missed/1"
    environment.configure(workspace=tmp_path / "another machine")
    assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
    there = open_registry()
    asked = there.tracker.version_of_alias("missed", "candidate")
    assert asked is not None
    quick = server_alias.version_of_alias(proxy.uri, "missed", "candidate")
    assert quick == replace(asked, created_ms=0)
    assert server_alias.version_of_alias(proxy.uri, "missed", "nobody") is None
    proxy.down = True
    with pytest.warns(StaleAlias, match="missed/1"):
        assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
