"""A real Prefect server of a test, asked through its REST API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopback import free_ports

ROOT = Path(__file__).parents[2]
PREFECT = [sys.executable, "-m", "prefect"]


class Server:
    """It, in a directory of its own."""

    def __init__(self, home: Path) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }

        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while not self.is_healthy():
            assert self.process.poll() is None, "the server ended by itself"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.5)

    def stop(self) -> None:
        """Ask it to end, then insist."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def ask(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def run(
        self, command: list[str], folder: Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=folder, env=self.environment | more, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def runs_of(self, name: str) -> list[Any]:
        """The trainings of a tokenizer's name."""
        runs = self.ask("/flow_runs/filter")
        return [run for run in runs if run["parameters"].get("name") == name]

    def task_runs(self, flow_run: str) -> list[Any]:
        """Those of a flow run, once all of them have been recorded."""
        where = {"flow_runs": {"id": {"any_": [flow_run]}}}
        for _ in range(60):
            found: list[Any] = self.ask("/task_runs/filter", **where)
            if found and all(one["state_type"] in {"COMPLETED", "FAILED"} for one in found):
                return found
            time.sleep(0.5)
        raise AssertionError([(one["name"], one["state_type"]) for one in found])


@contextmanager
def prefect_server(home: Path) -> Iterator[Server]:
    """A server for as long as the block lasts."""
    server = Server(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
