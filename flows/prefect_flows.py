"""The flows as Prefect sees them: what ``prefect.yaml`` points to.

Nothing is computed here: each flow is the plain function of its own file, and Prefect listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from bpeline.flows.running import settings

settings.prepare_prefect()

import httpx  # noqa: E402
from prefect import flow  # noqa: E402 - reads the environment prepared above
from prefect.exceptions import ObjectNotFound  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402
from prefect.states import Completed  # noqa: E402
from pydantic import ValidationError  # noqa: E402

from bpeline.flows import collect_garbage as collecting  # noqa: E402
from bpeline.flows import encode_dataset as encoding  # noqa: E402
from bpeline.flows import import_tokenizer as importing  # noqa: E402
from bpeline.flows import recertify as recertifying  # noqa: E402
from bpeline.flows import train_tokenizer as training  # noqa: E402
from bpeline.flows import watch_drift as watching  # noqa: E402
from bpeline.flows.running import (  # noqa: E402
    ENCODE_DATASET,
    GC,
    IMPORT_TOKENIZER,
    RECERTIFY,
    TRAIN_TOKENIZER,
    WATCH_DRIFT,
    FlowKind,
    progress,
    runner,
)
from bpeline.flows.serving import (  # noqa: E402
    PrefectListener,
    patiently,
    require_nobody_trains,
    require_own_mlflow,
    run_names,
    run_tags,
    runs_unattended,
    shown_like,
)
from bpeline.tokenizer_core.redaction import (  # noqa: E402
    hide_in_errors,
    hide_in_logs,
    without_secrets,
)
from bpeline.tokenizer_core.urls import refuse_secrets_in  # noqa: E402

if TYPE_CHECKING:
    from bpeline.flows.importing import ImportSummary
    from bpeline.flows.publishing import TrainingSummary

HOUR = 3600
# What Prefect raises in a flow when its server goes away, refuses, or answers nonsense.
_OF_A_SERVER = (httpx.HTTPError, ObjectNotFound, ValidationError, JSONDecodeError)

hide_in_logs()  # which go to the server


def _as_flow(
    kind: FlowKind,
    function: Callable[..., Any],
    run_name: Callable[..., str],
    named: Callable[[Any], str],
    alone: Callable[[Mapping[str, Any]], None] | None = None,
    state: Callable[[Any], tuple[str, str]] = lambda _: ("", ""),
) -> Any:
    """A plain function as a flow of the same signature.

    Its run is named by its parameters, and again with what ``named`` says of the result; ``alone``
    raises WorkspaceLocked while another run must be waited for. ``state`` names the state of a run
    that has ended well, and says why; empty for Prefect's own name.
    """

    @flow(
        name=kind.name,
        description=(function.__doc__ or "").partition("\n")[0],
        flow_run_name=lambda: run_name(flow_run.parameters),
        timeout_seconds=kind.hours * HOUR,
        persist_result=False,
        result_serializer="json",  # Prefect keeps a failed flow's error, by default as a pickle
        log_prints=False,
    )  # type: ignore[untyped-decorator]
    @shown_like(function)
    def run(*args: Any, **parameters: Any) -> Any:
        listener = PrefectListener(kind, run_names.tokenizer(flow_run.parameters))

        def work() -> Any:
            if runs_unattended():
                require_own_mlflow(run_tags(), flow_run.parameters.get("workspace"))
                if alone is not None:
                    alone(flow_run.parameters)
            return function(*args, **parameters)

        heard = progress.Several([progress.current(), listener])
        with progress.listening(heard), hide_in_errors():
            result = patiently(work, listener.note) if runs_unattended() else work()
        listener.name_run(run_name(flow_run.parameters, named(result)))
        ended, why = state(result)
        return Completed(name=ended, message=why, data=result) if ended else result

    return run


def _promotion_state(summary: TrainingSummary | ImportSummary) -> tuple[str, str]:
    promotion = summary.promotion
    return ("", "") if promotion is None else (promotion.state, promotion.outcome)


train_tokenizer = _as_flow(
    TRAIN_TOKENIZER,
    training.train_tokenizer,
    run_name=run_names.training,
    named=lambda summary: summary.reference,
    alone=lambda asked: require_nobody_trains(asked["name"], asked.get("workspace")),
    state=_promotion_state,
)
import_tokenizer = _as_flow(
    IMPORT_TOKENIZER,
    importing.import_tokenizer,
    run_name=run_names.importing,
    named=lambda summary: summary.reference,
    alone=lambda asked: require_nobody_trains(asked["name"], asked.get("workspace")),
    state=_promotion_state,
)
watch_drift = _as_flow(
    WATCH_DRIFT,
    watching.watch_drift,
    run_names.watching,
    named=lambda report: report.title,
    state=lambda report: ("Stuck" if report.stuck else "", report.stuck),
)
encode_dataset = _as_flow(
    ENCODE_DATASET, encoding.encode_dataset, run_names.encoding, lambda encoded: encoded.reference
)
sweep_garbage = _as_flow(
    GC, collecting.collect_garbage, run_names.collecting, lambda collected: collected.outcome
)
recertify = _as_flow(
    RECERTIFY, recertifying.recertify, run_names.recertifying, named=lambda made: made.outcome
)


def run_train_tokenizer(parameters: dict[str, Any]) -> TrainingSummary:
    """Run the flow from this process, recorded by the server of PREFECT_API_URL.

    What is not accepted is said by the flow itself, as it is without a server, but for addresses
    with passwords, which are not sent there. A server that goes away or talks nonsense meanwhile is
    not needed: nothing is kept there, so that what is left is done without it.
    """
    summary: TrainingSummary = _recorded(train_tokenizer, training.train_tokenizer, parameters)
    return summary


def run_import_tokenizer(parameters: dict[str, Any]) -> ImportSummary:
    """The same for imports."""
    summary: ImportSummary = _recorded(import_tokenizer, importing.import_tokenizer, parameters)
    return summary


def _recorded(recorded: Any, function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    refuse_secrets_in(parameters)  # which the server would keep
    try:
        return recorded.with_options(validate_parameters=False)(**parameters)
    except _OF_A_SERVER as error:
        runner.server_is_gone = True
        said = without_secrets(str(error)).partition("\n")[0] or type(error).__name__
        progress.current().note(f"the Prefect server is gone ({said}); going on in this process")
        return function(**parameters)
