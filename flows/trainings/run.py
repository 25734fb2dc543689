"""One run of a training: its lock, its row with a heartbeat, its steps and how long they took.

Knows what is remembered about a run, not what its steps do.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bpeline.flows import engines
from bpeline.flows.requests import ImportRequest, TrainingRequest
from bpeline.flows.running import Outcome, Progress, StepKind, interruption_behind, progress
from bpeline.registry.catalogue import SWEEP, Catalogue, Run
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import waits_in_outbox
from bpeline.registry.records import RunRecord
from bpeline.registry.upkeep import FAILED, KILLED, show_ends
from bpeline.registry.word_counts import let_go
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import LEFT_OUT_RULE
from bpeline.tokenizer_core.errors import (
    BpelineError,
    CorpusError,
    InvalidInput,
    RegistryError,
    RegistryUnreachable,
    StorageError,
    UnknownVersion,
)

HEARTBEAT_SECONDS = 5.0


RunRequest = TrainingRequest | ImportRequest


@dataclass(slots=True)
class TrainingRun:
    """A run while it runs.

    Attributes:
        row: what the catalogue says of it.
        request: what was asked for.
        registry: of the workspace it holds.
        progress: who listens.
        purpose: what the workspace is held for, and ``say_purpose`` tells that.
        seconds: of every step that is finished.
        notes: what people should know although nothing failed.
    """

    row: Run
    request: RunRequest
    registry: Registry
    progress: Progress
    purpose: str
    say_purpose: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, kind: StepKind, total: int | None = None, unit: str = "") -> Iterator[Outcome]:
        """Tell everybody about a step: catalogue, lock holder, listeners."""
        self.registry.catalogue.step_reached(self.id, kind.name)
        self.say_purpose(f"{self.purpose}: {kind.name}")
        with progress.telling(kind, total, unit) as outcome:
            yield outcome
        self.seconds[kind.name] = outcome.seconds

    @property
    def id(self) -> str:
        """Of its row in the catalogue."""
        return self.row.id

    @property
    def workspace(self) -> Workspace:
        """The workspace that is held."""
        return self.registry.workspace

    def show_begin(self) -> None:
        """Show in MLflow that this run has begun, and how those ended that could not say so.

        Raises:
            RegistryUnreachable: MLflow does not answer; publishing makes up for it.
        """
        name, begun = self.request.name, self.row.started_at
        self.registry.make_store()
        self.registry.tracker.runs.open_run(
            RunRecord(name=name, run_id=self.id, started_at=begun, params=asked(self.request))
        )
        show_ends(self.registry)

    def note(self, text: str) -> None:
        """Remember and say something that is not an error, once."""
        if text and text not in self.notes:
            self.notes.append(text)
            self.progress.note(text)


@contextmanager
def training_run(
    request: RunRequest, workspace: str | None, sweep: Mapping[str, Any] | None = None
) -> Iterator[TrainingRun]:
    """Hold the workspace for one training and remember how it ends.

    A run that asked for the same and did not finish is continued: it keeps its id.

    Args:
        request: what is asked for.
        workspace: its directory; None takes the configured one.
        sweep: of a sweep, which is never continued and no run in MLflow: what varies, all values.

    Raises:
        WorkspaceLocked: another run is at work there.
    """
    registry = open_registry(workspace)
    catalogue = registry.catalogue
    with suppress(RegistryUnreachable):  # then the result waits until it answers
        _ = registry.store  # not after hours: a store that is lost
    purpose = f"{'training' if sweep is None else 'sweeping'} {request.name!r}"
    with registry.workspace.lock(purpose) as held:
        config = request.as_config()
        earlier = None
        if sweep is None:
            earlier = run_to_continue(catalogue, request)
        else:
            config = {SWEEP: {**config, **sweep}}
        if earlier is None:
            row = catalogue.start_run(request.name, config, LEFT_OUT_RULE)
        else:
            row = catalogue.continue_run(earlier.id)
        run_id = row.id
        run = TrainingRun(row, request, registry, progress.current(), purpose, held.doing)
        if sweep is None:
            if remark := request.pattern_remark:
                run.progress.note(remark)
            run.note(request.parity_remark)
        with _heartbeat(catalogue, run_id):
            try:
                meeting_place = registry.workspace.temporary
                with engines.working(request.engine, request.workers, meeting_place):
                    try:
                        yield run
                    finally:
                        let_go()  # of words, whose run is over
            except BaseException as error:
                stopped = interruption_behind(error)
                if stopped is not None:
                    _let_go(error)
                if waits_in_outbox(registry.workspace, run_id):
                    catalogue.end_run(run_id, "unpublished", _described(error))
                elif stopped is not None:
                    catalogue.end_run(run_id, "interrupted")
                    _show_end(run, KILLED, "interrupted")
                elif earlier is None and not run.seconds and cannot_begin(error):
                    catalogue.end_run(run_id, "refused", _described(error))
                    _show_end(run, FAILED, _described(error))
                else:
                    catalogue.end_run(run_id, "failed", _described(error))
                    _show_end(run, FAILED, _described(error))
                raise
            catalogue.end_run(run_id, "finished")


def asked(request: RunRequest) -> dict[str, Any]:
    """What was asked for, as MLflow shows it."""
    config = request.as_config()
    del config["name"]
    config.update(config.pop("options", {}))
    return {key: value for key, value in config.items() if value is not None}


def _show_end(run: TrainingRun, status: str, error: str) -> None:
    """What MLflow does not hear now, the next run of this workspace tells it."""
    if run.row.is_sweep:
        return
    with suppress(RegistryError, StorageError):
        run.registry.tracker.runs.close_run(run.request.name, run.id, status, error)


def run_to_continue(catalogue: Catalogue, request: RunRequest) -> Run | None:
    """The newest run that asked for the same and did not finish."""
    for run in catalogue.unfinished_runs():
        # One that says it is running does so on another machine, in another workspace.
        asked_the_same = run.name == request.name and request.same_as(run.config)
        if asked_the_same and run.state != "running":
            return run
    return None


def cannot_begin(error: BaseException) -> bool:
    """Whether what was asked for is not there, or cannot be: only another request would do."""
    return isinstance(error, (InvalidInput, CorpusError, UnknownVersion))


def _let_go(error: BaseException) -> None:
    """Drop what is held by nothing but an interruption's traceback: a transaction, and its lock.

    Python raises an interruption between any two lines, of SQLAlchemy's and MLflow's too, where no
    `finally` knows yet of a connection that has just begun to write.
    """
    held: BaseException | None = error
    while held is not None:
        traceback.clear_frames(held.__traceback__)
        held = held.__context__


def _described(error: BaseException) -> str:
    if isinstance(error, BpelineError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


@contextmanager
def _heartbeat(catalogue: Catalogue, run_id: str) -> Iterator[None]:
    """Say every few seconds that this process lives, from a thread that never fails the run."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            try:
                catalogue.heartbeat(run_id)
            except Exception:  # a busy catalogue: the next beat tells
                continue

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
