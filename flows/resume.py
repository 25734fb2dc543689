"""What was left unfinished: publications in the outbox, and runs that did not end well."""

from __future__ import annotations

from bpeline.flows.pages import show_name_page
from bpeline.registry.catalogue import Run
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import publish_outbox, waiting_records
from bpeline.registry.records import PublishedVersion
from bpeline.registry.upkeep import (
    DeletedVersion,
    damaged_notes,
    finish_deletions,
    noted_deletions,
)
from bpeline.tokenizer_core.errors import InvalidOption, WorkspaceLocked


def publish_waiting() -> list[PublishedVersion]:
    """Publish everything that waits in the outbox and close the runs that made it.

    Raises:
        RegistryUnreachable: MLflow still does not answer; everything keeps waiting.
        WorkspaceLocked: a run is at work.
    """
    registry = open_registry(make=False)
    if not waiting_records(registry.workspace):
        return []
    with registry.workspace.lock("publishing the outbox"):
        published = publish_outbox(registry)
        for name in sorted({one.name for one in published}):
            show_name_page(registry, name)
        return published


def delete_waiting() -> list[DeletedVersion]:
    """Go on with deletions that were interrupted, or noted while MLflow did not answer.

    Raises:
        RegistryUnreachable: MLflow still does not answer; everything keeps waiting.
        VersionInUse: an alias points to one of them; it stays, and is noted no more.
        RegistryError: a note cannot be read; what the others say is done.
        WorkspaceLocked: a run is at work.
    """
    registry = open_registry(make=False)
    if not (noted_deletions(registry.workspace) or damaged_notes(registry.workspace)):
        return []
    with registry.workspace.lock("deleting versions"):
        return finish_deletions(registry)


def unfinished_run(run_id: str | None, *, failed_too: bool = True) -> Run | None:
    """The run to continue: the one named, else the newest interrupted one, else the newest failed.

    Args:
        run_id: enough of its id to be the only one; None chooses.
        failed_too: whether a run that ended with an error may be chosen without being named.

    Raises:
        RegistryError: there is no such run.
        InvalidOption: it is finished.
        WorkspaceLocked: the only run that is not finished is at work.
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
                f"run {run.id} ({run.name}) is at work in process {run.pid} on {run.host}",
                "runs that were interrupted or failed can be continued",
                "wait until it has ended, then type `bpeline resume`",
            )
    return None


def unfinished_runs() -> list[Run]:
    """Trainings that were interrupted, failed or are not published, newest first.

    A sweep is none: typed again, it finds what it has learned.
    """
    found = open_registry(make=False).catalogue.unfinished_runs()
    return [run for run in found if not run.is_sweep]


def _named(registry: Registry, run_id: str) -> Run | None:
    run = registry.catalogue.run(run_id)
    if run.state in ("finished", "refused", "dismissed"):
        raise InvalidOption(
            f"run {run.id} ({run.name}) is {run.state}",
            "runs that were interrupted or failed can be continued",
            f"type `bpeline versions {run.name}` to see what it made",
        )
    if run.workspace != registry.workspace.id:
        raise InvalidOption(
            f"run {run.id} ({run.name}) belongs to another workspace, on {run.host}",
            "a run is continued where its counts and checkpoints lie",
            "type `bpeline resume` there, or train here under the same name",
        )
    return None if run.state == "unpublished" else run
