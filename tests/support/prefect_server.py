"""A real Prefect server of a test, asked through its REST API and used by commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopback import asked, free_ports

ROOT = Path(__file__).parents[2]
PREFECT = [sys.executable, "-m", "prefect"]
BPELINE = [sys.executable, "-c", "from bpeline.flows.cli.main import main; main()"]


class PrefectServer:
    """One that listens on this machine, whoever started it.

    Args:
        port: where.
        home: Prefect's own directory, for commands of its own.
        program: what runs a command of ours, such as one of `warm_commands`.
    """

    def __init__(self, port: int, home: Path, program: Sequence[str] = BPELINE) -> None:
        self.port = port
        self.program = program
        self.url = f"http://127.0.0.1:{port}/api"
        self.headers: dict[str, str] = {}
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }

    def ask(self, path: str, content: Any = None, method: str | None = None) -> Any:
        """The answer to a request."""
        return asked(self.url + path, content, method, **self.headers)

    def all(self, kind: str, **where: Any) -> list[Any]:
        """All things of a kind, such as ``artifacts``."""
        found: list[Any] = self.ask(f"/{kind}/filter", where)
        return found

    def bpeline(
        self, *arguments: str, folder: Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder, the environment as here and more."""
        return self.run([*self.program, *arguments], folder, **more)

    def run(
        self, command: list[str], folder: Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder."""
        return subprocess.run(
            command, cwd=folder, env=self.environment | more, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip

    def runs_of(self, name: str) -> list[Any]:
        """The trainings of a tokenizer's name."""
        return [
            run
            for run in self.all("flow_runs")
            if run["parameters"].get("request", {}).get("name") == name
        ]

    def task_runs(self, flow_run: str) -> list[Any]:
        """Those of a flow run, once all of them have been recorded."""
        for _ in range(240):
            found = self.all("task_runs", flow_runs={"id": {"any_": [flow_run]}})
            if found and all(one["state_type"] in {"COMPLETED", "FAILED"} for one in found):
                return found
            time.sleep(0.5)
        raise AssertionError([(one["name"], one["state_type"]) for one in found])

    def artifacts(self, flow_run: str) -> dict[str, Any]:
        """Of a flow run, by key."""
        found = self.all("artifacts", artifacts={"flow_run_id": {"any_": [flow_run]}})
        return {one["key"]: one for one in found}


class OwnServer(PrefectServer):
    """One that a test starts, and may kill."""

    def __init__(self, home: Path) -> None:
        super().__init__(*free_ports(1), home)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 300
        while not self._is_healthy():
            assert self.process.poll() is None, "the server ended by itself"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.2)

    def stop(self) -> None:
        """Ask it to end, then insist."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def own_server(home: Path) -> Iterator[OwnServer]:
    """A server for as long as the block lasts."""
    server = OwnServer(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
