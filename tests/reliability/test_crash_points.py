"""Killed before and after every single durable operation, each time ending as if nothing had been.

The operations of a training, a publication, a promotion, a deletion, an encoding, of making a
workspace and of removing leftovers are numbered; for each number one process is killed before it
and one after it (signal 9), and the next one goes on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from zygote import Zygote

from .attempts import Attempts, encoding, publication, training
from .conftest import Golden, Record
from .crash_points import require_every_point


@pytest.fixture
def workspace(place: Path) -> Path:
    return place / "workspace"


@pytest.mark.night
def test_a_workspace_killed_while_it_is_made_is_made_by_the_next(
    zygote: Zygote, workspace: Path, record: Record
) -> None:
    """No workspace at all: its manifest, its catalogue with all tables, MLflow left out."""
    making = Attempts(zygote, "make_workspace", workspace, None, {"workspace": workspace})
    made = making.undisturbed()
    require_every_point(record, made["operations"], made["state"], making)


@pytest.mark.night
def test_a_training_killed_at_any_operation_ends_as_if_nothing_had_been(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Up to the record in the outbox."""
    attempts = training(zygote, golden.empty, golden.corpus, place)
    operations, state = golden.training, golden.waiting
    require_every_point(record, operations, state, attempts)


@pytest.mark.night
def test_a_publication_killed_at_any_operation_is_one_version(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Every commit of MLflow's database and ours, on a real MLflow."""
    publishing = publication(zygote, golden.outbox, place)
    require_every_point(record, golden.publishing, golden.finished, publishing)


@pytest.mark.night
def test_a_promotion_killed_at_any_operation_is_completed_by_the_same_command(
    zygote: Zygote, golden: Golden, workspace: Path, record: Record
) -> None:
    named = {"workspace": workspace, "reference": "news/1"}
    promoting = Attempts(zygote, "promote_version", workspace, golden.registered, named)
    promoted = promoting.undisturbed()
    require_every_point(record, promoted["operations"], promoted["state"], promoting)


@pytest.mark.night
def test_an_encoding_killed_at_any_operation_gives_the_same_shards(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    encoded = attempts.undisturbed()
    require_every_point(record, encoded["operations"], encoded["state"], attempts)


@pytest.mark.night
def test_a_deletion_killed_at_any_operation_is_completed_by_the_same_command(
    zygote: Zygote, golden: Golden, place: Path, workspace: Path, record: Record
) -> None:
    """Every commit of MLflow's database and ours; MLflow's files lie where it remembers them."""
    shutil.copytree(golden.outbox, workspace)
    zygote.run("publish_waiting", workspace=workspace).returned()
    registered = str(workspace.rename(place / "registered"))
    deleting = Attempts(zygote, "delete_version", workspace, registered, {"workspace": workspace})
    deleted = deleting.undisturbed()
    assert len(deleted["operations"]) > 15
    assert deleted["state"]["tombstones"]
    assert deleted["state"]["noted"] == []
    assert deleted["state"]["artifacts"] == 0
    require_every_point(record, deleted["operations"], deleted["state"], deleting)


@pytest.mark.night
def test_removing_leftovers_killed_at_any_operation_leaves_what_is_needed(
    zygote: Zygote, golden: Golden, place: Path, workspace: Path, record: Record
) -> None:
    """Leftovers are those of a training under another pattern that was never published."""
    littered = str(place / "littered")
    shutil.copytree(golden.registered, littered)
    zygote.run("litter", workspace=littered, corpus=golden.corpus).returned()
    removing = Attempts(zygote, "remove_leftovers", workspace, littered, {"workspace": workspace})
    removed = removing.undisturbed()
    assert len(removed["operations"]) > 8
    require_every_point(record, removed["operations"], removed["state"], removing)
