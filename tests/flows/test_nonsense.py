"""Commands that ask MLflow, and servers of nonsense: an error, in seconds, and nothing lost."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from nonsense import MODES, nonsense

# What is shown as it was last seen is a warning.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

PATIENCE = 2  # seconds of MLFLOW_HTTP_REQUEST_TIMEOUT; its default of 10 is five times as slow
MOST_SECONDS = 40.0  # of a command, beside other tests
MOST_MEMORY = 600 << 10  # KiB that this process grows by
TRAIN = ("train", "corpus.txt", "--name")
COMMANDS = {
    "train": (*TRAIN, "other", "--vocab-size", 270),
    "versions": ("versions",),
    "show": ("show", "t/1"),
    "compare": ("compare", "t/1", "t/1"),
    "promote": ("promote", "t/1"),
    "rollback": ("rollback", "t"),
    "history": ("history", "t"),
    "encode": ("encode", "t@champion", "hello"),
    "export": ("export", "t@champion", "--format", "gpt2", "--output", "out"),
    "verify": ("verify", "t/1"),
    "report": ("report", "t/1", "-o", "page.html"),
    "gc": ("gc",),
    "doctor": ("doctor",),
    "repair": ("repair",),
    "repair --write": ("repair", "--write"),
    "drift": ("drift", "t@champion", "corpus.txt"),
    "resume": ("resume",),
}


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with a version that an alias points to."""
    commands = [(*TRAIN, "t", "--vocab-size", 280), ("promote", "t/1")]
    return folder_after({"corpus.txt": english_and_code[:30_000]}, commands)


@pytest.mark.rotating(200)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_of_nonsense_costs_seconds_and_a_message(
    mode: str,
    command: str,
    trained: Path,
    tmp_path: Path,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(PATIENCE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with nonsense(mode) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
        begin = time.monotonic()
        result = bpeline(*COMMANDS[command])
        seconds = time.monotonic() - begin
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert "Traceback" not in result.output
    assert result.exit_code in {0, 1}, result.output
    assert seconds < MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
    if result.exit_code:
        assert "error: " in result.stderr or command == "doctor", result.output
    if command in {"train", "promote", "rollback"}:
        assert result.exit_code == 1, result.output
    if command == "train":
        assert list((folder / ".bpeline/outbox").glob("other.*.json")), "the training is lost"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    if command == "train":
        delivered = bpeline("resume")
        assert delivered.exit_code == 0, delivered.output
        assert "other/1" in delivered.output
