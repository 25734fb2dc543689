"""Killed, interrupted or cut off from MLflow: the same command goes on, to the same result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result
from flow_calls import train_tokenizer
from interruptions import SAVE, Interrupted
from published import copied, corpus_parts

from bpeline.flows.cli.main import told_of
from bpeline.flows.collect_garbage import collect_garbage
from bpeline.flows.resume import unfinished_run
from bpeline.registry import load_tokenizer
from bpeline.registry.closed_duckdb import raise_if_interrupted
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.errors import RegistryUnreachable, WorkspaceLocked

Command = Callable[..., Result]


def arguments(corpus: Path) -> tuple[str, ...]:
    return ("train", corpus.name, "--name", "news", "--vocab-size", "500")


@pytest.fixture(scope="module")
def unbegun(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with the texts of `corpus` and an empty workspace."""
    return folder_after(corpus_parts(english_and_code))


@pytest.fixture(scope="module")
def expected_digest(unbegun: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the tokenizer that nobody interrupts."""
    workspace = str(tmp_path_factory.mktemp("undisturbed"))
    return train_tokenizer([str(unbegun / "corpus")], "news", 500, workspace=workspace).digest


@pytest.fixture(scope="module")
def interrupted_once(
    interrupted: Interrupted, unbegun: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder whose training was killed when 100 merges were saved; to be copied."""
    folder = copied(unbegun, tmp_path_factory.mktemp("interrupted"))
    with contextlib.chdir(folder):
        killed = interrupted(*SAVE, 100, signal.SIGKILL, *arguments(folder / "corpus"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return folder


@pytest.mark.night
def test_killed_while_merging_the_same_command_continues(
    interrupted_once: Path, expected_digest: str, tmp_path: Path, bpeline: Command
) -> None:
    corpus = copied(interrupted_once, tmp_path) / "corpus"
    run = open_registry().catalogue.runs()[0]
    assert (run.state, run.step) == ("interrupted", "learn merges")

    again = bpeline(*arguments(corpus))
    assert again.exit_code == 0, again.output
    assert "100 of" in again.stderr
    assert "nothing read" in again.stderr
    assert load_tokenizer("news/1").digest == expected_digest
    catalogue = open_registry().catalogue
    assert [one.state for one in catalogue.runs()] == ["finished"]
    assert catalogue.runs()[0].id == run.id


ALGORITHMS = {
    "char-bpe": ("--merges", "150", "--joined", "--tie-break", "greatest-bytes"),
    "wordpiece": ("--vocab-size", "400", "--score", "gain"),
    "frequency-bpe": ("--merges", "120", "--sentences", "lines"),
}


@pytest.mark.night
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_continues_where_it_was_killed(
    interrupted: Interrupted, algorithm: str, corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    command = ("train", corpus.name, "--name", "news", "--algorithm", algorithm,
               *ALGORITHMS[algorithm])  # fmt: skip
    killed = interrupted(*SAVE, 40, signal.SIGKILL, *command)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert open_registry().catalogue.runs()[0].step == "learn merges"
    again = interrupted(*SAVE, 25, signal.SIGKILL, *command)
    assert again.returncode == -signal.SIGKILL, again.stderr
    resumed = bpeline("resume") if algorithm == "wordpiece" else bpeline(*command)
    assert resumed.exit_code == 0, resumed.output
    assert "learned before" in resumed.stderr
    assert "65 of" in resumed.stderr
    undisturbed = bpeline(*command, "--workspace", tmp_path / "undisturbed")
    assert undisturbed.exit_code == 0, undisturbed.output
    first, second = (
        load_tokenizer("news/1", workspace=place) for place in (None, tmp_path / "undisturbed")
    )
    assert first.digest == second.digest
    assert first.vocab == second.vocab


AUTO = ("--vocab-size", "auto", "--model-shape", "llama-3.2-1b", "--largest-size")
# The commands, and by command after how many saved merges each of two kills comes.
SUPERWORDS = {
    "superbpe": (
        (("train", "corpus", "--name", "news", "--vocab-size", "450"), (60, 90)),
        (
            ("derive", "superwords", "news/1", "--vocab-size", "500", "--transition-size", "440"),
            (20, 15),
        ),
    ),
    "a size to choose": ((("train", "corpus", "--name", "news", *AUTO, "1400"), (500, 400)),),
    "a size of superwords to choose": (
        (("train", "corpus", "--name", "news", "--vocab-size", "1100"), (400, 300)),
        (("derive", "superwords", "news/1", *AUTO, "1300"), (100, 60)),
    ),
}  # fmt: skip


@pytest.mark.night
@pytest.mark.parametrize("which", SUPERWORDS)
def test_superwords_and_chosen_sizes_go_on_where_they_were_killed(
    interrupted: Interrupted, which: str, corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    """Each is killed twice as it learns."""
    digests = list[str]()
    for command, kills in SUPERWORDS[which]:
        for number in kills:
            killed = interrupted(*SAVE, number, signal.SIGKILL, *command)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            runs = open_registry().catalogue.runs()
            assert [run.step for run in runs if run.state != "finished"] == ["learn merges"]
        again = bpeline(*command, "--json")
        assert again.exit_code == 0, again.output
        assert " learned before" in again.stderr or " from the checkpoint" in again.stderr
        digests.append(json.loads(again.stdout)["digest"])
    assert {run.state for run in open_registry().catalogue.runs()} == {"finished"}
    for (command, _), digest in zip(SUPERWORDS[which], digests, strict=True):
        undisturbed = bpeline(*command, "--json", "--workspace", tmp_path / "undisturbed")
        assert undisturbed.exit_code == 0, undisturbed.output
        assert json.loads(undisturbed.stdout)["digest"] == digest


@pytest.mark.night
def test_killed_while_merging_resume_continues(
    interrupted_once: Path, expected_digest: str, tmp_path: Path, bpeline: Command
) -> None:
    copied(interrupted_once, tmp_path)
    run = open_registry().catalogue.runs()[0]
    shown = bpeline("resume", "--list")
    assert run.id in shown.stdout
    assert "interrupted" in shown.stdout

    with contextlib.chdir(tmp_path / "corpus"):  # from wherever somebody types it
        resumed = bpeline("resume", "--json", "--workspace", tmp_path / ".bpeline")
    assert resumed.exit_code == 0, resumed.output
    assert "100 of" in resumed.stderr
    summary = json.loads(resumed.stdout)
    assert summary["run_id"] == run.id
    assert summary["digest"] == expected_digest
    assert '"published": []' in bpeline("resume", "--json").stdout
    finished = bpeline("resume", run.id)
    assert finished.exit_code == 2
    assert "finished" in finished.stderr


@pytest.mark.night
def test_killed_while_counting_no_chunk_is_counted_twice(
    interrupted: Interrupted, corpus: Path, expected_digest: str, bpeline: Command
) -> None:
    killed = interrupted(
        "bpeline.flows.counting.word_counting",
        "ChunkRecord",
        2,
        signal.SIGKILL,
        *arguments(corpus),
        "--threads=1",
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = bpeline(*arguments(corpus))
    assert again.exit_code == 0, again.output
    assert "2 of 3 chunks" in again.stderr
    assert load_tokenizer("news/1").digest == expected_digest


@pytest.mark.night
def test_killed_while_publishing_there_is_one_version_in_the_end(
    interrupted: Interrupted, corpus: Path, expected_digest: str, bpeline: Command
) -> None:
    killed = interrupted(
        "bpeline.registry.publishing.publish",
        "register_once",
        1,
        signal.SIGKILL,
        *arguments(corpus),
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "candidate" not in bpeline("versions").stdout
    resumed = bpeline("resume")
    assert resumed.exit_code == 0, resumed.output
    registry = open_registry()
    assert [row.number for row in registry.catalogue.registrations("news")] == [1]
    assert len(registry.tracker.versions("news")) == 1
    assert [run.state for run in registry.catalogue.runs()] == ["finished"]
    assert load_tokenizer("news@candidate").digest == expected_digest


COUNTED = ("bpeline.flows.counting.word_counting", "ChunkRecord")


@pytest.mark.night
@pytest.mark.parametrize(
    ("place", "number", "code", "said"),
    [(SAVE, signal.SIGINT, 130, "interrupted"), (COUNTED, signal.SIGTERM, 143, "terminated")],
)
def test_interrupted_it_says_how_to_go_on(
    interrupted: Interrupted,
    place: tuple[str, str],
    number: int,
    code: int,
    said: str,
    corpus: Path,
    bpeline: Command,
) -> None:
    ended = interrupted(*place, 2, number, *arguments(corpus))
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"{said}")
    assert open_registry().workspace.lock_holder() is None
    run = open_registry().catalogue.runs()[0]
    assert run.state == "interrupted"
    resumed = bpeline("resume", run.id[:6])
    assert resumed.exit_code == 0, resumed.output


@pytest.fixture
def mlflow_is_down(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """MLflow is a server that does not answer, until the function is called."""
    for name in ("MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")

    def mend() -> None:
        monkeypatch.delenv("MLFLOW_TRACKING_URI")

    return mend


@pytest.mark.night
def test_without_mlflow_the_result_waits_in_the_outbox(
    corpus: Path, bpeline: Command, mlflow_is_down: Callable[[], None]
) -> None:
    cut_off = bpeline(*arguments(corpus))
    assert cut_off.exit_code == 1, cut_off.output
    assert "bpeline resume" in cut_off.stderr
    assert "Traceback" not in cut_off.output
    run = open_registry().catalogue.runs()[0]
    assert run.state == "unpublished"
    assert bpeline("resume").exit_code == 1, "still down"
    doctor = bpeline("doctor")
    assert doctor.exit_code == 1
    assert "1 not published" in doctor.stdout

    mlflow_is_down()
    resumed = bpeline("resume")
    assert resumed.exit_code == 0, resumed.output
    assert "news/1" in resumed.stdout
    assert open_registry().catalogue.run(run.id).state == "finished"
    assert '"published": []' in bpeline("resume", "--json").stdout
    assert load_tokenizer("news@candidate").vocab_size == 500


@pytest.mark.night
def test_without_mlflow_the_same_command_publishes_later(
    corpus: Path, mlflow_is_down: Callable[[], None]
) -> None:
    with pytest.raises(RegistryUnreachable):
        train_tokenizer([str(corpus)], "news", 400)
    mlflow_is_down()
    summary = train_tokenizer([str(corpus)], "news", 400)
    assert summary.reference == "news/1"
    registry = open_registry()
    assert [run.state for run in registry.catalogue.runs()] == ["finished"]
    assert list(registry.workspace.outbox.iterdir()) == []


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_a_run_at_work_is_named_and_not_started_again() -> None:
    open_registry().catalogue.start_run("busy", {})
    with pytest.raises(WorkspaceLocked, match=f"{os.getpid()}"):
        unfinished_run(None)


@pytest.mark.usefixtures("corpus")
def test_a_failed_run_is_not_continued_behind_a_publication() -> None:
    catalogue = open_registry().catalogue
    run = catalogue.start_run("news", {})
    catalogue.end_run(run.id, "failed", "its corpus is not UTF-8")
    assert unfinished_run(None, failed_too=False) is None
    chosen = unfinished_run(None)
    assert chosen is not None
    assert chosen.id == run.id


def test_too_little_memory_is_told_as_an_error_that_keeps_what_was_finished() -> None:
    for error in (MemoryError(), MemoryError("Unable to allocate 8.00 GiB")):
        told = told_of(error)
        assert told is not None
        assert "memory" in told.happened
        assert not told.happened.endswith(": ")
        assert "--threads" in told.next_step


def test_ctrl_c_inside_duckdb_is_an_interruption() -> None:
    for said in ("Query interrupted", "Arrow data failed: KeyboardInterrupt: ", "Terminated: ",
                 "TerminationSignal: "):  # fmt: skip
        with pytest.raises(KeyboardInterrupt):
            raise_if_interrupted(RuntimeError(said))
    raise_if_interrupted(RuntimeError("something else"))


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_what_a_killed_writer_left_is_gone_after_the_next_run(bpeline: Command) -> None:
    workspace = open_registry().workspace
    spill = workspace.temporary / "combine-dead"
    spill.mkdir(parents=True)
    (spill / "duckdb_temp_storage.tmp").write_bytes(b"spilled")
    half = workspace.shards / "ab" / ".tmp-0123456789ab-shard.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half a shard")
    arguments = ("train", "corpus", "--name", "news", "--vocab-size", 300)
    assert bpeline(*arguments).exit_code == 0
    assert not half.exists()
    assert list(workspace.temporary.iterdir()) == []


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_a_run_interrupted_while_publishing_is_finished_by_the_outbox(
    interrupted: Interrupted, bpeline: Command
) -> None:
    publish = ("bpeline.registry.publishing.publish", "register_once")
    arguments = ("train", "corpus", "--name", "news", "--vocab-size", "300")
    done = interrupted(*publish, 1, signal.SIGINT, *arguments)
    assert done.returncode == 130, done.stderr
    resumed = bpeline("resume")
    assert resumed.exit_code == 0, resumed.output
    assert "news/1" in resumed.stdout
    assert open_registry().catalogue.unfinished_runs() == []


def test_an_interruption_that_the_standard_library_hides_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen in `threading`: Ctrl-C inside of a lock became "release unlocked lock"."""

    def cut_short(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr("bpeline.flows.collect_garbage.open_registry", cut_short)
    with pytest.raises(KeyboardInterrupt):
        collect_garbage.fn()


def test_ctrl_c_at_a_question_is_an_interruption(
    bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_question: str) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise click.Abort from None  # as click's prompts do

    monkeypatch.setattr("bpeline.flows.serving.local_server.open_registry", lambda: ask("Kill it?"))
    done = bpeline("serve", "--mlflow-only")
    assert done.exit_code == 130
    assert "interrupted" in done.stderr


@pytest.mark.night
@pytest.mark.parametrize(
    "imported",
    ["bpeline.flows.cli.main", "click", "bpeline.flows.cli.versions", "bpeline.registry"],
)
def test_ctrl_c_while_a_command_is_loaded_is_one_line(imported: str) -> None:
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {imported!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from bpeline.script import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, "versions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    (line,) = done.stderr.splitlines()
    assert line.startswith("interrupted")
    assert done.stdout == ""
