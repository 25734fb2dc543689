"""Functions as Prefect flows and tasks: run names, progress, retries, waiting for locks.

Outside a flow run, `FLOW.fn` and tasks are plain functions, without a server or Prefect's database.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import httpx
from pydantic import ValidationError

from bpeline.flows.requests import Request, as_markdown
from bpeline.flows.running import (
    FlowKind,
    interruption_behind,
    map_threads,
    progress,
    settings,
    steps,
)
from bpeline.flows.serving.project_deployments import MLFLOW_TAG
from bpeline.registry.loading import ResolvedVersion, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import ByAlias, ByDigest, ByNumber
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable, WorkspaceLocked
from bpeline.tokenizer_core.redaction import hide_in_errors, hide_in_logs, without_secrets
from bpeline.tokenizer_core.urls import refuse_secrets_in

with settings.importing_prefect():
    import prefect
    from prefect.tasks import Task as PrefectTask

    from bpeline.flows.serving.prefect_listener import PrefectListener

if TYPE_CHECKING:
    from prefect.flows import Flow

P = ParamSpec("P")
R = TypeVar("R")
HOUR = 3600
# Seconds between attempts while a workspace is locked, first and longest; attempts make task runs.
LOCKED_SECONDS, LONGEST_SECONDS = 10.0, 60.0
# Errors in a flow when its Prefect server stops, refuses, or answers nonsense.
_OF_A_SERVER = (
    httpx.HTTPError,
    prefect.exceptions.ObjectNotFound,
    ValidationError,
    JSONDecodeError,
)
Parameters = Mapping[str, Any]


def _unreachable(task: object, run: object, state: Any) -> bool:
    """Return whether a server did not answer the run of a deployment, which can wait."""
    here = prefect.context.FlowRunContext.get()
    unattended = here is not None and here.flow_run.deployment_id is not None
    silent = isinstance(state.data, RegistryUnreachable) and not interruption_behind(state.data)
    return unattended and silent


# Options of tasks that use servers, which get eight minutes to come back.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [30, 120, 300],
    "retry_condition_fn": _unreachable,
}


class Task(PrefectTask[P, R]):  # type: ignore[misc]
    """A `prefect.Task` that calls its function directly outside a flow run."""

    def __init__(self, function: Callable[P, R], **options: Any) -> None:
        self.plain = function
        shown = hide_in_errors()(steps.stopping_together(function))  # the server stores its errors
        uncached = prefect.cache_policies.NO_CACHE
        super().__init__(shown, cache_policy=uncached, persist_result=False, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        call = self.plain if prefect.context.FlowRunContext.get() is None else super().__call__
        return call(*args, **kwargs)

    def map_all(
        self,
        items: Sequence[Any],
        workers: int,
        on_interrupt: Callable[[], None] | None,
        **shared: Any,
    ) -> list[R]:
        """Return the results for all items in order; a flow run gets a task run for each."""
        if prefect.context.FlowRunContext.get() is None:
            return map_threads(self.plain, items, workers, on_interrupt, **shared)
        first, *_ = inspect.signature(self.plain).parameters
        same = {name: prefect.unmapped(value) for name, value in shared.items()}
        with prefect.task_runners.ThreadPoolTaskRunner(workers) as runner, steps.together():
            mapped = runner.map(self, {first: items, **same})
            futures = {future.wrapped_future: future for future in mapped}
            return steps.all_results(futures, on_interrupt)


def task(**options: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Like `prefect.task`, without caching and stored results."""
    return lambda function: Task(function, **options)


