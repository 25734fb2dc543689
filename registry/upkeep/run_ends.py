"""Runs that are over: dismissed, and shown in MLflow as they ended, by who owns them."""

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
    """End the runs that MLflow says are running and that are not.

    A run whose process was killed cannot say so itself, and one that failed while MLflow was down
    could not. One whose tokenizer waits to be published ends when it is.

    Returns:
        How many were ended.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    ended = 0
    for shown in registry.tracker.runs.unended_runs():
        run = registry.catalogue.find_run(shown.run_id) if shown.run_id else None
        if run is None or run.state == "running" or waits_in_outbox(registry.workspace, run.id):
            continue
        if run.state == "finished":
            # It ended in MLflow when it was published: this one was made once more, when a server
            # that had been stopped did what nobody waited for any longer.
            registry.tracker.runs.remove_run(shown.id)
            continue
        status = FAILED if run.state in ("failed", "refused") else KILLED
        registry.tracker.runs.close_run(
            run.name, run.id, status, run.error, run.finished_at or run.heartbeat_at
        )
        ended += 1
    return ended


def dismiss(registry: Registry, run_id: str) -> Run:
    """Forget a run that did not finish: nothing continues it, and gc may take what only it needs.

    A tokenizer of it that waits to be published is not published any more.

    Args:
        run_id: enough of the run's id to be the only one.

    Raises:
        RegistryError: no such run, it is at work, it has ended, is another workspace's, or its
            tokenizer is registered already.
        RegistryUnreachable: whether it is cannot be asked.
        WorkspaceLocked: somebody works in the workspace.
    """
    catalogue, workspace = registry.catalogue, registry.workspace
    run = catalogue.run(run_id)
    if run.state == "running":  # by its own name, not by that of the workspace it holds
        return catalogue.dismiss_run(run.id)
    with workspace.lock(f"dismissing run {run.id}"):
        for record, waiting in list(waiting_publications(workspace)):
            if waiting.run_id != run.id:
                continue
            if (version := registered(registry.tracker, waiting)) is not None:
                called = f"{version.name}/{version.number}"
                raise RegistryError(
                    f"the tokenizer of run {run.id} is registered as {called}",
                    "runs whose tokenizer nobody can have loaded can be dismissed",
                    f"type `bpeline resume`, then `bpeline delete {called}`",
                )
            DURABLE.remove(record)
            catalogue.forget_version(waiting.name, waiting.digest)
        dismissed = catalogue.dismiss_run(run.id)
    # What MLflow does not hear now, the next run of this workspace tells it.
    with suppress(RegistryError, StorageError):
        if registry.store:
            registry.tracker.runs.close_run(run.name, run.id, KILLED, "dismissed")
    return dismissed
