"""The seam between steps and who does them: names, parcels, what a worker must prove."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import spawn
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from bpeline.flows.counting.chunk_plan import plan_reading
from bpeline.flows.counting.word_counting import count_chunks
from bpeline.flows.engines import dask_engine, errands
from bpeline.flows.engines import engine as engines
from bpeline.flows.engines.dask_engine import MOST_PARCELS, PARCEL_BYTES, DaskEngine, parcels_of
from bpeline.flows.engines.engine import Threads, check_engine, working
from bpeline.flows.engines.errands import Errand, errand, program_digest, run_parcel
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.flows.running import progress
from bpeline.flows.running.steps import MOST_TASKS, Stopped
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import find_source_files, sources_of
from bpeline.tokenizer_core.errors import InvalidOption, StorageError, WorkerLost, WorkerRefused
from bpeline.tokenizer_core.splitting import SplitPattern


@pytest.mark.parametrize(
    ("size", "workers", "parcels"),
    [
        (3 << 20, 4, 32),  # more than chunks: each file or chunk by itself
        (10**9, 4, 32),
        (10**9, 2, 16),
        (10**11, 16, 373),
        (10**12, 64, 3726),  # thousands, not millions
        (10**13, 64, 4096),
        (10**15, 1000, 4096),
    ],
)
def test_parcels_are_some_for_each_worker_and_thousands_for_a_terabyte(
    size: int, workers: int, parcels: int
) -> None:
    assert parcels_of(size, workers) == parcels
    assert parcels <= MOST_PARCELS
    if parcels not in (MOST_PARCELS, 8 * workers):
        assert size / parcels <= PARCEL_BYTES


@pytest.mark.parametrize(
    "name", ["local", "dask", "tcp://127.0.0.1:8786", "tls://host.example:1", "tcp://[::1]:8786"]
)
def test_engines_that_are_accepted(name: str) -> None:
    check_engine(name)


@pytest.mark.parametrize(
    "name",
    ["", "Dask", "spark", "127.0.0.1:8786", "tcp://", "tcp://host", "http://a:1", "tcp://a:b"],
)
def test_others_are_refused_with_what_is_accepted(
    name: str, bpeline: Callable[..., Result], tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption) as error:
        check_engine(name)
    assert "tcp://10.0.0.5:8786" in error.value.accepted
    assert "--engine dask" in error.value.next_step
    for command in (
        ["train", "a.txt", "--name", "a"],
        ["encode", "a/1", "a.txt", "-o", tmp_path / "out"],
    ):
        result = bpeline(*command, "--engine", name)
        assert result.exit_code == 2
        shown = name.replace("a:b", "***")  # which might be a name and a password
        assert f"'{shown}" in result.output
        assert "--engine tcp://HOST:PORT`" in result.output


def test_an_engine_is_for_files(bpeline: Callable[..., Result]) -> None:
    result = bpeline("encode", "a/1", "a text", "--engine", "dask")
    assert result.exit_code == 2
    assert "--engine" in result.output


def test_without_distributed_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidOption) as error, working("dask", 2, tmp_path):
        pass
    assert error.value.next_step == "type `pip install 'bpeline[cluster]'`"


def test_threads_are_the_engine_unless_another_is_at_work(tmp_path: Path) -> None:
    assert isinstance(engines.current(2), Threads)
    with working("local", 2, tmp_path) as engine:
        assert engines.current(7) is engine
        assert engine.parcels(10**12) == MOST_TASKS
    assert engines.current(2) is not engine


def test_no_cluster_is_started_before_there_is_a_parcel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(DaskEngine, "_connect", lambda _: pytest.fail("connected"))
    for name in ("dask", "tcp://127.0.0.1:1"):
        with working(name, 2, tmp_path) as engine:
            assert engine.parcels(0) == 1
            assert engine.map(_step(), [], named=str, prepare=pytest.fail) == []


def test_an_address_where_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.3)
    with (
        pytest.raises(WorkerLost, match="Dask") as error,
        working("tcp://127.0.0.1:9", None, tmp_path) as engine,
    ):
        engine.parcels(1)
    assert "dask scheduler" in error.value.next_step


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_resume_advises_no_option_that_it_lacks(
    bpeline: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.3)
    command = ("train", "corpus", "--name", "news", "--vocab-size", 300)
    trained = bpeline(*command, "--engine", "tcp://127.0.0.1:9")
    resumed = bpeline("resume")
    assert "type --engine dask" in trained.stderr
    assert "`bpeline resume`" in resumed.stderr
    assert bpeline(*command, "--engine", "local").exit_code == 0  # as it says
    assert '"published": []' in bpeline("resume", "--json").stdout


def test_without_a_python_there_is_no_cluster_here(tmp_path: Path, without_python: Path) -> None:
    with (
        pytest.raises(WorkerLost, match=str(without_python)) as error,
        working("dask", 1, tmp_path) as engine,
    ):
        engine.map(_step(), range(2), named=str, prepare=str)
    assert "--engine local" in error.value.next_step


@pytest.mark.parametrize("keeps_python", [False, True])
def test_workers_here_are_begun_by_a_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_python: bool
) -> None:
    """multiprocessing keeps what ``sys.executable`` was when it was imported."""
    kept = tmp_path / ("python3" if keeps_python else "holds_python")
    kept.touch(0o700)
    begun_by = []

    def begin(**_: object) -> None:
        begun_by.append(os.fsdecode(spawn.get_executable()))
        raise OSError("no processes")

    monkeypatch.setattr(dask_engine, "LocalCluster", begin)
    monkeypatch.setattr(spawn, "_python_exe", os.fsencode(kept))
    with (
        pytest.raises(WorkerLost, match="no processes"),
        working("dask", 1, tmp_path) as engine,
    ):
        engine.map(_step(), range(2), named=str, prepare=str)
    assert begun_by == [str(kept) if keeps_python else sys.executable]
    assert os.fsdecode(spawn.get_executable()) == str(kept)


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_where_somebody_else_listens(
    greeting: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Dask's client waited for ever for the silent, and believed others' sizes of messages."""
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"

        def answer() -> None:
            asking, _ = listening.accept()
            with asking, suppress(OSError):  # who asked may hang up first
                asking.sendall(greeting)
                asking.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        with (
            pytest.raises(WorkerLost, match="Dask"),
            working(address, None, tmp_path) as engine,
        ):
            engine.parcels(1)


