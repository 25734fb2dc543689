"""What MLflow says of runs that are over: ended as they ended, by the workspace that owns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.registry.publishing import waits_in_outbox

if TYPE_CHECKING:
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
    for shown in registry.tracker.unended_runs():
        run = registry.catalogue.find_run(shown.run_id) if shown.run_id else None
        if run is None or run.state == "running" or waits_in_outbox(registry.workspace, run.id):
            continue
        if run.state == "finished":
            # It ended in MLflow when it was published: this one was made once more, when a server
            # that had been stopped did what nobody waited for any longer.
            registry.tracker.remove_run(shown.id)
            continue
        status = FAILED if run.state == "failed" else KILLED
        registry.tracker.end_run(shown.id, status, run.error, run.finished_at or run.heartbeat_at)
        ended += 1
    return ended
