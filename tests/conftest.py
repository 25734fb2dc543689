"""What every test may rely on: no telemetry, no display, no connection to anywhere but here."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_mlflow
import mlflow_tables
import pytest
from amounts import EVERY_RUN, FIXED_SEED, NIGHT, Amounts, day_seed
from hypothesis import settings
from longest_first import ByFolderAndFile, place_of
from postgres import PostgresServer, postgres_server
from s3_server import S3Server, s3_server
from shared_statements import compiled_once
from warm_commands import warm_commands

# Set before any dependency is imported: some read these at import.
os.environ.update(
    DO_NOT_TRACK="true",
    MLFLOW_DISABLE_TELEMETRY="true",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    OPENBLAS_NUM_THREADS="1",  # its threads wait for each other's small parts at full speed
)
INHERITED = ("BPELINE_HOME", "BPELINE_CATALOGUE_URL", "BPELINE_ARTIFACTS_URL", "BPELINE_STORE",
             "MLFLOW_TRACKING_URI", "PREFECT_API_URL")  # fmt: skip
for inherited in INHERITED:
    os.environ.pop(inherited, None)

# No case has a deadline: the first one of a process may load or compile kernels.
settings.register_profile("every change", deadline=None, derandomize=True)
settings.register_profile("night", deadline=None)

# Half of what a training in a test took was waiting for a disk: what tests write goes to memory
# where there is enough. That everything is synced when it should be, `test_power_loss` sees.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 8 << 30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None


@pytest.fixture
def without_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A process that knows no Python: ``sys.executable`` is the program that holds it.

    Which is never started: a window opens again, or a server serves twice.
    """
    from multiprocessing import spawn  # which would keep that program, imported by the test

    program, started = tmp_path / "holds_python", tmp_path / "holds_python.started"
    program.write_text(f"#!/bin/sh\n: > '{started}'\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(spawn, "_python_exe", str(program))
    yield program
    assert not started.exists()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A real S3 server on this machine, which this process is configured for."""
    for name, value in _s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return _s3_server


# Python's collector of cycles took a tenth of the time of tests; here it looks less often.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    """What is there by now stays to the end, and need not be looked through again and again."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Look once more for what nobody closed; pytest would do so five times, for seconds each.

    At the very end Python does, too, or DuckDB's binding would tell of leaks in hundreds of lines.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)


LOOPBACK = {"127.0.0.1", "::1", "localhost", "0.0.0.0"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--night", action="store_true", help="what is marked `night`, too")
    parser.addoption(
        "--seed", type=int, help="which cases these are; at night the day's date, else always 1"
    )
    parser.addoption("--point", type=int, default=0, help="the one case to do again; 0: all")


def pytest_configure(config: pytest.Config) -> None:
    """By day the same cases every time; at night others."""
    night = config.getoption("--night")
    settings.load_profile("night" if night else "every change")
    if config.option.seed is None:
        config.option.seed = day_seed() if night else FIXED_SEED


def pytest_runtest_teardown() -> None:
    # MLflow leaves this one where models are saved or loaded by two threads at once, and Hypothesis
    # looks into each module for constants: it has no path.
    sys.modules.pop("dbutils", None)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which cases these were, where they are not those of every run."""
    if config.getoption("--night"):
        seed = config.getoption("--seed")
        terminalreporter.write_line(f"the same cases again: --seed {seed} --night")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For ``--dist loadfile``."""
    return ByFolderAndFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    items.sort(key=lambda item: place_of(item.path, tests))
    named = any("::" in argument for argument in config.args)  # whoever names a test wants it
    if not config.getoption("--night") and not named:
        at_night = [item for item in items if item.get_closest_marker("night")]
        config.hook.pytest_deselected(items=at_night)
        items[:] = [item for item in items if not item.get_closest_marker("night")]
    if not named:
        every = NIGHT.one_of_combinations
        numbers: Counter[str] = Counter()
        left: list[pytest.Item] = []
        for item in items:
            if item.get_closest_marker("combinations"):
                test = item.nodeid.partition("[")[0]
                numbers[test] += 1
                if (numbers[test] - config.getoption("--seed")) % every:
                    left.append(item)
        config.hook.pytest_deselected(items=left)
        chosen = {*items} - {*left}
        items[:] = [item for item in items if item in chosen]


@pytest.fixture(scope="session")
def amounts(request: pytest.FixtureRequest) -> Amounts:
    """How much of everything slow this run does."""
    return NIGHT if request.config.getoption("--night") else EVERY_RUN


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """What random cases are made from, and which of the numbered ones are taken."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def point(request: pytest.FixtureRequest) -> int:
    """The number of the one case to do again; 0: all."""
    return int(request.config.getoption("--point"))


@pytest.fixture(autouse=True, scope="session")
def _only_loopback() -> Iterator[None]:
    """Nothing in this project needs the network at run time: any such attempt is a failure."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test tried to connect to {address}")
        connect(self, address)

    socket.socket.connect = guarded  # type: ignore[method-assign, assignment]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def warm() -> Iterator[Path]:
    """A folder with a ``bpeline`` that runs as typed and starts in no time, see `warm_commands`."""
    with warm_commands() as folder:
        yield folder


@pytest.fixture(scope="session")
def _quick_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New MLflow databases of this process are copies of the first one, and share compiled SQL."""
    with (
        mlflow_tables.made_once(tmp_path_factory.mktemp("mlflow-tables") / "empty.sqlite"),
        compiled_once(),
    ):
        yield


@pytest.fixture(scope="module")
def quick_mlflow(request: pytest.FixtureRequest) -> Iterator[None]:
    """MLflow with quick tables; `fake_mlflow` in files whose ``pytestmark`` is of that name."""
    if request.node.get_closest_marker("fake_mlflow"):
        with fake_mlflow.installed():
            yield
    else:
        request.getfixturevalue("_quick_tables")
        yield


STANDARD_LIBRARY = Path(os.__file__).parent


@pytest.fixture(scope="session")
def english_and_code() -> str:
    """About 1 MB of real text that every machine with Python has: its library's own sources."""
    names = ("argparse", "asyncio/base_events", "collections/__init__", "datetime", "decimal",
             "difflib", "doctest", "email/message", "inspect", "logging/__init__", "mailbox",
             "optparse", "pathlib", "pdb", "pickletools", "pydoc", "random", "shutil", "smtplib",
             "statistics", "subprocess", "tarfile", "tempfile", "threading", "turtle", "typing",
             "unittest/mock", "urllib/request", "zipfile")  # fmt: skip
    files = [STANDARD_LIBRARY / f"{name}.py" for name in names]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path.exists())