def test_where_the_work_is_done_is_no_part_of_what_is_asked(tmp_path: Path) -> None:
    local, dask = (_request(tmp_path, engine=engine) for engine in ("local", "dask"))
    assert "engine" not in local.as_config()  # as runs before there were engines
    assert dask.as_config()["engine"] == "dask"
    assert local.same_as(dask.as_config())
    assert dask.same_as(local.as_config())


@pytest.fixture
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "get_worker", lambda: SimpleNamespace(address="tcp://a:1"))


@pytest.mark.usefixtures("_in_a_worker")
def test_a_worker_with_another_program_is_refused(tmp_path: Path) -> None:
    with errand(tmp_path, nothing) as good:
        good.admit("here")
        other = Errand(good.path, "another", "0" * 64, pytest.fail)
        with pytest.raises(WorkerRefused, match="version"):
            run_parcel(1, other, _never, {})


class Client:
    """A scheduler whose workers answer as they are told."""

    status = "running"

    def __init__(self, *answers: object) -> None:
        self.answers = answers

    def wait_for_workers(self, number: int, timeout: float) -> None:
        pass

    def run(self, function: Any, errand: Errand, on_error: str) -> dict[str, object]:
        return {f"tcp://127.0.0.1:{number}": one for number, one in enumerate(self.answers)}


def test_workers_that_cannot_do_it_are_left_out_while_others_can(tmp_path: Path) -> None:
    absent = ModuleNotFoundError("No module named 'bpeline'")
    lost = ConnectionError("it died")
    refused = WorkerRefused("tcp://127.0.0.1:2 cannot read s3://store", "a key", "give it one")
    with DaskEngine("tcp://a:1", 1, tmp_path) as engine, errand(tmp_path, nothing) as asked:
        engine._connected = Client(None, lost)
        assert engine._able(asked) is None
        engine._connected = Client(absent, None, refused, None)
        with progress.listening(Notes()) as heard:
            assert engine._able(asked) == ["tcp://127.0.0.1:1", "tcp://127.0.0.1:3"]
            assert engine._able(asked) == ["tcp://127.0.0.1:1", "tcp://127.0.0.1:3"]
        assert isinstance(heard, Notes)
        assert ["tcp://127.0.0.1:0" in note for note in heard.notes] == [True, False]
        assert ["tcp://127.0.0.1:2" in note for note in heard.notes] == [False, True]
        engine._connected = Client(absent, absent)
        with pytest.raises(WorkerRefused, match=r"tcp://127\.0\.0\.1:0 cannot") as error:
            engine._able(asked)
        assert "bpeline[cluster]" in error.value.next_step


def test_workers_that_die_while_they_are_prepared_are_given_up(tmp_path: Path) -> None:
    with (
        DaskEngine("tcp://a:1", 1, tmp_path, patience=0.1) as engine,
        errand(tmp_path, nothing) as asked,
    ):
        engine._connected = Client(ConnectionError("it died"))
        with pytest.raises(WorkerLost):
            engine._able(asked)


