"""Killed before and after every single durable operation, each time ending as if nothing had been.

The operations of a publication, a promotion, an encoding, of making a workspace and of removing
leftovers are numbered; for each number one process is killed before it and one after it (signal
9), and the next one goes on. Those of a training are in `test_crash_points_of_training`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zygote import Ended, Zygote

from .conftest import Golden, Record
from .crash_points import Attempt, require_every_point


@pytest.mark.slow
def test_a_workspace_killed_while_it_is_made_is_made_by_the_next(
    zygote: Zygote, place: Path, record: Record
) -> None:
    """No workspace at all: its manifest, its catalogue with all tables, MLflow left out."""
    made = zygote.run("make_workspace", workspace=place / "golden").returned()

    def attempts() -> Iterator[Attempt]:
        workspace = place / "workspace"
        yield lambda **point: zygote.run("make_workspace", workspace=workspace, **point)
        shutil.rmtree(workspace)

    require_every_point(record, made["operations"], made["state"], attempts)


@pytest.mark.slow
def test_a_publication_killed_at_any_operation_is_one_version(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Every commit of MLflow's database and ours, on a real MLflow."""

    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(golden.outbox, workspace)
        yield lambda **point: zygote.run("publish_waiting", workspace=workspace, **point)
        shutil.rmtree(workspace)

    require_every_point(record, golden.publishing, golden.finished, attempts)


@pytest.mark.slow
def test_a_promotion_killed_at_any_operation_is_completed_by_the_same_command(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(golden.registered, workspace)
        yield lambda **point: zygote.run(
            "promote_version", workspace=workspace, reference="news/1", **point
        )
        shutil.rmtree(workspace)

    (first,) = attempts_once(attempts)
    promoted = first.returned()
    require_every_point(record, promoted["operations"], promoted["state"], attempts)


@pytest.mark.slow
def test_an_encoding_killed_at_any_operation_gives_the_same_shards(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    def attempts() -> Iterator[Attempt]:
        out = place / "tokens"
        yield lambda **point: zygote.run(
            "encode", workspace=golden.registered, corpus=golden.corpus, out=out, **point
        )
        shutil.rmtree(out)

    (first,) = attempts_once(attempts)
    encoded = first.returned()
    require_every_point(record, encoded["operations"], encoded["state"], attempts)


@pytest.mark.slow
def test_removing_leftovers_killed_at_any_operation_leaves_what_is_needed(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Leftovers are those of a training under another pattern that was never published."""
    littered = str(place / "littered")
    shutil.copytree(golden.registered, littered)
    zygote.run("litter", workspace=littered, corpus=golden.corpus).returned()

    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(littered, workspace)
        yield lambda **point: zygote.run("remove_leftovers", workspace=workspace, **point)
        shutil.rmtree(workspace)

    (first,) = attempts_once(attempts)
    removed = first.returned()
    assert len(removed["operations"]) > 8
    require_every_point(record, removed["operations"], removed["state"], attempts)


def attempts_once(attempts: Callable[[], Iterator[Attempt]]) -> list[Ended]:
    """One attempt that nobody disturbs."""
    return [attempt() for attempt in attempts()]
