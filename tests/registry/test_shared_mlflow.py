"""Several workspaces publish and promote in one MLflow at once, with one catalogue and with two."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from amounts import Amounts
from mlflow_proxy import running_server
from mlflow_tables import copy_database
from rivals import NAME, PROMOTED, Rival, at_once, watch_aliases, witnessed
from small_publications import small_tokenizer

from bpeline.registry import configure, environment, publish_version
from bpeline.registry.aliases.moves import AliasMovedMeanwhile
from bpeline.registry.catalogue import Catalogue
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records.publication import Publication
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.upkeep.repairs import repair

pytestmark = pytest.mark.night

COMMON = ("the", "and", "there")
OWN = {"one": ("one", "once", "only"), "other": ("other", "others", "otter")}


@pytest.fixture(autouse=True)
def _configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test configures ends with it."""
    monkeypatch.setattr(environment, "_configured", None)


@pytest.fixture
def database(empty_mlflow: Path, tmp_path: Path) -> Path:
    """MLflow's tables, which write down where aliases point."""
    path = tmp_path / "mlflow.sqlite"
    copy_database(empty_mlflow, path)
    watch_aliases(path)
    return path


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.night)])
def shared_uri(request: pytest.FixtureRequest, database: Path) -> Iterator[str]:
    """The address of one MLflow, its database or its server."""
    if request.param == "file":
        yield f"sqlite:///{database}"
        return
    with running_server(database.parent) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(
    params=["one catalogue", pytest.param("postgresql", marks=pytest.mark.night), "two catalogues"]
)
def catalogue_url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Of the catalogue that both use; None when each has its own."""
    if request.param == "two catalogues":
        return None
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres").new_url())
    return f"sqlite:///{tmp_path / 'catalogue.sqlite'}"


def test_workspaces_that_publish_and_promote_at_once(
    shared_uri: str,
    catalogue_url: str | None,
    database: Path,
    tmp_path: Path,
    amounts: Amounts,
    seed: int,
) -> None:
    rivals = [
        Rival(
            str(tmp_path / own),
            shared_uri,
            catalogue_url,
            # What both make comes at different turns, but once at the same.
            [word for pair in zip(words, common, strict=True) for word in pair],
            promotions=amounts.moves,
            seed=seed + order,
        )
        for order, ((own, words), common) in enumerate(
            zip(OWN.items(), (COMMON, (COMMON[0], *COMMON[:0:-1])), strict=True)
        )
    ]
    outcomes = at_once(rivals)
    assert [one.errors for one in outcomes] == [[], []]

    tracker = registry_of(rivals[0]).tracker
    there = {one.digest: one.number for one in tracker.versions(NAME)}
    expected = {small_tokenizer(word.encode()).digest for one in rivals for word in one.words}
    assert len(tracker.versions(NAME)) == len(there)
    assert there.keys() == expected
    published = [one for outcome in outcomes for one in outcome.published]
    assert all(there[one.digest] == one.number for one in published)
    assert set(runs_shown(tracker).values()) == {1}

    aliases = tracker.aliases(NAME)[NAME]
    trail = {alias: witnessed(database, alias) for alias in aliases}
    assert {alias: steps[-1] for alias, steps in trail.items()} == aliases
    told = [one for outcome in outcomes for one in outcome.promoted]
    # Who promotes where the alias points already moves nothing.
    moves_of = [
        Counter(one.number for one in each.promoted if not one.told and one.before != one.number)
        for each in outcomes
    ]
    moved = moves_of[0] + moves_of[1]
    assert len(told) == 2 * rivals[0].promotions
    # Two catalogues share no lock, and MLflow sees one move where both move to the same version at
    # the same moment.
    for those in [moved] if catalogue_url else moves_of:
        assert those <= Counter(trail[PROMOTED]), "somebody was told of a move that never was"
    refused = Counter(one.number for one in told if one.told)
    assert Counter(trail[PROMOTED]) - moved <= refused

    for rival in rivals:
        registry = registry_of(rival)
        known = {row.digest: row.number for row in registry.catalogue.registrations(NAME)}
        own = {small_tokenizer(word.encode()).digest for word in rival.words}
        assert known == {digest: there[digest] for digest in (expected if catalogue_url else own)}
        for alias, steps in trail.items():
            require_a_chain(registry.catalogue, alias)
            if catalogue_url:
                history = registry.catalogue.alias_history(NAME, alias)
                assert [one.to_number for one in reversed(history)] == steps
        assert repair(registry).found == []
    if catalogue_url:
        versions = registry.catalogue.versions(NAME)
        last = there[max(versions, key=lambda one: one.trained).digest]
        # The last training's, unless that made an earlier version again: nothing goes back.
        assert last <= aliases["candidate"]


def registry_of(rival: Rival) -> Registry:
    configure(
        workspace=rival.workspace,
        tracking_uri=rival.tracking_uri,
        catalogue_url=rival.catalogue_url,
    )
    return open_registry()


def require_a_chain(catalogue: Catalogue, alias: str) -> None:
    """Every move begins where the one before it ended."""
    history = catalogue.alias_history(NAME, alias)
    assert all(
        later.from_number == earlier.to_number for later, earlier in itertools.pairwise(history)
    ), history


def runs_shown(tracker: MlflowTracker) -> Counter[str]:
    """How often MLflow shows each of our runs of the name."""
    client: Any = tracker._client
    experiment = client.get_experiment_by_name(NAME).experiment_id
    return Counter(run.data.tags["run_id"] for run in client.search_runs([experiment]))


def test_a_publication_is_not_refused_because_another_moved_the_alias(
    registry: Registry, made: Callable[..., Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two catalogues have no common lock: both were published, and one was told that it was not."""
    publish_version(registry, made(b"the"))
    move, moves = type(registry.tracker).move_alias, []

    def disturbed(tracker: MlflowTracker, name: str, alias: str, number: int) -> None:
        move(tracker, name, alias, number)
        moves.append(number)
        if len(moves) == 1:
            move(tracker, name, alias, 1)  # by somebody with another catalogue

    monkeypatch.setattr(type(registry.tracker), "move_alias", disturbed)
    assert publish_version(registry, made(b"and")).number == 2
    assert moves == [2, 2]
    assert registry.tracker.aliases(NAME) == {NAME: {"candidate": 2}}
    require_a_chain(registry.catalogue, "candidate")

    def stubborn(tracker: MlflowTracker, name: str, alias: str, number: int) -> None:
        move(tracker, name, alias, 1)

    monkeypatch.setattr(type(registry.tracker), "move_alias", stubborn)
    with pytest.raises(AliasMovedMeanwhile, match="`bpeline resume`"):
        publish_version(registry, made(b"there"))
