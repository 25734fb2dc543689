"""A Prefect server that is killed during a run, or killed and started again: data needs neither."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_calls import train_tokenizer
from prefect_server import OwnServer, own_server

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry

pytestmark = pytest.mark.night

LONGEST = 120.0  # seconds: a minute to give the server up, and the training itself

# Runs the command line; the server is killed when the first chunk is counted.
PROGRAM = """
import os, sys
from bpeline.flows.counting import word_counting
victim = int(sys.argv.pop(1))
original = word_counting.count_chunk
def killing(*arguments, **options):
    word_counting.count_chunk = original
    os.kill(victim, 9)
    return original(*arguments, **options)
word_counting.count_chunk = killing
from bpeline.flows.cli.main import main
main()
"""


def train(server: OwnServer, corpus: Path, **environment: str) -> tuple[set[str], str]:
    """Train while the server is killed; the states of runs in the catalogue, and what was said."""
    assert server.process is not None
    asked = ["train", str(corpus), "--name", "news", "--vocab-size", "500"]
    command = [sys.executable, "-c", PROGRAM, str(server.process.pid), *asked]
    ended = server.run(command, corpus.parent, **environment)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    runs = open_registry(corpus.parent / ".bpeline").catalogue.runs()
    return {run.state for run in runs}, ended.stderr


def require_the_tokenizer(corpus: Path, tmp_path: Path) -> None:
    undisturbed = train_tokenizer([str(corpus)], "news", 500, workspace=str(tmp_path / "other"))
    found = load_tokenizer("news/1", workspace=corpus.parent / ".bpeline")
    assert found.digest == undisturbed.digest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """One that the first test kills and starts again, and the second kills."""
    with own_server(tmp_path_factory.mktemp("prefect-home")) as server:
        yield server


def test_a_run_whose_server_is_started_again_is_recorded_to_its_end(
    server: OwnServer, corpus: Path, tmp_path: Path
) -> None:
    killed = server.process
    assert killed is not None

    def start_again() -> None:
        killed.wait()
        server.start()

    starting = threading.Thread(target=start_again)
    starting.start()
    # As a rule a server is given up after 15 seconds, in which a busy machine starts none.
    states, said = train(server, corpus, PREFECT_CLIENT_MAX_RETRIES="9")
    starting.join()
    assert killed.returncode == -signal.SIGKILL
    assert states == {"finished"}
    assert "server is gone" not in said
    (run,) = server.runs_of("news")
    assert run["state_type"] == "COMPLETED"
    require_the_tokenizer(corpus, tmp_path)


def test_a_run_whose_server_is_killed_ends_without_it(
    server: OwnServer, corpus: Path, tmp_path: Path
) -> None:
    begun = time.monotonic()
    states, said = train(server, corpus)
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL
    assert states == {"finished"}
    assert "server is gone" in said
    assert time.monotonic() - begun < LONGEST, "nothing of Prefect's holds the process up"
    require_the_tokenizer(corpus, tmp_path)
