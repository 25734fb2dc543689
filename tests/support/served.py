"""``bpeline serve --deploy``, real and for as long as a block lasts: Prefect, a worker, MLflow."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from loopback import asked, free_ports, listens, waiting_for
from prefect_server import BPELINE, PrefectServer

ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
PATIENCE = 180.0  # seconds for what takes 15 on a machine that has nothing else to do
# Services that look every ten seconds or minute as a rule look every other second, and plan the
# next runs of a schedule instead of those of an hour.
HURRIED = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT1M",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
}


@dataclass(frozen=True)
class Served:
    """The command, its servers and what it printed.

    Attributes:
        process: it.
        server: its Prefect server.
        mlflow: the port of its MLflow.
        home: the workspace.
        said: what it printed until all answered.
    """

    process: subprocess.Popen[str]
    server: PrefectServer
    mlflow: int
    home: Path
    said: str

    def ask_mlflow(self, path: str, content: Any = None) -> Any:
        """MLflow's answer."""
        address = f"http://127.0.0.1:{self.mlflow}/api/2.0/mlflow{path}"
        return asked(address, content, **self.server.headers)

    def mlflow_runs(self, experiment: str, where: str) -> list[Any]:
        """Runs of an experiment."""
        found = self.ask_mlflow(f"/experiments/get-by-name?experiment_name={experiment}")
        number = found["experiment"]["experiment_id"]
        asking = {"experiment_ids": [number], "filter": where}
        runs: list[Any] = self.ask_mlflow("/runs/search", asking)["runs"]
        return runs

    def typed_again(self, *more: str) -> subprocess.CompletedProcess[str]:
        """The command while it runs."""
        arguments = ["serve", "--workspace", str(self.home), "--prefect-port",
                     str(self.server.port), "--mlflow-port", str(self.mlflow)]  # fmt: skip
        return self.server.bpeline(*arguments, *more, folder=self.home)

    def address(self, label: str) -> str:
        """The address that the command prints now, with a token of its own."""
        printed = self.typed_again().stdout
        return next(line.split()[1] for line in printed.splitlines() if line.startswith(label))

    @property
    def deployments(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.server.all("deployments")}

    def ended_runs(self, deployment: str) -> list[Any]:
        """Those that have ended, the first one first."""
        where = {"state": {"type": {"any_": sorted(ENDED)}}}
        of_it = {"name": {"any_": [deployment]}}
        found: list[Any] = self.server.all(
            "flow_runs", flow_runs=where, deployments=of_it, sort="START_TIME_ASC"
        )
        return found

    def schedule(self, deployment: str, **parameters: Any) -> None:
        """Let it run in a moment, and then every minute."""
        begin = datetime.now(UTC) + timedelta(seconds=5)
        interval = {"interval": 60, "anchor_date": begin.isoformat()}
        schedule = {"schedule": interval, "active": True, "parameters": parameters}
        path = f"/deployments/{self.deployments[deployment]['id']}/schedules"
        self.server.ask(path, [schedule])

    def configure(self, deployment: str, **parameters: Any) -> None:
        """Give it parameters for runs that are triggered."""
        path = f"/deployments/{self.deployments[deployment]['id']}"
        self.server.ask(path, {"parameters": parameters}, "PATCH")

    def ended(self, deployment: str, number: int = 1) -> Any:
        """The last of the first so many of its runs; there are no more from now on."""

        def look() -> Any:
            runs = self.ended_runs(deployment)
            return runs[number - 1] if len(runs) >= number else None

        run = waiting_for(f"run {number} of {deployment}", look, PATIENCE)
        for schedule in self.deployments[deployment]["schedules"]:
            path = f"/deployments/{self.deployments[deployment]['id']}/schedules/{schedule['id']}"
            self.server.ask(path, method="DELETE")
        assert run["state_type"] == "COMPLETED", run["state"]
        return run


@contextmanager
def serving(folder: Path, home: Path, program: Path) -> Iterator[Served]:
    """Serve a workspace; it must end well, and leave nobody listening.

    Args:
        folder: for Prefect's own directory.
        home: the workspace.
        program: what runs the commands that tests give.
    """
    prefect, mlflow = free_ports(2)
    server = PrefectServer(prefect, folder / "prefect", [str(program)])
    command = [*BPELINE, "serve", "--deploy", "--workspace", str(home),
               "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]  # fmt: skip
    environment = server.environment | HURRIED | {"PYTHONUNBUFFERED": "1"}
    del environment["PREFECT_API_URL"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        password = (home / "server-password").read_text().strip()
        server.headers["Authorization"] = f"Bearer {password}"
        server.environment["PREFECT_API_AUTH_STRING"] = f"bpeline:{password}"
        try:
            yield Served(process, server, mlflow, home, "".join(said))
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
        assert process.wait(60) == 0
        assert rest.strip() == "stopped"
    assert not listens(prefect)
    assert not listens(mlflow)
