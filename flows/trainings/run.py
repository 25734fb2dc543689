"""One run of a training: its lock, heartbeat, steps, durations and preparations.

Importing MLflow, creating its database and compiling take seconds. Threads do this during
counting, whose kernels run without the interpreter. Publishing works without it too.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from bpeline.flows import engines
from bpeline.flows.requests import BYTE_BPE, ImportRequest, TrainingRequest
from bpeline.flows.running import Outcome, Progress, StepKind, interruption_behind, progress
from bpeline.registry.catalogue import SWEEP, Catalogue, Run
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import waits_in_outbox
from bpeline.registry.records import RunRecord
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.upkeep import FAILED, KILLED, show_ends
from bpeline.registry.word_counts import evict
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
from bpeline.tokenizer_core.warm_up import compiling_ahead

HEARTBEAT_SECONDS = 5.0


RunRequest = TrainingRequest | ImportRequest


@dataclass(slots=True)
class TrainingRun:
    """An active run; ``say_purpose`` updates the text of its lock, ``purpose``."""

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
        """Report a step to the catalogue, the lock and the listener."""
        self.registry.catalogue.step_reached(self.id, kind.name)
        self.say_purpose(f"{self.purpose}: {kind.name}")
        with progress.telling(kind, total, unit) as outcome:
            yield outcome
        self.seconds[kind.name] = outcome.seconds

    @property
    def id(self) -> str:
        """Id of its row in the catalogue."""
        return self.row.id

    @property
    def workspace(self) -> Workspace:
        """The locked workspace."""
        return self.registry.workspace

    def show_begin(self) -> None:
        """Show the start of this run in MLflow, and the ends of killed earlier runs."""
        name, started_at = self.request.name, self.row.started_at
        self.registry.make_store()
        self.registry.tracker.runs.open_run(
            RunRecord(name=name, run_id=self.id, started_at=started_at, params=asked(self.request))
        )
        show_ends(self.registry)

    def note(self, text: str) -> None:
        """Record and show a note, once."""
        if text and text not in self.notes:
            self.notes.append(text)
            self.progress.note(text)


@contextmanager
def training_run(
    request: RunRequest, workspace: str | None, sweep: Mapping[str, Any] | None = None
) -> Iterator[TrainingRun]:
    """Lock the workspace for one training, and record how it ends.

    An unfinished run with the same request is continued under its id.

    Args:
        sweep: for a sweep, the values that vary. It is never continued, and is no MLflow run.

    Raises:
        WorkspaceLocked: another run uses the workspace.
    """
    registry = open_registry(workspace)
    catalogue = registry.catalogue
    with suppress(RegistryUnreachable):  # then the result waits in the outbox
        _ = registry.store  # raises for a lost store now, instead of after training
    purpose = f"{'training' if sweep is None else 'sweeping'} {request.name!r}"
    with registry.workspace.lock(purpose) as lock:
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
        run = TrainingRun(row, request, registry, progress.current(), purpose, lock.doing)
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
                        evict()  # release the words of this run
            except BaseException as error:
                interruption = interruption_behind(error)
                if interruption is not None:
                    _let_go(error)
                if waits_in_outbox(registry.workspace, run_id):
                    catalogue.end_run(run_id, "unpublished", _described(error))
                elif interruption is not None:
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
    """Return the request's parameters for MLflow."""
    config = request.as_config()
    del config["name"]
    config.update(config.pop("options", {}))
    return {key: value for key, value in config.items() if value is not None}


def _show_end(run: TrainingRun, status: str, error: str) -> None:
    """Record the end in MLflow; if that fails, the workspace's next run does it."""
    if run.row.is_sweep:
        return
    with suppress(RegistryError, StorageError):
        run.registry.tracker.runs.close_run(run.request.name, run.id, status, error)


def run_to_continue(catalogue: Catalogue, request: RunRequest) -> Run | None:
    """Return the newest unfinished run with the same request."""
    for run in catalogue.unfinished_runs():
        # A run in the state "running" is active in another workspace.
        is_same_request = run.name == request.name and request.same_as(run.config)
        if is_same_request and run.state != "running":
            return run
    return None


def cannot_begin(error: BaseException) -> bool:
    """Return whether the request itself is invalid, so that repeating it cannot help."""
    return isinstance(error, (InvalidInput, CorpusError, UnknownVersion))


def _let_go(error: BaseException) -> None:
    """Clear the frames of an interruption, which may hold a transaction and its lock.

    Python can interrupt SQLAlchemy or MLflow just after a connection begins to write, before a
    `finally` block knows of it.
    """
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__


def _described(error: BaseException) -> str:
    if isinstance(error, BpelineError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


@contextmanager
def _heartbeat(catalogue: Catalogue, run_id: str) -> Iterator[None]:
    """Record every few seconds that this process lives, from a thread."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            try:
                catalogue.heartbeat(run_id)
            except Exception:  # a busy catalogue: the next beat is enough
                continue

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def prepared(
    tracker: MlflowTracker, then: Callable[[], object] = lambda: None
) -> Iterator[threading.Thread]:
    """Prepare the tracker in a thread while the block runs; join it before publishing."""

    def prepare() -> None:
        with suppress(Exception):  # publishing will raise the same error
            tracker.prepare()
            then()

    thread = threading.Thread(target=prepare, name="prepare to publish")
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def compiled_ahead(request: TrainingRequest) -> AbstractContextManager[Callable[[], None]]:
    """Compile kernels in a thread during counting; yield a function to help finish."""
    if request.algorithm != BYTE_BPE:
        return nullcontext(lambda: None)
    return compiling_ahead()
