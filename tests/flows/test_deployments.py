"""What prefect.yaml deploys, served by one command: every deployment runs on schedule and when it
is triggered, and people find the results in both user interfaces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from browser import browsing, installed_browser
from loopback import asked, free_ports, listens, waiting_for

import flows
from tokenizer_core.shards.token_shards import TokenShards

pytestmark = [pytest.mark.server, pytest.mark.slow]

ROOT = Path(flows.__file__).parents[1]
PROGRAM = "from flows.cli.main import main; main()"
BROWSER = installed_browser()
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
PATIENCE = 180.0  # seconds for what takes 15 on a machine that has nothing else to do


@dataclass(frozen=True)
class Served:
    """``bpeline server --deploy``, its addresses and what it printed."""

    process: subprocess.Popen[str]
    prefect: int
    mlflow: int
    home: Path
    said: str

    def ask(self, path: str, content: Any = None, method: str | None = None) -> Any:
        """Prefect's answer."""
        return asked(f"http://127.0.0.1:{self.prefect}/api{path}", content, method)

    def ask_mlflow(self, path: str, content: Any = None) -> Any:
        """MLflow's answer."""
        return asked(f"http://127.0.0.1:{self.mlflow}/api/2.0/mlflow{path}", content)

    @property
    def deployments(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.ask("/deployments/filter", {})}

    def runs(self, deployment: str) -> list[Any]:
        """Those that are under way or have ended, the first one first."""
        where = {"id": {"any_": [self.deployments[deployment]["id"]]}}
        found = self.ask("/flow_runs/filter", {"deployments": where, "sort": "START_TIME_ASC"})
        return [run for run in found if run["state_type"] != "SCHEDULED"]

    def schedule(self, deployment: str, **parameters: Any) -> None:
        """Let it run a few seconds from now, and then every minute."""
        begin = datetime.now(UTC) + timedelta(seconds=10)
        interval = {"interval": 60, "anchor_date": begin.isoformat()}
        schedule = {"schedule": interval, "active": True, "parameters": parameters}
        path = f"/deployments/{self.deployments[deployment]['id']}/schedules"
        self.ask(path, [schedule])

    def ended(self, deployment: str, number: int = 1) -> Any:
        """The last of the first so many of its runs; there are no more from now on."""

        def look() -> Any:
            runs = [run for run in self.runs(deployment) if run["state_type"] in ENDED]
            return runs[number - 1] if len(runs) >= number else None

        run = waiting_for(f"run {number} of {deployment}", look, PATIENCE)
        for schedule in self.deployments[deployment]["schedules"]:
            path = f"/deployments/{self.deployments[deployment]['id']}/schedules/{schedule['id']}"
            self.ask(path, method="DELETE")
        assert run["state_type"] == "COMPLETED", run["state"]
        return run

    def artifacts(self, run: Any) -> dict[str, Any]:
        """Of a run, by key."""
        found = self.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}})
        return {one["key"]: one for one in found}


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, fresh_workspace: Path, english_and_code: str
) -> Iterator[Served]:
    """One for all tests of this file, with a small corpus beside its workspace."""
    folder = tmp_path_factory.mktemp("served")
    home = folder / "home"
    shutil.copytree(fresh_workspace, home)
    (folder / "corpus").mkdir()
    pieces = [english_and_code[at : at + 800] for at in range(0, 80_000, 800)]
    (folder / "corpus" / "documents.txt").write_text("<|end|>".join(pieces), encoding="utf-8")
    prefect, mlflow = free_ports(2)
    command = [sys.executable, "-u", "-c", PROGRAM, "server", "--deploy", "--workspace", str(home),
               "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(folder / "prefect"),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        try:
            yield Served(process, prefect, mlflow, home, "".join(said))
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
        assert process.wait(60) == 0
        assert rest.strip() == "stopped"
    assert not listens(prefect)
    assert not listens(mlflow)


@pytest.fixture(scope="module")
def retrained(served: Served) -> Any:
    """The run of ``retrain`` that its schedule started."""
    served.schedule(
        "retrain", paths=[str(served.home.parent / "corpus")], name="demo", vocab_size=300,
        special_tokens=["<|end|>"], rules="promotion.toml",
    )  # fmt: skip
    return served.ended("retrain")


def test_the_addresses_are_printed_when_all_answer(served: Served) -> None:
    assert f"http://127.0.0.1:{served.prefect}/deployments" in served.said
    assert f"http://127.0.0.1:{served.mlflow}/#/models" in served.said
    assert f"export PREFECT_API_URL=http://127.0.0.1:{served.prefect}/api" in served.said
    (line,) = [line for line in served.said.splitlines() if line.startswith("deployed: ")]
    assert sorted(line.removeprefix("deployed: ").split(", ")) == sorted(served.deployments)


def test_retrain_runs_on_schedule_and_its_gates_make_a_champion(
    served: Served, retrained: Any
) -> None:
    assert retrained["auto_scheduled"]
    assert retrained["name"] == "demo/1 (300) from corpus/ (1 file)"
    artifacts = served.artifacts(retrained)
    assert artifacts["tokenizer-progress"]["data"] == 100
    assert "demo/1 is champion" in artifacts["tokenizer-summary"]["data"]
    champion = served.ask_mlflow("/registered-models/alias?name=demo&alias=champion")
    assert champion["model_version"]["version"] == "1"


def test_a_champion_that_moves_starts_the_encoding_of_the_dataset(
    served: Served, retrained: Any
) -> None:
    run = served.ended("encode-dataset")
    assert not run["auto_scheduled"]
    assert run["created_by"]["type"] == "AUTOMATION"
    assert run["parameters"]["reference"] == "demo/1"
    assert run["name"] == "demo/1 on python:stdlib"
    assert len(TokenShards(served.home / "tokens" / "demo-1")) > 100


def test_encode_dataset_runs_on_schedule_and_mlflow_shows_how_fast_it_was(
    served: Served, retrained: Any
) -> None:
    served.ended("encode-dataset")  # the triggered one
    output = served.home.parent / "tokens"
    served.schedule(
        "encode-dataset", reference="demo@champion", paths=[str(served.home.parent / "corpus")],
        separator="<|end|>", output=str(output),
    )  # fmt: skip
    run = served.ended("encode-dataset", 2)
    assert run["auto_scheduled"]
    assert run["name"] == "demo/1 on corpus/ (1 file)"
    assert len(TokenShards(output / "demo-1")) == 100
    assert "MB/s" in served.artifacts(run)["dataset-summary"]["data"]
    (shown,) = mlflow_runs(served, f"tags.output = '{output / 'demo-1'}'")
    metrics = {one["key"]: one["value"] for one in shown["data"]["metrics"]}
    assert metrics["dataset/documents"] == 100
    assert metrics["encode/megabytes_per_second"] > 0


def test_watch_drift_runs_on_schedule_and_drift_starts_a_training(
    served: Served, retrained: Any
) -> None:
    new = served.home.parent / "new.txt"
    new.write_text("<|end|>".join(f"ᚠᚢᚦᚨᚱᚲ {number} " * 400 for number in range(120)))
    served.schedule(
        "watch-drift", name="demo", paths=[str(new)], least_documents=1, least_bytes=1000
    )
    run = served.ended("watch-drift")
    assert run["auto_scheduled"]
    assert run["name"].startswith("demo/1 (champion): DRIFT")
    assert "demo/1" in served.artifacts(run)["drift-summary"]["data"]
    assert mlflow_runs(served, "metrics.`drift/drifted` = 1")
    where = {"id": {"any_": [served.deployments["retrain"]["id"]]}}

    def triggered() -> Any:
        runs = served.ask("/flow_runs/filter", {"deployments": where})
        return [run for run in runs if run["created_by"]["type"] == "AUTOMATION"]

    (training,) = waiting_for("training", triggered, PATIENCE)
    served.ask(f"/flow_runs/{training['id']}", method="DELETE")  # it would train the whole demo


def test_sweep_garbage_runs_on_schedule(served: Served, retrained: Any) -> None:
    left = list((served.home / "runs").iterdir())
    assert left
    served.schedule("sweep-garbage", days=0, remove=True)
    run = served.ended("sweep-garbage")
    assert run["auto_scheduled"]
    assert "removed" in run["name"]
    assert "checkpoints of runs" in served.artifacts(run)["garbage-summary"]["data"]
    assert not list((served.home / "runs").iterdir())


@pytest.mark.skipif(BROWSER is None, reason="no browser of the Chromium family is installed")
def test_people_find_the_results_in_both_user_interfaces(
    served: Served, retrained: Any, tmp_path: Path
) -> None:
    assert BROWSER is not None
    prefect = f"http://127.0.0.1:{served.prefect}"
    mlflow = f"http://127.0.0.1:{served.mlflow}"
    (dataset,) = mlflow_runs(served, f"tags.output = '{served.home / 'tokens' / 'demo-1'}'")
    place = f"{dataset['info']['experiment_id']}/runs/{dataset['info']['run_id']}"
    summary = served.artifacts(retrained)["tokenizer-summary"]["id"]
    view = "workflowType=machine_learning"
    with browsing(BROWSER, tmp_path / "profile") as page:
        page.shows(f"{prefect}/runs/flow-run/{retrained['id']}", retrained["name"], "Completed")
        page.shows(f"{prefect}/artifacts/artifact/{summary}", "demo/1 is champion", "bytes/token")
        page.shows(f"{prefect}/deployments", *served.deployments)
        page.shows(f"{prefect}/automations", "encode-dataset when demo@champion moves")
        page.shows(f"{mlflow}/#/models/demo/versions/1?{view}", "champion", "candidate")
        page.shows(
            f"{mlflow}/#/experiments/{place}?{view}", "demo/1 dataset", "megabytes_per_second"
        )


def mlflow_runs(served: Served, where: str) -> list[Any]:
    """Runs of the tokenizer's experiment."""
    found = served.ask_mlflow("/experiments/get-by-name?experiment_name=demo")
    experiment = found["experiment"]["experiment_id"]
    asking = {"experiment_ids": [experiment], "filter": where}
    runs: list[Any] = served.ask_mlflow("/runs/search", asking)["runs"]
    return runs
