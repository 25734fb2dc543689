"""Unfinished work: publications in the outbox, and interrupted or failed runs."""

from __future__ import annotations

from bpeline.flows.pages import show_name_page
from bpeline.registry.catalogue import Run
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import publish_outbox, waiting_records
from bpeline.registry.records import PublishedVersion
from bpeline.registry.upkeep import DeletedVersion, damaged_notes, finish_deletions, noted_deletions
from bpeline.tokenizer_core.errors import InvalidOption, WorkspaceLocked


def publish_waiting() -> list[PublishedVersion]:
    """Publish everything in the outbox and finish the runs that produced it.

    Raises:
        RegistryUnreachable: MLflow still does not answer; the outbox is kept.
    """
    registry = open_registry(make=False)
    if not waiting_records(registry.workspace):
        return []
    with registry.workspace.lock("publishing the outbox"):
        published = publish_outbox(registry)
        for name in sorted({version.name for version in published}):
            show_name_page(registry, name)
        return published


def delete_waiting() -> list[DeletedVersion]:
    """Continue deletions that were interrupted or requested while MLflow was down.

    Raises:
        VersionInUse: an alias points to one of them; its request is dropped.
        RegistryError: a request cannot be read; the others are done.
    """
    registry = open_registry(make=False)
    if not (noted_deletions(registry.workspace) or damaged_notes(registry.workspace)):
        return []
    with registry.workspace.lock("deleting versions"):
        return finish_deletions(registry)


def unfinished_run(run_id: str | None, *, failed_too: bool = True) -> Run | None:
    """Return the run to continue: by its id, else the newest interrupted or failed.

    Args:
        run_id: a unique prefix of its id; None chooses an interrupted run, then a failed one.

    Raises:
        WorkspaceLocked: the only unfinished run is active.
    """
    if run_id is not None:
        return _named(open_registry(make=False), run_id)
    unfinished = unfinished_runs()
    for state in ("interrupted", "failed") if failed_too else ("interrupted",):
        for run in unfinished:
            if run.state == state:
                return run
    for run in unfinished:
        if run.state == "running":
            raise WorkspaceLocked(
                f"run {run.id} ({run.name}) is active in process {run.pid} on {run.host}",
                "expected a run that was interrupted or failed",
                "wait until it has ended, then type `bpeline resume`",
            )
    return None


def unfinished_runs() -> list[Run]:
    """List trainings that were interrupted, failed or are unpublished, newest first.

    Sweeps are left out: run again, they reuse what they have learned.
    """
    runs = open_registry(make=False).catalogue.unfinished_runs()
    return [run for run in runs if not run.is_sweep]


def _named(registry: Registry, run_id: str) -> Run | None:
    run = registry.catalogue.run(run_id)
    if run.state in ("finished", "refused", "dismissed"):
        raise InvalidOption(
            f"run {run.id} ({run.name}) is {run.state}",
            "expected a run that was interrupted or failed",
            f"type `bpeline versions {run.name}` to see its versions",
        )
    if run.workspace != registry.workspace.id:
        raise InvalidOption(
            f"run {run.id} ({run.name}) belongs to another workspace, on {run.host}",
            "expected a run of this workspace, which has its counts and checkpoints",
            "type `bpeline resume` there, or train here under the same name",
        )
    return None if run.state == "unpublished" else run
