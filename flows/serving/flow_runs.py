"""Flows as Prefect runs them: named by what they are about, told to its server, and patient.

Outside a flow run, `FLOW.fn` is the plain function: no server, no database of Prefect's.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import httpx
from pydantic import ValidationError

from bpeline.flows.requests import Request, as_markdown
from bpeline.flows.running import (
    FlowKind,
    interruption_behind,
    prefect,
    progress,
    settings,
    task,
)
from bpeline.flows.serving.prefect_listener import PrefectListener
from bpeline.flows.serving.project_deployments import MLFLOW_TAG
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable, WorkspaceLocked
from bpeline.tokenizer_core.redaction import hide_in_errors, hide_in_logs, without_secrets
from bpeline.tokenizer_core.urls import refuse_secrets_in

if TYPE_CHECKING:
    from prefect.flows import Flow

P = ParamSpec("P")
R = TypeVar("R")
HOUR = 3600
# Between two looks at a workspace that somebody works in, at first and in the end: each look may be
# task runs.
LOCKED_SECONDS, LONGEST_SECONDS = 10.0, 60.0
# What Prefect raises in a flow when its server goes away, refuses, or answers nonsense.
_OF_A_SERVER = (
    httpx.HTTPError,
    prefect.exceptions.ObjectNotFound,
    ValidationError,
    JSONDecodeError,
)
Parameters = Mapping[str, Any]


def _unreachable(task: object, run: object, state: Any) -> bool:
    """Whether a server did not answer a deployment's run: a person at a terminal would not wait."""
    here = prefect.context.FlowRunContext.get()
    unattended = here is not None and here.flow_run.deployment_id is not None
    silent = isinstance(state.data, RegistryUnreachable) and not interruption_behind(state.data)
    return unattended and silent


# Options of a task that asks servers, which have eight minutes to come back.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [30, 120, 300],
    "retry_condition_fn": _unreachable,
}

# What a flow called from here came to, a result or an error, though the server may not hear of it.
_results: ContextVar[list[Any] | None] = ContextVar("results", default=None)


def flow(
    kind: FlowKind,
    *,
    run_name: Callable[[Parameters, str], str],
    about: Callable[[Parameters], str],
    called: Callable[[Any], str],
    state: Callable[[Any], tuple[str, str]] = lambda _: ("", ""),
    alone: bool = False,
) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """As `prefect.flow`, for a function whose result people find by its name.

    Args:
        kind: its name, its steps, and after how long it is stopped.
        run_name: of a run, by its parameters and, once there is one, what its result is called.
        about: the name of the tokenizer; empty where it is about none.
        called: what a result is called.
        state: names the state of a run that has ended well, and says why; empty: as Prefect does.
        alone: a deployment's run waits while another workspace trains the same name.
    """

    def mark(function: Callable[P, R]) -> Flow[P, R]:
        @functools.wraps(function)
        def run(*args: Any, **parameters: Any) -> Any:
            here = prefect.context.FlowRunContext.get()
            if here is None or here.flow is None or here.flow.fn is not run:  # or another flow's
                return _interruptible(function, *args, **parameters)
            hide_in_logs()  # which go to the server
            asked, name = here.parameters, about(here.parameters)
            listener = PrefectListener(kind, name)

            def work() -> Any:
                if alone:
                    require_nobody_trains(name, asked.get("workspace"))
                return _interruptible(function, *args, **parameters)

            heard = progress.Several([progress.current(), listener])
            with progress.listening(heard), hide_in_errors():
                if here.flow_run.deployment_id is None:
                    result = _kept(function, *args, **parameters)
                else:  # nobody waits for it at a terminal
                    require_own_mlflow(here.flow_run.tags, asked.get("workspace"))
                    result = waiting_for_others(work, listener.note)
            listener.name_run(run_name(asked, called(result)))
            ended, why = state(result)
            return (
                prefect.states.Completed(name=ended, message=why, data=result) if ended else result
            )

        described: Any = run
        described.__signature__ = inspect.signature(function, eval_str=True)
        described.__doc__ = as_markdown(function.__doc__ or "")
        marked: Flow[P, R] = prefect.flow(
            run,
            name=kind.name,
            description=(function.__doc__ or "").partition("\n")[0],
            flow_run_name=lambda: run_name(prefect.runtime.flow_run.parameters, ""),
            timeout_seconds=kind.hours * HOUR,
            persist_result=False,
            result_serializer="json",  # Prefect keeps a failed flow's error, by default as a pickle
        )
        return marked

    return mark


def recorded(flow: Any, request: Request, workspace: str | None, api_url: str) -> Any:
    """Call a flow from this process, recorded by the Prefect server of this API.

    Addresses with passwords are not sent there. A server that goes away or talks nonsense meanwhile
    is not needed: nothing is kept there, so that what is left is done without it.

    Raises:
        InvalidOption: a password stands in an address.
        BpelineError: whatever the flow raises.
    """
    refuse_secrets_in({**dict(request), "workspace": workspace})
    names, events = prefect.settings, prefect.events
    here = {getattr(names, key): value for key, value in settings.own_server(api_url).items()}
    done: list[Any] = []
    token = _results.set(done)
    try:
        with names.temporary_settings(here):  # Prefect may have been imported before it was chosen
            if not events.worker.emit_events_to_cloud():
                # Else the end of the process waits for ten attempts to send each event.
                events.worker.EventsWorker.set_client_override(
                    events.clients.PrefectEventsClient, reconnection_attempts=1
                )
            return flow(request, workspace)
    except _OF_A_SERVER as error:
        said = without_secrets(str(error)).partition("\n")[0] or type(error).__name__
        gone = f"the Prefect server is gone ({said})"
        if done and not isinstance(done[0], _OF_A_SERVER):
            progress.current().note(f"{gone} and does not know how this run ended")
            if isinstance(done[0], BaseException):
                raise done[0] from None
            return done[0]
        progress.current().note(f"{gone}; going on in this process")
        return flow.fn(request, workspace)
    finally:
        _results.reset(token)


def _kept(function: Callable[..., Any], *args: Any, **parameters: Any) -> Any:
    """Call a function, and remember for `recorded` what came of it."""
    kept = _results.get()
    outcome: Any = None
    try:
        outcome = _interruptible(function, *args, **parameters)
        return outcome
    except BaseException as error:
        outcome = error
        raise
    finally:
        if kept is not None:
            kept.append(outcome)


def _interruptible(function: Callable[..., Any], *args: Any, **parameters: Any) -> Any:
    """Call a function; an interruption that hides behind an error of a library is raised."""
    try:
        return function(*args, **parameters)
    except Exception as error:
        interruption = interruption_behind(error)
        if interruption is None:
            raise
        raise interruption from error


def waiting_for_others(work: Callable[[], Any], say: Callable[[str], object]) -> Any:
    """Do ``work`` as soon as nobody else holds the workspace; ``say`` is told for whom it waits."""
    said, seconds = "", LOCKED_SECONDS
    while True:
        try:
            return work()
        except WorkspaceLocked as error:
            if error.happened != said:
                said = error.happened
                say(f"waiting: {said}")
            time.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_SECONDS)


@task(name="find MLflow", **RETRIES)
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
