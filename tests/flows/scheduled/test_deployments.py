"""What prefect.yaml deploys, served by one command: every deployment runs on schedule and when it
is triggered, and people find the results in both user interfaces."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from browser import browsing, installed_browser
from served import Served

from bpeline.registry.records import STUCK
from bpeline.tokenizer_core.shards.token_shards import TokenShards

pytestmark = pytest.mark.night

BROWSER = installed_browser()
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def retrained(served: Served) -> Any:
    """The run of ``retrain`` that its schedule started."""
    request = {
        "paths": [str(served.home.parent / "corpus")], "name": "demo", "vocab_size": 300,
        "special_tokens": ["<|end|>"], "held_out": 0.2, "rules": "promotion.toml",
    }  # fmt: skip
    served.schedule("retrain", request=request)
    return served.ended("retrain")


def test_the_addresses_are_printed_when_all_answer(served: Served) -> None:
    assert f"http://127.0.0.1:{served.server.port}/deployments" in served.said
    assert f"http://127.0.0.1:{served.mlflow}/?token=" in served.said
    assert f"export PREFECT_API_URL=http://127.0.0.1:{served.server.port}/api" in served.said
    (line,) = [line for line in served.said.splitlines() if line.startswith("deployed: ")]
    assert sorted(line.removeprefix("deployed: ").split(", ")) == sorted(served.deployments)


def test_typed_again_with_deploy_it_deploys_to_the_server_that_runs(served: Served) -> None:
    again = served.typed_again("--deploy")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("deployed: ")
    assert "\nschedules: " in again.stdout


def test_retrain_runs_on_schedule_and_its_gates_make_a_champion(
    served: Served, retrained: Any
) -> None:
    assert retrained["auto_scheduled"]
    assert re.fullmatch(r"demo/1 \(300\).* corpus/?", retrained["name"])
    artifacts = served.server.artifacts(retrained["id"])
    assert artifacts["tokenizer-progress-demo"]["data"] == 100
    assert "demo/1" in artifacts["tokenizer-summary-demo"]["data"]
    champion = served.ask_mlflow("/registered-models/alias?name=demo&alias=champion")
    assert champion["model_version"]["version"] == "1"


def test_a_champion_that_moves_starts_the_encoding_of_the_dataset(
    served: Served, retrained: Any
) -> None:
    run = served.ended("encode-dataset")
    assert not run["auto_scheduled"]
    assert run["created_by"]["type"] == "AUTOMATION"
    assert run["parameters"]["reference"] == "demo/1"
    assert re.fullmatch(r"demo/1 .*python:stdlib", run["name"])
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
    assert re.fullmatch(r"demo/1 .*corpus/?", run["name"])
    assert len(TokenShards(output / "demo-1")) == 100
    assert "MB/s" in served.server.artifacts(run["id"])["dataset-summary-demo"]["data"]
    (shown,) = served.mlflow_runs("demo", f"tags.output = '{output / 'demo-1'}'")
    metrics = {one["key"]: one["value"] for one in shown["data"]["metrics"]}
    assert metrics["dataset/documents"] == 100
    assert metrics["encode/megabytes_per_second"] > 0


def test_sweep_garbage_runs_on_schedule(served: Served, retrained: Any) -> None:
    left = list((served.home / "runs").iterdir())
    assert left
    served.schedule("sweep-garbage", days=0, remove=True)
    run = served.ended("sweep-garbage")
    assert run["auto_scheduled"]
    assert "removed" in run["name"]
    assert "checkpoints" in served.server.artifacts(run["id"])["garbage-summary"]["data"]
    assert not list((served.home / "runs").iterdir())


def test_recertify_runs_on_schedule(served: Served, retrained: Any) -> None:
    served.schedule("recertify")
    run = served.ended("recertify")
    assert run["auto_scheduled"]
    assert run["name"].startswith("exports")
    table = served.server.artifacts(run["id"])["certificates-summary"]["data"]
    assert "| demo/1 | hf | " in table


@pytest.mark.skipif(BROWSER is None, reason="no browser of the Chromium family is installed")
def test_people_find_the_results_in_both_user_interfaces(
    served: Served, retrained: Any, tmp_path: Path
) -> None:
    assert BROWSER is not None
    prefect = f"http://127.0.0.1:{served.server.port}"
    mlflow = f"http://127.0.0.1:{served.mlflow}"
    served.ended("encode-dataset")  # the triggered one
    (dataset,) = served.mlflow_runs("demo", f"tags.output = '{served.home / 'tokens' / 'demo-1'}'")
    place = f"{dataset['info']['experiment_id']}/runs/{dataset['info']['run_id']}"
    summary = served.server.artifacts(retrained["id"])["tokenizer-summary-demo"]["id"]
    view = "workflowType=machine_learning"
    with browsing(BROWSER, tmp_path / "profile") as page:
        page.shows(served.address("schedules"), *served.deployments)
        page.shows(served.address("tokenizers"), "demo")
        page.shows(f"{prefect}/runs/flow-run/{retrained['id']}", retrained["name"], "Completed")
        page.shows(f"{prefect}/artifacts/artifact/{summary}", "demo/1", "bytes/token")
        page.shows(f"{prefect}/deployments", *served.deployments)
        page.shows(f"{prefect}/automations", "encode-dataset when demo@champion moves")
        page.shows(f"{mlflow}/#/models/demo/versions/1?{view}", "champion", "candidate")
        page.shows(
            f"{mlflow}/#/experiments/{place}?{view}", "demo/1 dataset", "megabytes_per_second"
        )


def test_watch_drift_runs_on_schedule_and_drift_starts_a_training(
    served: Served, retrained: Any
) -> None:
    """The last test of this file, for the champion moves: the watch after it finds no drift."""
    choose, new = random.Random(2), served.home.parent / "new.txt"
    words = ["".join(choose.choices("ᚠᚢᚦᚨᚱᚲᚷᚹ", k=6)) for _ in range(200)]
    new.write_text("<|end|>".join(" ".join(choose.choices(words, k=200)) for _ in range(240)))
    corpus = [str(served.home.parent / "corpus"), str(new)]
    rules, shipped = served.home.parent / "rules.toml", ROOT / "promotion.toml"
    rules.write_text(f"{shipped.read_text()}limit = 99\n")  # bytes per token
    # As many ids as before: for all of the text, a part of which was all of it then.
    request = {
        "paths": corpus, "name": "demo", "vocab_size": 300, "special_tokens": ["<|end|>"],
        "held_out": 0.4, "rules": str(rules),
    }  # fmt: skip
    served.configure("retrain", request=request)
    served.configure("encode-dataset", reference="demo@champion", paths=corpus)  # not all of Python
    watching = {"name": "demo", "paths": corpus, "least_documents": 1, "least_bytes": 1000}
    served.schedule("watch-drift", **watching)
    run = served.ended("watch-drift")
    assert run["auto_scheduled"]
    assert run["name"].startswith("demo/1 (champion)")
    assert "demo/1" in served.server.artifacts(run["id"])["drift-summary-demo"]["data"]
    assert served.mlflow_runs("demo", "metrics.`drift/drifted` = 1")

    training = served.ended("retrain", 2)
    assert training["created_by"]["type"] == "AUTOMATION"
    assert training["state_name"] == "Refused"
    assert "evaluation set" in training["state"]["message"]

    served.schedule("watch-drift", **watching)
    run = served.ended("watch-drift", 2)
    assert run["state_name"] == "Stuck"
    assert re.match(rf"demo/2\b.*{STUCK}", run["state"]["message"])
    rules.write_text(shipped.read_text())
    served.schedule("watch-drift", **watching)
    assert served.ended("watch-drift", 3)["state_name"] == "Completed"

    training = served.ended("retrain", 3)
    assert training["created_by"]["type"] == "AUTOMATION"
    champion = served.ask_mlflow("/registered-models/alias?name=demo&alias=champion")
    assert champion["model_version"]["version"] == "2"

    served.schedule("watch-drift", **watching)
    run = served.ended("watch-drift", 4)
    assert len(served.ended_runs("retrain")) == 3, "one that is stuck starts none"
    assert run["name"].startswith("demo/2 (champion)")
    assert served.mlflow_runs("demo", "metrics.`drift/drifted` = 0"), "and judged, which is not -1"
