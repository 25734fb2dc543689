"""How a run that nobody watches meets what will pass: it waits, or tries again.

What helps is named here and nothing else: bad input fails at once, today and tomorrow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable, WorkspaceLocked

MLFLOW_TAG = "mlflow:"  # of a deployment; the identity of its MLflow follows
Result = TypeVar("Result")

UNREACHABLE_DELAYS = (30.0, 120.0, 300.0)  # seconds; a server that is restarted answers by then
LOCKED_SECONDS = 10.0  # between two looks at a workspace that somebody works in


def patiently(work: Callable[[], Result], say: Callable[[str], object]) -> Result:
    """Do ``work``; again after the registry did not answer, and for as long as others are at it.

    Work that is repeated continues where it stopped. ``say`` is told why it waits, once for each
    reason. How long all of it may take is the caller's affair.

    Raises:
        RegistryUnreachable: the registry still does not answer.
        Exception: any other error, at once.
    """
    delays = iter(UNREACHABLE_DELAYS)
    said = ""
    while True:
        try:
            return work()
        except WorkspaceLocked as error:
            if error.happened != said:
                said = error.happened
                say(f"waiting: {said}")
            time.sleep(LOCKED_SECONDS)
        except RegistryUnreachable as error:
            delay = next(delays, None)
            if delay is None:
                raise
            say(f"{error.happened}; tried again in {delay:.0f} seconds")
            time.sleep(delay)


def require_own_mlflow(tags: Iterable[str], workspace: str | None) -> None:
    """See that a deployment's run works with the MLflow that it was deployed for.

    Args:
        tags: of the run, which are those of its deployment.

    Raises:
        InvalidOption: this workspace has another one.
    """
    owners = [tag.removeprefix(MLFLOW_TAG) for tag in tags if tag.startswith(MLFLOW_TAG)]
    registry = open_registry(workspace)
    if owners and registry.store not in owners:
        raise InvalidOption(
            f"this run belongs to MLflow {', '.join(owners)}, and the workspace "
            f"{registry.workspace.root} has {registry.store or 'none'}",
            "expected the workspace that the deployment names",
            "deploy it for this workspace: `bpeline deploy`, and `--force` to replace the other",
        )


def require_nobody_trains(name: str, workspace: str | None) -> None:
    """See that no other workspace of this catalogue trains the name: in ours, the lock sees to it.

    Two that begin in the same instant may pass; what they publish is registered in good order.

    Raises:
        WorkspaceLocked: somebody does.
    """
    for run in open_registry(workspace).catalogue.running_elsewhere(name):
        raise WorkspaceLocked(
            f"run {run.id} trains {name!r} in process {run.pid} on {run.host}, "
            f"since {run.started_at[:16]}: {run.step}",
            "one training of a name at a time",
            f"wait for it, or stop it: kill {run.pid} on {run.host}",
        )