class Notes(progress.Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.usefixtures("_in_a_worker")
def test_an_error_names_where_it_happened(tmp_path: Path) -> None:
    def fail(_: Any) -> None:
        raise StorageError("the disk is full", "room", "make some")

    with errand(tmp_path, nothing) as asked, pytest.raises(StorageError) as error:
        run_parcel(1, asked, fail, {})
    assert f"tcp://a:1 on {os.uname().nodename}" in error.value.happened
    assert pickle.loads(pickle.dumps(error.value)).happened == error.value.happened
    assert str(error.value).splitlines()[1:] == ["room", "make some"]


@pytest.mark.usefixtures("_in_a_worker")
def test_a_worker_that_may_not_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    def prepare() -> None:
        raise StorageError("s3://store cannot be read", "a key", "give it one")

    with errand(tmp_path, prepare) as asked, pytest.raises(WorkerRefused) as error:
        run_parcel(1, asked, _never, {})
    assert "tcp://a:1" in error.value.happened
    assert "s3://store" in error.value.happened
    assert error.value.next_step == "give it one"


@pytest.mark.parametrize("what", ["sources", "regex", "Unicode"])
def test_the_program_is_its_sources_its_libraries_and_unicode(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = program_digest.__wrapped__()
    assert before == program_digest.__wrapped__()
    if what == "sources":
        digest = errands.digest_of_bytes
        monkeypatch.setattr(errands, "digest_of_bytes", lambda content: digest(content + b"#"))
    elif what == "regex":
        monkeypatch.setattr(errands, "version", lambda name: "0")
    else:
        monkeypatch.setattr(errands, "unicode_classes_digest", lambda: "0")
    assert program_digest.__wrapped__() != before


@pytest.mark.usefixtures("_in_a_worker")
def test_a_worker_that_does_not_see_our_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "_SECONDS_TO_APPEAR", 0.0)
    with errand(tmp_path, pytest.fail) as good:
        elsewhere = replace(good, path=tmp_path / "another machine" / good.path.name)
        with pytest.raises(WorkerRefused) as error:
            run_parcel(1, elsewhere, _never, {})
        assert error.value.next_step
        good.path.write_text("of another run")
        with pytest.raises(WorkerRefused):
            good.admit("here")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_in_a_worker")
def test_parcels_stop_when_nobody_waits_any_more(tmp_path: Path) -> None:
    from bpeline.flows.running.steps import raise_if_stopped

    def work(_: Any) -> None:
        raise_if_stopped()
        asked.path.unlink()
        raise_if_stopped()

    with errand(tmp_path, nothing) as asked, pytest.raises(Stopped):
        run_parcel(1, asked, work, {})


@pytest.mark.usefixtures("_in_a_worker")
def test_a_process_is_prepared_once_for_an_errand(tmp_path: Path) -> None:
    prepared: list[int] = []
    with errand(tmp_path, lambda: prepared.append(1)) as asked:
        results = [run_parcel(number, asked, abs, {})[0] for number in (-1, -2)]
    assert (results, prepared) == ([1, 2], [1])


def nothing() -> None:
    pass


def _never(_: Any) -> None:
    pytest.fail("a worker that was refused worked")


def _step() -> Any:
    from cluster_steps import tell

    return tell


def _request(tmp_path: Path, **changed: Any) -> TrainingRequest:
    given = {"paths": [str(tmp_path / "a.txt")], "name": "a", "workers": 2}
    return TrainingRequest.checked(**given | changed)


@pytest.mark.parametrize(
    ("sizes", "pattern", "threads"),
    [
        ([1000] * 9, "gpt2", 1),
        ([1000] * 8 + [400_000], "gpt2", 2),
        ([1000] * 9, r"(?<=a)b|[^b]+|b", 2),  # cut by other processes
    ],
)
def test_small_files_are_counted_by_one_thread(
    sizes: list[int],
    pattern: str,
    threads: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.txt").write_text("ab cd\n" * (size // 6))
    found = find_source_files(sources_of(tmp_path))
    request = _request(tmp_path, pattern=pattern, workers=2)
    taken = []
    working_threads = engines.map_threads

    def told(step: Any, items: Any, workers: int, *rest: Any, **shared: Any) -> Any:
        taken.append(workers)
        return working_threads(step, items, workers, *rest, **shared)

    monkeypatch.setattr(engines, "map_threads", told)
    reading = ReadOptions(SplitPattern.parse(pattern))
    plan = plan_reading(found, {}, reading, Threads(2))
    corpus = count_chunks(plan, request, Workspace.open(tmp_path / "workspace"))
    assert corpus.corpus_bytes == sum(file.size for file in found)
    assert taken == [threads]
