"""A real Dask cluster of three processes: the same results as here, whoever dies meanwhile."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import cluster_steps
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import Result

from bpeline import flows
from bpeline.flows.counting.chunk_plan import plan_reading
from bpeline.flows.counting.combining import add_up
from bpeline.flows.counting.word_counting import count_chunks, placed_shards
from bpeline.flows.encoding import encode_files, pack_beside
from bpeline.flows.engines import errands
from bpeline.flows.engines.dask_engine import DaskEngine
from bpeline.flows.engines.engine import working
from bpeline.flows.running import progress
from bpeline.registry.opening import open_registry
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidUtf8, WorkerLost, WorkerRefused
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

END = "<|endoftext|>"
WORKERS = 3
ROOT = Path(flows.__file__).parents[1]

pytestmark = pytest.mark.night


@pytest.fixture(autouse=True)
def _lasting(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers begin where this process is, and outlive a test and its directory.

    In a directory that is gone, Python 3.13.0 cannot look up a codec.
    """
    monkeypatch.chdir(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three processes, which a nanny starts anew when they die."""
    engine = DaskEngine(None, WORKERS, Path("/nowhere"))
    started = engine._start()
    yield started
    engine.__exit__(None, None, None)


@pytest.fixture
def engine(cluster: Any, tmp_path: Path) -> Iterator[DaskEngine]:
    """The cluster as an engine, by its address, with all of its workers."""
    cluster.scale(WORKERS)
    place = tmp_path / "meeting"
    place.mkdir()
    with DaskEngine(cluster.scheduler_address, 1, place, patience=120) as engine:
        try:
            engine._client().wait_for_workers(WORKERS, timeout=20)
        except TimeoutError:  # a nanny whose worker was killed may have given up
            cluster.scale(0)
            cluster.scale(WORKERS)
            engine._client().wait_for_workers(WORKERS, timeout=120)
        yield engine
    assert list(place.iterdir()) == []


def mapped(engine: DaskEngine, step: Callable[..., Any], items: Any, **shared: Any) -> list[Any]:
    return engine.map(step, items, named=lambda item: f"item {item}", prepare=nothing, **shared)


def nothing() -> None:
    pass


class Heard(progress.Progress):
    """Remembers what was said, and does something at the first progress."""

    def __init__(self, at_first: Callable[[], None] = nothing) -> None:
        self.amounts: list[int] = []
        self.notes: list[str] = []
        self.at_first = at_first

    def step_advanced(self, name: str, amount: int) -> None:
        if not self.amounts:
            self.at_first()
        self.amounts.append(amount)

    def note(self, text: str) -> None:
        self.notes.append(text)


# ---- parcels -----------------------------------------------------------------------------------


def test_results_come_in_order_from_several_processes_with_their_progress(
    engine: DaskEngine,
) -> None:
    with progress.listening(Heard()) as heard:
        results = mapped(engine, cluster_steps.tell, range(24), begin=100)
    assert [number for number, _ in results] == list(range(100, 124))
    processes = {process for _, process in results}
    assert len(processes) == WORKERS
    assert os.getpid() not in processes
    assert isinstance(heard, Heard)
    assert heard.amounts == [10] * 24
    assert engine.parcels(10**9) == 8 * WORKERS


def test_the_first_error_comes_back_as_it_is_and_stops_the_rest(
    engine: DaskEngine, tmp_path: Path
) -> None:
    with pytest.raises(InvalidUtf8) as error:
        mapped(engine, cluster_steps.fail, range(9), marks=tmp_path)
    assert error.value.happened.startswith("a.txt has a byte (in the worker tcp://127.0.0.1:")
    assert os.uname().nodename in error.value.happened
    assert error.value.accepted == "UTF-8"
    assert error.value.next_step == "look at it"
    _until(lambda: len(list(tmp_path.glob("stopped-*"))) >= WORKERS - 1)


def test_only_this_machine_reaches_a_cluster_of_our_own(engine: DaskEngine) -> None:
    mapped(engine, cluster_steps.tell, range(WORKERS))
    me = psutil.Process()
    listening = []
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # one of another test may be about to end
            for connection in process.net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    listening.append(connection.laddr.ip)
    assert len(listening) > WORKERS
    assert set(listening) == {"127.0.0.1"}


# ---- workers that do not fit -------------------------------------------------------------------


def test_workers_with_another_program_are_refused_before_they_count(
    engine: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "program_digest", lambda: "0" * 64)
    with pytest.raises(WorkerRefused):
        mapped(engine, cluster_steps.tell, [1])


def test_a_worker_that_may_not_read_is_left_out_and_named(
    engine: DaskEngine, tmp_path: Path
) -> None:
    with progress.listening(Heard()) as heard:
        found = engine.map(
            cluster_steps.tell,
            range(24),
            named=str,
            prepare=partial(cluster_steps.refuse_the_first, tmp_path / "first"),
        )
    processes = {process for _, process in found}
    assert len(processes) == WORKERS - 1
    assert int((tmp_path / "first").read_text()) not in processes
    assert isinstance(heard, Heard)
    (note,) = heard.notes
    for said in ("tcp://127.0.0.1", os.uname().nodename, "s3://store"):
        assert said in note


def test_parcels_are_shared_out_anew_where_all_that_could_do_them_died(
    engine: DaskEngine, tmp_path: Path
) -> None:
    places = [tmp_path / "first", tmp_path / "second"]
    found = engine.map(
        cluster_steps.die_once,
        range(4),
        named=str,
        prepare=partial(cluster_steps.refuse_the_first, *places),
        marks=tmp_path,
    )
    assert found == [0, 1, 2, 3]


def test_what_fails_once_is_tried_again(engine: DaskEngine, tmp_path: Path) -> None:
    assert mapped(engine, cluster_steps.fail_once, range(4), marks=tmp_path) == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("[0-9]"))) == 4


def test_workers_that_join_later_are_prepared_too(
    cluster: Any, engine: DaskEngine, tmp_path: Path
) -> None:
    (tmp_path / "marks").mkdir()
    with progress.listening(Heard(at_first=lambda: cluster.scale(WORKERS + 1))):
        marks = engine.map(
            cluster_steps.wait_for_marks,
            range(11),  # more than there are workers: the new one gets some
            named=str,
            prepare=partial(cluster_steps.leave_a_mark, tmp_path / "marks"),
            marks=tmp_path / "marks",
            wanted=WORKERS + 1,
        )
    assert marks[0] == WORKERS
    assert set(marks[1:]) == {WORKERS + 1}


# ---- workers that die --------------------------------------------------------------------------


def test_parcels_of_a_worker_that_dies_are_done_by_others(
    engine: DaskEngine, tmp_path: Path
) -> None:
    assert mapped(engine, cluster_steps.die_once, range(4), marks=tmp_path) == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("[0-9]"))) == 2


def test_a_parcel_that_kills_its_workers_is_named(engine: DaskEngine) -> None:
    with pytest.raises(WorkerLost, match=r"\b4\b.*\b7\b") as error:
        mapped(engine, cluster_steps.die_always, [7])
    assert "--table-memory" in error.value.next_step


def test_a_cluster_without_workers_is_given_up(cluster: Any, engine: DaskEngine) -> None:
    engine._patience = 1.0
    leave = Heard(at_first=lambda: cluster.scale(0))
    begin = time.monotonic()
    with (
        progress.listening(leave),
        pytest.raises(WorkerLost, match="1 seconds"),
    ):
        mapped(engine, cluster_steps.wait, [0.0, *[60.0] * 6])
    assert time.monotonic() - begin < 55
    assert any("is gone" in note for note in leave.notes)


def test_a_scheduler_that_goes_is_an_error(tmp_path: Path) -> None:
    with DaskEngine(None, 1, tmp_path, patience=1.0) as engine:
        started = engine._client().cluster

        def end() -> None:
            with suppress(TimeoutError):
                started.close(1.0)

        leave = Heard(at_first=end)
        begin = time.monotonic()
        with progress.listening(leave), pytest.raises(WorkerLost):
            mapped(engine, cluster_steps.wait, [0.0, 60.0])
        assert time.monotonic() - begin < 55


@contextmanager
def scheduler(
    place: Path, workers: int = 0, *, knows_steps: bool = True
) -> Iterator[tuple[Any, str]]:
    """The process of a scheduler, which may lack what workers do, and its address."""
    file = place / "scheduler.json"
    places = (ROOT, Path(cluster_steps.__file__).parent)
    steps = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    arguments = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    with ExitStack() as processes:

        def start(*command: str, environment: dict[str, str]) -> Any:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command], env=environment, stderr=subprocess.DEVNULL
            )
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        known = steps if knows_steps else dict(os.environ)
        started = start("scheduler", "--no-dashboard", *arguments, environment=known)
        _until(file.exists)
        address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            start("worker", address, "--no-nanny", "--no-dashboard", environment=steps)
        yield started, address


# Before a worker is there; while none is; while one is at work.
@pytest.mark.parametrize(("seconds", "workers"), [(0.0, 0), (2.0, 0), (0.0, 1)])
def test_a_scheduler_that_is_killed_is_one_error(
    tmp_path: Path, seconds: float, workers: int
) -> None:
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    handler.setLevel(logging.ERROR)
    logging.getLogger("distributed").addHandler(handler)
    (tmp_path / "meeting").mkdir()
    try:
        with (
            scheduler(tmp_path, workers) as (process, address),
            DaskEngine(address, 1, tmp_path / "meeting", patience=30) as engine,
            progress.listening(Heard(at_first=process.kill)),
        ):
            engine._client()
            if not workers:
                threading.Timer(seconds, process.kill).start()
            with pytest.raises(WorkerLost, match="scheduler"):
                mapped(engine, cluster_steps.wait, [0.0, *[60.0] * 9])
    finally:
        logging.getLogger("distributed").removeHandler(handler)
    assert logged.getvalue() == ""


def test_a_scheduler_that_lacks_the_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meeting").mkdir()
    with (
        scheduler(tmp_path, 1, knows_steps=False) as (_, address),
        DaskEngine(address, 1, tmp_path / "meeting", patience=30) as engine,
        pytest.raises(WorkerRefused, match="scheduler"),
    ):
        mapped(engine, cluster_steps.wait, [0.0])


def test_workers_import_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("signal", "typing", "types"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('of another program')")
    monkeypatch.chdir(tmp_path)
    with DaskEngine(None, 1, tmp_path) as engine:
        assert mapped(engine, cluster_steps.wait, [0.0])


# ---- counting and encoding ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, english_and_code: str) -> Path:
    """Thirty small files and, beside them, one with many documents, also compressed."""
    folder = tmp_path_factory.mktemp("files")
    small = folder / "small"
    small.mkdir()
    for number in range(30):
        begin = number * 20_000
        (small / f"{number:02}.txt").write_text(english_and_code[begin : begin + 30_000])
    documents = END.join(
        english_and_code[begin : begin + 5_000] for begin in range(0, 900_000, 5_000)
    )
    (folder / "documents.txt").write_text(documents)
    (folder / "packed.txt.zst").write_bytes(zstandard.compress(documents[300_000:].encode()))
    (folder / "lines.jsonl").write_text('{"text": "one more line"}\n' * 4000)
    return folder


@pytest.fixture
def request_for(tmp_path: Path) -> Any:
    """A training request, as far as counting and adding up look at it."""
    from types import SimpleNamespace

    from bpeline.tokenizer_core.corpus.reading import ReadOptions
    from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

    reading = ReadOptions(SplitPattern.named("gpt2"), (END,), held_out=0.02)
    return SimpleNamespace(
        reading=reading, workers=2, table_memory=64, paths=("files",), sources=(), counts=()
    )


def counted(folder: Path, root: Path, request: Any, engine: str, heard: Heard) -> Any:
    """The table, the places of all chunks and their shards' statistics; counted from nothing."""
    workspace = Workspace.open(root)
    with working(engine, 2, workspace.temporary) as at_work, progress.listening(heard):
        plan = plan_reading(find_source_files([Source(str(folder))]), {}, request.reading, at_work)
        corpus = count_chunks(plan, request, workspace)
        words = add_up(corpus, request, workspace)
    assert list(workspace.temporary.iterdir()) == []
    return words.table, placed_shards(corpus), words.seen, WordCountStore(workspace), corpus


def test_counts_are_the_same_though_a_worker_is_killed_meanwhile(
    cluster: Any,
    engine: DaskEngine,
    files: Path,
    request_for: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kill_one() -> None:
        victim = next(iter(cluster.workers.values())).process.process.pid
        os.kill(victim, signal.SIGKILL)

    table, places, seen, _, _ = counted(files, tmp_path / "a", request_for, "local", Heard())
    heard = Heard(at_first=kill_one)
    address = cluster.scheduler_address
    far, far_places, far_seen, store, corpus = counted(
        files, tmp_path / "b", request_for, address, heard
    )
    assert far.counts_digest == table.counts_digest
    assert (far.key, far.rows, far.total) == (table.key, table.rows, table.total)
    assert (far_places, far_seen) == (places, seen)
    assert sum(heard.amounts) == corpus.corpus_bytes
    reread = store.open_table(far)
    assert reread.digest == table.counts_digest
    assert corpus.reused < len(places)

    again = counted(files, tmp_path / "b", request_for, address, Heard())
    assert again[0].reused
    assert again[4].reused == len(places)


@pytest.fixture(scope="module")
def tokenizer(english_and_code: str) -> Tokenizer:
    words: dict[bytes, int] = {}
    for word in english_and_code[:200_000].split(" "):
        words[f" {word}".encode()] = words.get(f" {word}".encode(), 0) + 1
    return train_bpe(WordCounts.from_mapping(words), 600, special_tokens=[END])


@pytest.mark.parametrize("format", ["bin", "megatron", "parquet"])
def test_token_shards_are_the_same_byte_for_byte(
    format: str, cluster: Any, engine: DaskEngine, files: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:

    options: dict[str, Any] = {
        "separator": END,
        "end_of_text": END,
        "shard_bytes": 100_000,
        "format": format,
    }
    here, there = tmp_path / "here", tmp_path / "there"
    tokenizer.encode_files([files], here, **options)
    names: list[str] = []
    encoded = encode_files(
        tokenizer,
        [files],
        there,
        cluster.scheduler_address,
        there,
        on_shard=lambda record: names.append(record.name),
        **options,
    )
    expected = {path.name: path.read_bytes() for path in here.iterdir()}
    assert {path.name: path.read_bytes() for path in there.iterdir()} == expected
    assert names == [record.name for record in encoded.records]
    assert len(names) > 15

    (there / f"{names[3]}.json").unlink()  # a shard that a killed run did not finish
    changed = {path.name: path.stat().st_mtime_ns for path in there.iterdir()}
    encode_files(tokenizer, [files], there, cluster.scheduler_address, there, **options)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == expected
    kept = [name for name, at in changed.items() if (there / name).stat().st_mtime_ns == at]
    assert len(kept) == len(changed) - len(encoded.records[3].files) - 1  # and the manifest


def test_packed_sequences_are_the_same_byte_for_byte(
    cluster: Any, engine: DaskEngine, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [{"text": f"row {n} " * (n % 50)} for n in range(3_000)]
    for part in range(3):
        table = pa.Table.from_pylist(rows[part::3])
        pq.write_table(table, tmp_path / f"part-{part}.parquet", row_group_size=100)
    files = [str(tmp_path / "part-*.parquet")]
    options: dict[str, Any] = {"format": "parquet", "shard_bytes": 50_000}
    here = tokenizer.encode_files(files, tmp_path / "here", **options)
    there = encode_files(
        tokenizer, files, tmp_path / "there", cluster.scheduler_address, tmp_path, **options
    )
    assert contents(there.path) == contents(here.path)
    packed, notes = pack_beside(here, 64, 5, "local", None, here.path)
    elsewhere, said = pack_beside(there, 64, 5, cluster.scheduler_address, None, there.path)
    assert contents(elsewhere.path) == contents(packed.path)
    assert len(elsewhere) > 1_000
    assert [note.partition(":")[2] for note in said] == [note.partition(":")[2] for note in notes]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ---- Ctrl-C ------------------------------------------------------------------------------------

SLOWLY = r"\p{L}+(?=\s)|\p{L}+|\s+|[^\s\p{L}]+"  # without a kernel: looks ahead


def test_ctrl_c_ends_all_processes_and_the_same_command_goes_on(
    tmp_path: Path,
    english_and_code: str,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(24):
        (folder / f"{number:02}.txt").write_text(english_and_code[number * 20_000 :][:400_000])
    command = ["train", "corpus", "--name", "news", "--vocab-size", "400", "--pattern", SLOWLY]
    # Whoever runs the tests in the background may have had them ignore interruptions.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = listen + "from bpeline.flows.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *command, "--engine", "dask", "--threads", "2"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        shards = tmp_path / ".bpeline" / "shards"
        _until(lambda: process.poll() is not None or any(shards.glob("*/*.json")), 120)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert stderr.strip().splitlines()[-1].startswith("interrupted")
    _until(lambda: process.pid not in {_session_of(one.pid) for one in psutil.process_iter()})

    monkeypatch.chdir(tmp_path)
    again = bpeline(*command)
    assert again.exit_code == 0, again.output
    assert "counts reused" in again.stderr
    (run,) = open_registry().catalogue.runs()
    assert run.state == "finished"


def _session_of(process: int) -> int:
    try:
        return os.getsid(process)
    except OSError:
        return 0


def _until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
