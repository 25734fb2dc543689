"""Commands that ask MLflow or Prefect, and servers of nonsense: told in seconds, nothing lost."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from nonsense import MODES, nonsense
from own_time import own_time
from published import copied

# What is shown as it was last seen is a warning.
pytestmark = [pytest.mark.night, pytest.mark.filterwarnings("default")]

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
    "show NAME": ("show", "t"),
    "encode": ("encode", "t@champion", "hello"),
    "export": ("export", "t@champion", "--format", "gpt2", "--output", "out"),
    "verify": ("verify", "t/1"),
    "report": ("report", "t/1", "-o", "page.html"),
    "gc": ("gc", "--dry-run"),
    "doctor": ("doctor",),
    "drift": ("drift", "t@champion", "corpus.txt"),
    "resume": ("resume",),
    "evaluate": ("evaluate", "t/1"),
    "evaluate --sets": ("evaluate", "--sets"),
    "extend": ("derive", "extend", "t/1", "--vocab-size", 290),
    "superwords": ("derive", "superwords", "t/1", "--vocab-size", 290),
    "evaluate --sizes": ("evaluate", "t/1", "--sizes", "--model-shape", "llama-3.1-8b"),
    "prune": ("derive", "prune", "t/1", "--min-count", 5, "-o", "plan.json"),
    "sweep": ("sweep", "corpus.txt", "--name", "sizes", "--sizes", "270"),
    "sweep --temperatures": ("sweep", "corpus.toml", "--sizes", "270", "--temperatures", "1,2"),
    "delete": ("delete", "t/1", "--dry-run"),
    "encode -o": ("encode", "t@champion", "corpus.txt", "-o", "ids"),
    "count": ("count", "t@champion", "corpus.txt"),
    "doctor --dismiss": ("doctor", "--dismiss", "0" * 8),
}
# MLflow's client waits for what these send; docs/security.md says so.
UNBOUNDED = {
    "a dripped status line", "dripped headers", "a dripped body", "an endless body",
    "pages without end", "a gzip bomb",
}  # fmt: skip
MLFLOW_MODES = [mode for mode in MODES if mode not in UNBOUNDED]
# Those that run as flows, or that speak to Prefect themselves.
ON_PREFECT = (
    "train", "sweep", "sweep --temperatures", "extend", "superwords", "verify", "drift", "resume",
    "encode -o", "gc", "prune", "promote", "rollback", "evaluate", "doctor",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with a version that an alias points to."""
    training = (*TRAIN, "t", "--vocab-size", 280, "--eval", "more=more.txt")
    half = {"one.txt": english_and_code[:9_000], "other.txt": english_and_code[9_000:18_000]}
    sources = "".join(f'[[source]]\nname = "{name[:-4]}"\nfiles = ["{name}"]\n' for name in half)
    texts = {
        "corpus.txt": english_and_code[:30_000],
        "more.txt": english_and_code[30_000:45_000],
        "corpus.toml": sources,
    }
    return folder_after({**texts, **half}, [training, ("promote", "t/1")])


@pytest.mark.combinations
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mode", MLFLOW_MODES)
def test_a_server_of_nonsense_costs_seconds_and_a_message(
    mode: str,
    command: str,
    trained: Path,
    tmp_path: Path,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "folder"
    copied(trained, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(PATIENCE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with nonsense(mode) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
        result = soon(lambda: bpeline(*COMMANDS[command]))
    assert result.exit_code in {0, 1}, result.output
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


@pytest.mark.combinations
@pytest.mark.parametrize("command", ON_PREFECT)
@pytest.mark.parametrize("mode", MODES)
def test_a_prefect_server_of_nonsense_costs_seconds_and_a_line(
    mode: str,
    command: str,
    trained: Path,
    tmp_path: Path,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command == "train":
        copied(trained, tmp_path / "without")
        monkeypatch.chdir(tmp_path / "without")
        expected = digest_in(bpeline(*COMMANDS[command]).output)
    copied(trained, tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    with nonsense(mode) as server:
        secret = "hunter2"
        address = server.url.replace("://", f"://me:{secret}@")
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        result = soon(lambda: bpeline(*COMMANDS[command]))
    assert secret not in result.output
    # Nobody needs that server: what was asked for is done.
    assert result.exit_code == (command in {"rollback", "doctor"}), result.output
    if command == "train":
        assert "does not answer" in result.stderr
        assert digest_in(result.output) == expected


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_deployed_to_a_server_of_nonsense(
    mode: str,
    trained: Path,
    tmp_path: Path,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "folder"
    copied(trained, folder)
    monkeypatch.chdir(folder)
    with nonsense(mode) as server:
        secret = "hunter2"
        address = server.url.replace("://", f"://me:{secret}@")
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        result = soon(lambda: bpeline("deploy"))
    assert secret not in result.output
    assert result.exit_code == 1
    assert "error: " in result.stderr


def soon(command: Callable[[], Result]) -> Result:
    """What a command says that ends in time, with no exception but its exit code."""
    begin = own_time()
    result = command()
    assert own_time() - begin < MOST_SECONDS
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert "Traceback" not in result.output
    return result


def digest_in(output: str) -> str:
    (found,) = set(re.findall(r"\b[0-9a-f]{64}\b", output))
    return found