# Result or error of a flow started here, also if the server does not learn of it.
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
    """Like `prefect.flow`, for a function whose result has a name.

    Args:
        run_name: of a run, from its parameters and the name of its result, empty at first.
        about: name of the tokenizer; empty if there is none.
        state: name and message of a finished run's state; empty for Prefect's default.
        alone: whether a deployment's run waits while another workspace trains the same name.
    """

    def mark(function: Callable[P, R]) -> Flow[P, R]:
        @functools.wraps(function)
        def run(*args: Any, **parameters: Any) -> Any:
            context = prefect.context.FlowRunContext.get()
            if context is None or context.flow is None or context.flow.fn is not run:
                return _interruptible(function, *args, **parameters)
            hide_in_logs()  # logs go to the server
            parameters_of_run, name = context.parameters, about(context.parameters)
            listener = PrefectListener(kind, name)

            def work() -> Any:
                if alone:
                    require_nobody_trains(name, parameters_of_run.get("workspace"))
                return _interruptible(function, *args, **parameters)

            listeners = progress.Several([progress.current(), listener])
            with progress.listening(listeners), hide_in_errors():
                if context.flow_run.deployment_id is None:
                    result = _kept(function, *args, **parameters)
                else:  # unattended
                    require_own_mlflow(context.flow_run.tags, parameters_of_run.get("workspace"))
                    result = waiting_for_others(work, listener.note)
            listener.name_run(run_name(parameters_of_run, called(result)))
            state_name, message = state(result)
            return (
                prefect.states.Completed(name=state_name, message=message, data=result)
                if state_name
                else result
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
            result_serializer="json",  # Prefect pickles the errors of failed flows by default
        )
        return marked

    return mark


def recorded(flow: Any, request: Request, workspace: str | None, api_url: str) -> Any:
    """Run a flow in this process and record it on the Prefect server of this API.

    Addresses with passwords are not sent there. If the server stops or answers nonsense, the flow
    continues without it.
    """
    refuse_secrets_in({**dict(request), "workspace": workspace})
    names, events = prefect.settings, prefect.events
    overrides = {getattr(names, key): value for key, value in settings.own_server(api_url).items()}
    outcomes: list[Any] = []
    token = _results.set(outcomes)
    try:
        with names.temporary_settings(overrides):  # Prefect may have been imported earlier
            if not events.worker.emit_events_to_cloud():
                # Else the process ends only after ten attempts to send each event.
                events.worker.EventsWorker.set_client_override(
                    events.clients.PrefectEventsClient, reconnection_attempts=1
                )
            return flow(request, workspace)
    except _OF_A_SERVER as error:
        reason = without_secrets(str(error)).partition("\n")[0] or type(error).__name__
        message = f"the Prefect server is gone ({reason})"
        if outcomes and not isinstance(outcomes[0], _OF_A_SERVER):
            progress.current().note(f"{message} and does not know how this run ended")
            if isinstance(outcomes[0], BaseException):
                raise outcomes[0] from None
            return outcomes[0]
        progress.current().note(f"{message}; continuing in this process")
        return flow.fn(request, workspace)
    finally:
        _results.reset(token)


def _kept(function: Callable[..., Any], *args: Any, **parameters: Any) -> Any:
    """Call a function, and store its result or error for `recorded`."""
    outcomes = _results.get()
    outcome: Any = None
    try:
        outcome = _interruptible(function, *args, **parameters)
        return outcome
    except BaseException as error:
        outcome = error
        raise
    finally:
        if outcomes is not None:
            outcomes.append(outcome)


def _interruptible(function: Callable[..., Any], *args: Any, **parameters: Any) -> Any:
    """Call a function; raise the interruption if it caused a library's error."""
    try:
        return function(*args, **parameters)
    except Exception as error:
        interruption = interruption_behind(error)
        if interruption is None:
            raise
        raise interruption from error


def waiting_for_others(work: Callable[[], Any], say: Callable[[str], object]) -> Any:
    """Run ``work`` as soon as the workspace is unlocked; report the lock to ``say``."""
    reason, seconds = "", LOCKED_SECONDS
    while True:
        try:
            return work()
        except WorkspaceLocked as error:
            if error.happened != reason:
                reason = error.happened
                say(f"waiting: {reason}")
            time.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_SECONDS)


@task(name="find version", **RETRIES)
def find_version(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Resolve a reference to a version."""
    return resolve(registry, reference)


@task(name="find MLflow", **RETRIES)
def require_own_mlflow(tags: Iterable[str], workspace: str | None) -> None:
    """Check that a deployment's run uses the MLflow that it was deployed for."""
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
    """Raise WorkspaceLocked if another workspace of this catalogue trains the name.

    Two trainings that start at the same instant may both pass; registering is safe then too.
    """
    for run in open_registry(workspace).catalogue.running_elsewhere(name):
        raise WorkspaceLocked(
            f"run {run.id} trains {name!r} in process {run.pid} on {run.host}, "
            f"since {run.started_at[:16]}: {run.step}",
            "expected one training of a name at a time",
            f"wait for it, or stop it: kill {run.pid} on {run.host}",
        )
