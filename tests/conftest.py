"""What every test may rely on: no telemetry, no display, no connection to anywhere but here."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow_tables
import pytest
from longest_first import place_of
from postgres import PostgresServer, postgres_server
from s3_server import S3Server, s3_server

# Set before any dependency is imported: some read these at import.
os.environ.update(
    MPLBACKEND="Agg",
    DO_NOT_TRACK="true",
    MLFLOW_DISABLE_TELEMETRY="true",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
)
INHERITED = ("BPELINE_HOME", "BPELINE_CATALOGUE_URL", "BPELINE_ARTIFACTS_URL", "BPELINE_STORE",
             "MLFLOW_TRACKING_URI", "PREFECT_API_URL")  # fmt: skip
for inherited in INHERITED:
    os.environ.pop(inherited, None)


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


LOOPBACK = {"127.0.0.1", "::1", "localhost", "0.0.0.0"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--texts", type=int, default=1_000_000, help="how many texts each slow differential takes"
    )
    parser.addoption(
        "--cases", type=float, default=1.0, help="how many times as many cases of reliability"
    )
    parser.addoption(
        "--point", type=int, default=0, help="the one crash point or case to do again; 0: all"
    )
    parser.addoption(
        "--corpora", type=int, default=200_000, help="how many corpora differential training takes"
    )
    parser.addoption(
        "--stride", type=int, default=83, help="of how many requests to MLflow one gets a fault"
    )
    parser.addoption("--seed", type=int, default=1, help="which random cases these are")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    items.sort(key=lambda item: place_of(item.path, tests))


@pytest.fixture(scope="session")
def many_texts(request: pytest.FixtureRequest) -> tuple[int, int]:
    """How many texts a slow differential test takes, and the seed they are made from."""
    return request.config.getoption("--texts"), request.config.getoption("--seed")


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
def quick_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New MLflow databases of this process are copies of the first one it made."""
    with mlflow_tables.made_once(tmp_path_factory.mktemp("mlflow-tables") / "empty.sqlite"):
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
