"""MLflow in a process beside: the same answers, the same errors, and what comes of losing it."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bpeline.registry.opening import open_registry
from bpeline.registry.tracking import beside, lookup, tracker_beside
from bpeline.registry.tracking.beside import Beside, NobodyThere, NotPickled, mlflow_beside
from bpeline.registry.tracking.tracked import StartedRun, TrackedRun, TrackingSettings
from bpeline.registry.tracking.tracker_beside import ASKED, LOOKED_UP, TrackerBeside, tracker_of
from bpeline.registry.tracking.tracking import MlflowTracker
from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.errors import (
    BpelineError,
    RegistryError,
    RegistryUnreachable,
    WorkspaceLocked,
)

ROOT = Path(__file__).parents[2]
MISSING = "0" * 32


@pytest.fixture(scope="module")
def process() -> Iterator[Beside]:
    begun = Beside()
    yield begun
    begun.end()


@pytest.fixture
def settings(mlflow_uri: str, tmp_path: Path) -> TrackingSettings:
    return TrackingSettings(mlflow_uri, (tmp_path / "artifacts").as_uri(), owner="ours")


@pytest.fixture
def tracker(settings: TrackingSettings, process: Beside) -> TrackerBeside:
    return TrackerBeside(settings, process)


def test_what_needs_mlflow_is_asked_beside() -> None:
    def looks_up(name: str) -> bool:
        return "_quickly" in inspect.getsource(getattr(MlflowTracker, name))

    assert {name for name in ASKED | LOOKED_UP if looks_up(name)} == LOOKED_UP
    assert {"prepare", "open_run", "create_version", "show_name_page", "tombstones"} <= ASKED


def test_it_writes_and_reads_what_the_tracker_here_does(
    tracker: TrackerBeside, settings: TrackingSettings, tmp_path: Path
) -> None:
    here = MlflowTracker(settings)
    tracker.prepare()
    assert tracker.ensure_identity() == here.identity() == tracker.identity() != ""
    run = tracker.open_run(StartedRun("news", "r1", "2026-01-02T03:04:05+00:00"))
    assert isinstance(run, TrackedRun)
    assert tracker.unended_runs() == here.unended_runs() != []
    page = tmp_path / "page.html"
    page.write_text("<p>")
    tracker.add_files(run.run_id, [page], folder="pages")
    assert here._files_of(run.run_id).list_artifacts("pages")[0].path == "pages/page.html"
    tracker.close_run("news", "r1", "KILLED", error="why")
    assert here._client.get_run(run.run_id).info.status == "KILLED"


def test_its_errors_are_those_of_the_tracker_here(
    tracker: TrackerBeside, settings: TrackingSettings
) -> None:
    told = []
    for one in (tracker, MlflowTracker(settings)):
        with pytest.raises(RegistryError) as raised:
            one.artifact_page(MISSING, "page.html")
        told.append((type(raised.value), str(raised.value), raised.value.next_step))
    assert told[0] == told[1]
    assert MISSING in told[0][1]


class Demanding(Exception):
    """One that pickle takes, and cannot make again."""

    def __init__(self, *, why: str) -> None:
        super().__init__(why)


class _Answering:
    """Answers as the process does, in this one."""

    is_gone = False
    turn = threading.RLock()

    def ask(self, question: Any) -> Any:
        ours, theirs = Pipe()
        with ours, theirs:
            tracker_beside.answer_to(question, {}, theirs.send)
            return ours.recv()


def test_foreign_exceptions_and_values_of_the_other_process_are_told_as_errors_of_ours(
    settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def demand(_: MlflowTracker) -> None:
        raise Demanding(why="of a library's own")

    monkeypatch.setattr(MlflowTracker, "unended_runs", demand)
    monkeypatch.setattr(MlflowTracker, "tombstones", lambda _: threading.Lock())
    tracker = TrackerBeside(settings, _Answering())  # type: ignore[arg-type]
    for ask, said in (
        (tracker.unended_runs, "Demanding: of a library's own"),
        (tracker.tombstones, "TypeError: cannot pickle"),
    ):
        with pytest.raises(RegistryError, match=said) as raised:
            ask()
        assert type(raised.value) is RegistryError
        assert ask.__name__ in raised.value.happened


def test_after_an_answer_that_cannot_be_carried_it_goes_on_answering(
    tracker: TrackerBeside, settings: TrackingSettings, process: Beside
) -> None:
    error, _, _ = process.ask((settings, "_answering", ("asking",), {}))  # a generator
    assert error is not None
    with pytest.raises(RegistryError, match="TypeError"):
        tracker.artifact_page()  # type: ignore[call-arg]
    assert tracker.ensure_identity() != ""
    assert tracker.is_beside


def test_a_question_that_cannot_be_carried_is_answered_here(
    tracker: TrackerBeside,
    settings: TrackingSettings,
    process: Beside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class KnownNowhere(str):
        """Its module does not hold it."""

    class KnownHere(str):
        """The other process cannot import its module."""

    module = ModuleType("known_here")
    module.KnownHere = KnownHere  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    KnownHere.__module__, KnownHere.__qualname__ = module.__name__, KnownHere.__name__
    for kind in (KnownNowhere, KnownHere):
        name = kind("news")
        with pytest.raises(NotPickled):
            process.ask((settings, "open_run", (name,), {}))
        tracker.open_run(StartedRun(name, f"r{kind.__name__}", "2026-01-02T03:04:05+00:00"))
        with monkeypatch.context() as patched:  # and where tables do not say for certain
            patched.setattr(lookup, "KNOWN_SCHEMAS", set())
            assert tracker.version(name, 1) is None
    assert "_client" not in vars(tracker)
    assert len(tracker.unended_runs()) == 2
    assert tracker.is_beside


class _Garbled:
    """A pipe that gives something else than was answered."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)

    def recv(self) -> Any:
        self._pipe.recv()
        raise ImportError("of another version")


