"""Dismiss unfinished runs, and end runs in MLflow whose process is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bpeline.registry.publishing import registered, waiting_publications, waits_in_outbox
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import RegistryError, StorageError

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Run
    from bpeline.registry.opening import Registry

FAILED, KILLED = "FAILED", "KILLED"


def show_ends(registry: Registry) -> int:
    """End the runs that MLflow still shows as running although they are not.

    Their process was killed, or they failed while MLflow was down. Runs whose tokenizer waits in
    the outbox are left alone: publishing ends them.
    """
    ended = 0
    for shown in registry.tracker.runs.unended_runs():
        run = registry.catalogue.find_run(shown.run_id) if shown.run_id else None
        if run is None or run.state == "running" or waits_in_outbox(registry.workspace, run.id):
            continue
        if run.state == "finished":
            # The published run has ended; this duplicate was created by a request that a stopped
            # server processed later.
            registry.tracker.runs.remove_run(shown.id)
            continue
        status = FAILED if run.state in ("failed", "refused") else KILLED
        registry.tracker.runs.close_run(
            run.name, run.id, status, run.error, run.finished_at or run.heartbeat_at
        )
        ended += 1
    return ended


def dismiss(registry: Registry, run_id: str) -> Run:
    """Give up an unfinished run, so that `bpeline gc` can remove its files.

    If its tokenizer waits in the outbox, it will not be published.

    Raises:
        RegistryError: there is no such run, it is running, has ended, belongs to another
            workspace, or its tokenizer is already registered.
        RegistryUnreachable: MLflow does not answer.
        WorkspaceLocked: another process is working in the workspace.
    """
    catalogue, workspace = registry.catalogue, registry.workspace
    run = catalogue.run(run_id)
    if run.state == "running":  # raises an error about this run, not about the workspace lock
        return catalogue.dismiss_run(run.id)
    with workspace.lock(f"dismissing run {run.id}"):
        for record, waiting in list(waiting_publications(workspace)):
            if waiting.run_id != run.id:
                continue
            if (version := registered(registry.tracker, waiting)) is not None:
                reference = f"{version.name}/{version.number}"
                raise RegistryError(
                    f"the tokenizer of run {run.id} is registered as {reference}",
                    "only runs whose tokenizer is not registered can be dismissed",
                    f"type `bpeline resume`, then `bpeline delete {reference}`",
                )
            DURABLE.remove(record)
            catalogue.forget_version(waiting.name, waiting.digest)
        dismissed = catalogue.dismiss_run(run.id)
    # If MLflow does not answer now, `show_ends` of the next run does it.
    with suppress(RegistryError, StorageError):
        if registry.store:
            registry.tracker.runs.close_run(run.name, run.id, KILLED, "dismissed")
    return dismissed