def test_an_answer_that_cannot_be_read_is_an_error_and_no_end(
    tracker: TrackerBeside, process: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(process, "_pipe", _Garbled(process._pipe))
        with pytest.raises(RegistryUnreachable, match="said what cannot be read here"):
            tracker.ensure_identity()
    assert tracker.ensure_identity() != ""
    assert tracker.is_beside


def test_an_answer_that_there_is_no_memory_for_is_not_that_of_the_next_question(
    settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory() -> None:
        raise MemoryError

    begun = Beside()
    tracker = TrackerBeside(settings, begun)
    with monkeypatch.context() as patched:
        patched.setattr(begun, "_pipe", _Asked(begun._pipe, no_memory))
        with pytest.raises(MemoryError):
            tracker.ensure_identity()
    assert begun.is_gone


def test_a_remark_of_a_kind_that_cannot_be_carried_is_said(
    settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(Warning):
        pass

    def warn(_: MlflowTracker) -> list[Any]:
        warnings.warn("of a kind of its own", Local, stacklevel=1)
        warnings.warn("of a known kind", DeprecationWarning, stacklevel=1)
        return []

    monkeypatch.setattr(MlflowTracker, "unended_runs", warn)
    with pytest.warns(UserWarning, match="kind of its own"), pytest.deprecated_call():
        assert TrackerBeside(settings, _Answering()).unended_runs() == []  # type: ignore[arg-type]


def test_what_tables_do_not_say_for_certain_is_asked_beside(
    tracker: TrackerBeside, settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tracker.ensure_identity()
    monkeypatch.setattr(lookup, "KNOWN_SCHEMAS", set())
    assert (tracker.identity(), tracker.version("news", 1)) == (known, None)
    assert "_client" not in vars(tracker)
    gone = Beside()
    gone.end()
    assert TrackerBeside(settings, gone).identity() == known


def test_every_error_of_ours_can_be_made_of_its_three_parts() -> None:
    kinds: list[type[BpelineError]] = [BpelineError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert str(kind("happened", "accepted", "next")) == "happened\naccepted\nnext"


def test_its_remarks_are_said_here(process: Beside, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.sqlite"
    with closing(sqlite3.connect(path)) as connection:  # as a killed MLflow leaves one
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    with pytest.warns(UserWarning, match=path.name):
        TrackerBeside(TrackingSettings(f"sqlite:///{path}"), process).prepare_database()


def test_another_that_makes_the_database_is_waited_for_here(
    process: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_UNATTENDED_SECONDS", 0.1)
    tracker = TrackerBeside(TrackingSettings(f"sqlite:///{tmp_path}/mlflow.sqlite"), process)
    with (
        lock.holding(tmp_path / "mlflow.sqlite.lock", "making it"),
        pytest.raises(WorkspaceLocked, match=f"process {os.getpid()} on .*making it"),
    ):
        tracker.prepare_database()
    assert not process.is_gone


def test_one_that_is_gone_is_done_without(settings: TrackingSettings) -> None:
    begun = Beside()
    begun.end()
    with pytest.raises(NobodyThere):
        begun.ask("anything")
    tracker = TrackerBeside(settings, begun)
    assert not tracker.is_beside
    assert tracker.ensure_identity() == MlflowTracker(settings).identity() != ""


class _Asked:
    """A pipe; something happens as soon as the question is sent and its answer is waited for."""

    def __init__(self, pipe: Connection, then: Callable[[], object]) -> None:
        self._pipe = pipe
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)

    def recv(self) -> Any:
        self._then()
        return self._pipe.recv()


def test_one_that_ends_before_it_answers_may_have_done_it(settings: TrackingSettings) -> None:
    begun = Beside()
    tracker = TrackerBeside(settings, begun)
    os.kill(begun._process.pid, signal.SIGSTOP)
    begun._pipe = _Asked(begun._pipe, begun._process.kill)  # type: ignore[assignment]
    with pytest.raises(RegistryUnreachable, match="ended, or was ended, before it answered"):
        tracker.ensure_identity()
    assert MlflowTracker(settings).identity() == ""
    assert tracker.ensure_identity() != ""


def test_an_interruption_does_not_wait_for_the_answer(settings: TrackingSettings) -> None:
    begun = Beside()
    os.kill(begun._process.pid, signal.SIGSTOP)
    main = threading.main_thread().ident
    assert main is not None
    interrupt = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    begun._pipe = _Asked(begun._pipe, interrupt.start)  # type: ignore[assignment]
    # Where a shell's job asks us to, this process ignores interruptions.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            begun.ask((settings, "ensure_identity", (), {}))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert begun._process.returncode == -signal.SIGKILL
    with pytest.raises(NobodyThere):
        begun.ask((settings, "identity", (), {}))


# Another program holds the end of the pipe that questions come from, so nothing is read from it.
_PARENT = """
import subprocess, time
from bpeline.registry.tracking.beside import Beside
begun = Beside()
other = subprocess.Popen(["sleep", "600"], stdout=-3, pass_fds=[begun._pipe.fileno()])
print(begun._process.pid, other.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_this_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, other = map(int, parent.stdout.readline().split())
        assert _runs(pid)
        parent.kill()
    deadline = time.monotonic() + 60
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(other, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_registry_asks_the_one_that_was_begun(
    settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.setattr(beside, "available_processors", lambda: 2)
    with mlflow_beside(None), mlflow_beside(settings.uri):
        assert type(tracker_of(settings)) is TrackerBeside
        assert type(tracker_of(TrackingSettings("http://127.0.0.1:9"))) is MlflowTracker
    assert type(tracker_of(settings)) is MlflowTracker


@pytest.mark.parametrize(
    ("processors", "imported", "uri"),
    [
        (1, False, None),
        (2, True, None),
        (2, False, "http://127.0.0.1:9"),
        (2, False, "postgresql://nobody@127.0.0.1:1/nothing"),
    ],
)
def test_where_it_would_gain_nothing_none_is_begun(
    settings: TrackingSettings,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    imported: bool,
    uri: str | None,
) -> None:
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    if imported:
        monkeypatch.setitem(sys.modules, "mlflow", sys)
    monkeypatch.setattr(beside, "available_processors", lambda: processors)
    monkeypatch.setattr(beside, "Beside", lambda: pytest.fail("begun"))
    with mlflow_beside(uri):
        assert type(tracker_of(settings)) is MlflowTracker


@pytest.mark.usefixtures("without_python")
def test_where_no_process_can_be_begun_there_is_none(
    settings: TrackingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.setattr(beside, "available_processors", lambda: 2)
    with mlflow_beside(None):
        assert type(tracker_of(settings)) is MlflowTracker


_TRAIN = """
import json, sys
from bpeline.flows.cli.train import run_training
from bpeline.registry.tracking import beside, lookup
beside.available_processors = lambda: 2
summary = run_training({"paths": [sys.argv[1]], "name": "news", "vocab_size": 300})
print(json.dumps([summary.version, "mlflow" in sys.modules]))
"""


def test_a_training_does_not_import_mlflow(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("low lower lowest newest widest\n" * 400)
    done = subprocess.run(
        [sys.executable, "-c", _TRAIN, str(text)],
        cwd=ROOT,
        env={**os.environ, "BPELINE_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [1, False]
    assert len(open_registry(tmp_path / "home").tracker.versions("news")) == 1
