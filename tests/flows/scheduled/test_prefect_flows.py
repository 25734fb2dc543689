"""The flow under a real Prefect server: runs, tasks, logs, artifacts, deployment."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import waiting_for
from prefect_server import PREFECT, ROOT, PrefectServer
from served import ENDED, PATIENCE, Served

from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting.count_corpus import count_words
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.training.bpe import train_bpe

pytestmark = pytest.mark.night


@pytest.fixture
def server(served: Served) -> PrefectServer:
    return served.server


def test_a_run_appears_with_tasks_logs_and_artifacts(
    server: PrefectServer, corpus: Path, tmp_path: Path
) -> None:
    arguments = ["train", str(corpus), "--name", "news", "--vocab-size", "500", "--json"]
    ended = server.bpeline(*arguments, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["reference"] == "news/1"
    assert "learn merges" in ended.stderr, "the terminal shows the same as without a server"
    assert "prefect" not in ended.stderr.lower()

    (run,) = server.runs_of("news")
    assert re.fullmatch(r"news/1 \(500\).* corpus/?", run["name"])
    assert run["state_type"] == "COMPLETED"
    assert run["parameters"]["request"]["vocab_size"] == 500
    tasks = [one["name"].rsplit("-", 1)[0] for one in server.task_runs(run["id"])]
    assert sorted(tasks) == sorted(
        ["set up evaluation", "plan chunks", *["count words"] * 3, "combine counts", "learn merges",
         "evaluate", "screen tokens", "publish"]
    )  # fmt: skip
    artifacts = server.artifacts(run["id"])
    assert artifacts["tokenizer-progress-news"]["data"] == 100
    made = artifacts["tokenizer-summary-news"]
    assert "| 500 |" in made["data"]
    measured_on = summary["measured_on"]
    assert measured_on
    assert not measured_on.startswith("evaluation set ")
    assert re.search(rf"news/1\b.*{re.escape(measured_on)}$", made["description"])
    assert f"| {measured_on} |" in made["data"]
    where = {"flow_run_id": {"any_": [run["id"]]}}
    messages = [one["message"] for one in server.all("logs", logs=where)]
    assert any("learn merges" in message for message in messages)


def test_a_cluster_is_one_task_however_many_parcels_it_works_on(
    server: PrefectServer, corpus: Path, tmp_path: Path
) -> None:
    arguments = ["train", str(corpus), "--name", "far", "--vocab-size", "500", "--json"]
    ended = server.bpeline(*arguments, "--engine", "dask", "--threads", "2", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    (run,) = server.runs_of("far")
    tasks = [one["name"].rsplit("-", 1)[0] for one in server.task_runs(run["id"])]
    assert tasks.count("count words") == 1
    local = server.bpeline(*arguments[:3], "near", *arguments[4:], folder=tmp_path)
    assert json.loads(local.stdout)["digest"] == json.loads(ended.stdout)["digest"]


def test_an_import_is_a_run_with_its_steps_and_its_summary(
    server: PrefectServer, corpus: Path, tmp_path: Path
) -> None:
    ours = train_bpe(count_words(corpus), 400)
    ours.save(tmp_path / "tokenizer.json", "hf")
    arguments = ["import", "tokenizer.json", "--name", "theirs", "--eval", f"own={corpus}"]
    ended = server.bpeline(*arguments, "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (run,) = server.runs_of("theirs")
    assert re.fullmatch(r"theirs/1 .*tokenizer\.json", run["name"])
    assert run["state_type"] == "COMPLETED"
    assert run["parameters"]["request"]["file"] == str(tmp_path / "tokenizer.json")
    tasks = [one["name"].rsplit("-", 1)[0] for one in server.task_runs(run["id"])]
    assert sorted(tasks) == [
        "certify", "evaluate", "publish", "read files", "set up evaluation"
    ]  # fmt: skip
    artifacts = server.artifacts(run["id"])
    assert artifacts["tokenizer-progress-theirs"]["data"] == 100
    assert artifacts["tokenizer-summary-theirs"]["data"].startswith("# theirs/1")


def test_rules_are_judged_in_a_task_and_the_champion_comparison_is_an_artifact(
    server: PrefectServer, corpus: Path, tmp_path: Path
) -> None:
    rules = '[[rule]]\nmetric = "compression/bytes_per_token"\ndirection = "higher"\n'
    (tmp_path / "rules.toml").write_text(rules, encoding="utf-8")
    name = "judged.de"
    arguments = [
        "train", str(corpus), "--name", name, "--held-out", "0.5", "--rules", "rules.toml",
        "--vocab-size",
    ]  # fmt: skip
    for size, code in (("600", 0), ("601", 0), ("500", 3)):
        ended = server.bpeline(*arguments, size, folder=tmp_path)
        assert ended.returncode == code, ended.stderr
    assert "judged.de@champion" in ended.stdout
    runs = {one["parameters"]["request"]["vocab_size"]: one for one in server.runs_of(name)}
    states = [(runs[size]["state_type"], runs[size]["state_name"]) for size in (600, 601, 500)]
    assert states == [("COMPLETED", name) for name in ("Completed", "Kept", "Refused")]
    run = runs[500]
    assert any(one["name"].startswith("promote") for one in server.task_runs(run["id"]))
    artifacts = server.artifacts(run["id"])
    # Not that of a tokenizer called judged-de, for Prefect allows no dot.
    compared = artifacts[f"champion-comparison-judged-de-{digest_of(name)[:8]}"]
    assert compared["data"].startswith("# judged.de/1 → judged.de/3")
    summary = artifacts[f"tokenizer-summary-judged-de-{digest_of(name)[:8]}"]
    measured_on = re.search(r"evaluation set .*", summary["description"])
    assert measured_on is not None
    assert f"| {measured_on[0]} |" in compared["data"]
    assert "| compression/bytes_per_token |" in compared["data"]


def test_a_failure_is_recorded_and_said_without_a_traceback(
    server: PrefectServer, corpus: Path, tmp_path: Path
) -> None:
    (corpus / "broken.txt").write_bytes(b"\xff")
    arguments = ["train", str(corpus), "--name", "broken", "--vocab-size", "500"]
    ended = server.bpeline(*arguments, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-3].startswith("error: ")
    assert "Traceback" not in ended.stderr
    (run,) = server.runs_of("broken")
    assert re.fullmatch(r"broken-500 .*corpus/?", run["name"])
    assert run["state_type"] == "FAILED"
    assert "broken.txt" in run["state"]["message"]
    stored = list((Path(server.environment["PREFECT_HOME"]) / "storage").glob("*"))
    assert all(json.loads(path.read_text()) for path in stored), "Prefect keeps JSON, no pickles"


def test_a_flow_is_tried_again_after_its_own_error_alone(
    server: PrefectServer, tmp_path: Path
) -> None:
    program = """
from bpeline.flows.running import settings
settings.prepare_prefect(quiet_terminal=True)
from bpeline.flows.running import FlowKind, attempts
from bpeline.flows.serving import task
from prefect import flow
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus
ERRORS, tried = {"corrupt": CorruptFile, "empty": EmptyCorpus}, []
KIND = FlowKind("shaky", "shaky", (), hours=1, again_after=CorruptFile, attempts=2)
@task(name="shaky")
def shaky(item: int, error: str) -> int:
    tried.append(item)
    if len(tried) == 1:
        raise ERRORS[error]("broken")
    return 10 * item
@flow
def shaky_flow(error: str) -> list[int]:
    for attempt in attempts(KIND, print):
        with attempt:
            found = shaky.map_all([1, 2], 1, None, error=error)
    return found
print(shaky_flow("corrupt"), tried)
tried.clear()
try:
    shaky_flow("empty")
except EmptyCorpus as error:
    print(repr(error), tried)
"""
    ended = server.run([sys.executable, "-c", program], tmp_path)
    assert ended.returncode == 0, ended.stderr
    said, first, second = ended.stdout.splitlines()
    assert said.startswith("broken")
    assert first in {"[10, 20] [1, 1, 2]", "[10, 20] [1, 2, 1, 2]"}  # 2 may have begun
    assert second.startswith("EmptyCorpus('broken')")


def test_a_flow_that_takes_too_long_is_stopped_with_its_threads(
    server: PrefectServer, tmp_path: Path
) -> None:
    program = """
import time
from bpeline.flows.running import settings
settings.prepare_prefect(quiet_terminal=True)
from bpeline.flows.running import FlowKind, raise_if_stopped
from bpeline.flows.serving import flow, task
@task(name="endless")
def endless(item: int) -> int:
    for _ in range(12_000):
        raise_if_stopped()
        time.sleep(0.05)
    return item
kind = FlowKind("slow", "slow", (), hours=2 / 3600)
@flow(kind, run_name=lambda asked, result: "slow", about=lambda asked: "", called=str)
def slow(items: list[int]) -> int:
    return sum(endless.map_all(items, 2, None))
begun = time.monotonic()
state = slow([1, 2], return_state=True)
print(state.name, time.monotonic() - begun < 200)
"""
    ended = server.run([sys.executable, "-c", program], tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "TimedOut True"


def test_deployments_have_schedules_triggers_limits_and_forms_that_read_well(
    served: Served, server: PrefectServer, tmp_path: Path
) -> None:
    words = ("deploy", "--force", "--json", "--workspace", str(served.home))
    ended = server.bpeline(*words, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    deployments = {one["name"]: one for one in server.all("deployments")}
    assert sorted(deployments) == sorted(json.loads(ended.stdout)["deployed"])
    for name, deployment in deployments.items():
        assert deployment["enforce_parameter_schema"]
        assert deployment["global_concurrency_limit"]["limit"] == 1
        assert "bpeline" in deployment["tags"]
        assert deployment["description"]
        (step,) = deployment["pull_steps"]
        assert step["prefect.deployments.steps.set_working_directory"] == {
            "directory": str(ROOT / "bpeline")
        }
        schema, given = deployment["parameter_openapi_schema"], deployment["parameters"]
        described = schema["properties"]
        if "request" in given:
            assert described.keys() == {"request", "workspace"}
            described = schema["definitions"]["TrainingRequest"]["properties"]
            given = given["request"]
        assert given.keys() <= described.keys()
        for parameter, one in described.items():
            assert one["description"], f"{name}: {parameter}"
            assert one.get("type") or parameter == "vocab_size", f"{name}: {parameter}"
            assert one.get("default", "") is not None, f"{name}: {parameter}"
    retrain = deployments["retrain"]
    assert retrain["schedules"][0]["schedule"]["cron"] == "0 3 * * *"
    assert retrain["schedules"][0]["schedule"]["timezone"] == "UTC"
    assert retrain["schedules"][0]["slug"] == "nightly"
    assert retrain["concurrency_options"]["collision_strategy"] == "ENQUEUE"
    form = retrain["parameter_openapi_schema"]["definitions"]["TrainingRequest"]["properties"]
    assert form["tie_break"]["enum"] == ["smallest-ids", "greatest-bytes", "first-seen"]
    assert form["vocab_size"]["default"] == 32_000
    assert form["held_out"]["type"] == "number"
    assert (ROOT / retrain["parameters"]["request"]["rules"]).is_file()
    automations = {one["name"]: one for one in server.all("automations")}
    encoding = automations["encode-dataset when demo@champion moves"]
    assert encoding["trigger"]["expect"] == ["bpeline.alias.moved"]
    for _ in range(240):
        if server.all("flow_runs", flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}}):
            return
        time.sleep(1)
    raise AssertionError("the schedule creates no runs")


def test_what_a_project_schedules_runs_on_its_own_corpus(
    served: Served, server: PrefectServer, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    texts = [f"the newest news, number {n} of all, lower and lower" for n in range(300)]
    (tmp_path / "corpus/a.txt").write_text("<|end|>".join(texts))
    home = ("--workspace", str(served.home))

    def typed(*words: str) -> str:
        ended = server.bpeline(*words, *home, folder=tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    typed("init", "corpus/", "--name", "own", "--vocab-size", "300", "--special-token", "<|end|>")
    file = tmp_path / "bpeline.toml"
    written = file.read_text()
    for line in ("encode-dataset =", "sweep-garbage ="):
        assert f"# {line}" in written
        written = written.replace(f"# {line}", line)
    file.write_text(written)
    said = rf"\w+: encode-dataset-own, sweep-garbage-own\n\w+ {file}\n"
    assert re.fullmatch(said, typed("deploy"))
    typed("train")
    typed("promote", "own@candidate")
    moved = served.ended("encode-dataset-own")
    assert moved["created_by"]["type"] == "AUTOMATION", "it runs when champion moves"
    assert re.fullmatch(r"own/1 .*corpus/?", moved["name"])
    assert len(TokenShards(served.home / "tokens" / "own-1")) == len(texts)
    for name in ("encode-dataset-own", "sweep-garbage-own"):  # as their schedules ask
        number = served.deployments[name]["id"]
        server.ask(f"/deployments/{number}/create_flow_run", {})
    assert served.ended("encode-dataset-own", 2)["parameters"]["reference"] == "own@champion"
    assert "removed" in served.ended("sweep-garbage-own")["name"]
    file.write_text(written.partition("[schedule]")[0])
    assert "encode-dataset-own, sweep-garbage-own" in typed("deploy", "--remove")


def test_what_a_projects_file_names_no_more_is_said_and_removed_when_asked(
    served: Served, server: PrefectServer, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    table = '[schedule]\nretrain = "0 3 1 1 *"\nwatch-drift = "0 4 1 1 *"\n'
    text = f'[train]\nname = "before"\npaths = ["corpus/"]\nvocab_size = 300\n{table}'
    file, home = tmp_path / "small.toml", ("--workspace", str(served.home))

    def deployed(text: str, *more: str) -> str:
        file.write_text(text)
        words = ("deploy", "--project", str(file), *home, *more)
        ended = server.bpeline(*words, folder=tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def there() -> set[str]:
        tag = {"tags": {"all_": [f"project:{file}"]}}
        return {one["name"] for one in server.all("deployments", deployments=tag)}

    said = rf"\w+: retrain-before, watch-drift-before\n\w+ {file}\n"
    assert re.fullmatch(said, deployed(text))
    assert re.fullmatch(said, deployed(text)), "twice is once"
    renamed = text.replace("before", "after").replace('watch-drift = "0 4 1 1 *"\n', "")
    said = deployed(renamed)
    assert "retrain-before, watch-drift-before" in said
    assert "bpeline deploy" in said
    assert there() == {"retrain-before", "watch-drift-before", "retrain-after"}
    told = json.loads(deployed(renamed, "--remove", "--json"))
    assert told == {
        "deployed": ["retrain-after"],
        "left": ["retrain-before", "watch-drift-before"],
        "removed": True,
        "file": str(file),
        "notes": [],
    }
    assert there() == {"retrain-after"}
    # Without [schedule] nothing is deployed, and what is left is named all the same.
    alone = renamed.partition("[schedule]")[0]
    said = deployed(alone)
    assert re.search(r"retrain-after\n.*bpeline deploy", said)
    assert there() == {"retrain-after"}
    assert "retrain-after" in deployed(alone, "--remove")
    assert there() == set()
    assert "retrain" not in deployed(alone, "--remove"), "again is no error"
    never = server.bpeline("deploy", "--project", str(file), *home, folder=tmp_path)
    assert never.returncode == 2
    assert str(file) in never.stderr


@pytest.fixture
def team(served: Served, server: PrefectServer, tmp_path: Path) -> Callable[..., Any]:
    """Deploys a project of a name by a command, as JSON; an exit code other than 0 is an error."""
    table = '[schedule]\nretrain = "0 3 1 1 *"\nwatch-drift = "0 4 1 1 *"\n'
    (tmp_path / "corpus").mkdir()

    def deploy(
        name: str, *more: str, home: Path = served.home, size: int = 300, code: int = 0
    ) -> Any:
        file = tmp_path / f"{home.name}.toml"
        train = f'[train]\nname = "{name}"\npaths = ["corpus/"]\nvocab_size = {size}\n'
        file.write_text(train + table)
        words = ("deploy", "--json", "--project", str(file), "--workspace", str(home), *more)
        ended = server.bpeline(*words, folder=tmp_path)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stderr if code else json.loads(ended.stdout)

    return deploy


def test_what_was_paused_in_prefect_stays_paused_and_all_else_is_what_the_file_says(
    served: Served, server: PrefectServer, team: Callable[..., Any]
) -> None:
    assert team("kept")["notes"] == []
    retrain, watch = (served.deployments[f"{job}-kept"] for job in ("retrain", "watch-drift"))
    place, (schedule,) = f"/deployments/{retrain['id']}", retrain["schedules"]
    server.ask(f"{place}/schedules/{schedule['id']}", {"active": False}, "PATCH")
    (automation,) = [
        one for one in server.all("automations") if one["name"].startswith("retrain-kept")
    ]
    server.ask(f"/automations/{automation['id']}", {"enabled": False}, "PATCH")
    changes = {"paused": True, "parameters": {"name": "kept", "paths": []}}
    server.ask(f"/deployments/{watch['id']}", changes, "PATCH")
    (schedule,) = watch["schedules"]
    server.ask(f"/deployments/{watch['id']}/schedules/{schedule['id']}", method="DELETE")

    notes = team("kept", size=400)["notes"]
    facts = [("retrain-kept", "project"), (automation["name"],), ("watch-drift-kept",)]
    for note, said in zip(notes, facts, strict=True):
        assert note.startswith("kept: ")
        assert all(fact in note for fact in (*said, "paused")), note

    paths = watch["parameters"]["paths"]
    retrain, watch = (served.deployments[f"{job}-kept"] for job in ("retrain", "watch-drift"))
    assert [(one["slug"], one["active"]) for one in retrain["schedules"]] == [("project", False)]
    assert watch["paused"]
    assert [one["active"] for one in watch["schedules"]] == [True]
    assert watch["parameters"]["paths"] == paths
    assert retrain["parameters"]["request"]["vocab_size"] == 400
    (automation,) = [
        one for one in server.all("automations") if one["name"].startswith("retrain-kept")
    ]
    assert not automation["enabled"]

    assert team("kept", "--force", size=400)["notes"] == []
    retrain, watch = (served.deployments[f"{job}-kept"] for job in ("retrain", "watch-drift"))
    assert [one["active"] for one in retrain["schedules"] + watch["schedules"]] == [True, True]
    assert not watch["paused"]


def test_another_mlflow_s_deployments_of_the_same_name_are_not_overwritten(
    served: Served, server: PrefectServer, team: Callable[..., Any], tmp_path: Path
) -> None:
    team("shared")
    before = served.deployments["retrain-shared"]["parameters"]
    other = tmp_path / "other"
    refused = team("shared", home=other, size=400, code=2)
    assert "retrain-shared, watch-drift-shared" in refused
    assert served.deployments["retrain-shared"]["parameters"] == before
    team("shared", "--force", home=other)
    assert "retrain-shared, watch-drift-shared" in team("shared", code=2)
    # A checkout elsewhere that has the same MLflow is the same project.
    (tmp_path / "other.toml").rename(tmp_path / "moved.toml")
    environment = {"BPELINE_HOME": str(other)}
    words = ("deploy", "--project", "moved.toml", "--json")
    ended = server.bpeline(*words, folder=tmp_path, **environment)
    assert ended.returncode == 0, ended.stderr


def test_prefect_s_own_command_does_not_deploy_for_no_workspace(
    server: PrefectServer, tmp_path: Path
) -> None:
    command = [
        *PREFECT,
        "--no-prompt",
        "deploy",
        "--all",
        "--prefect-file",
        str(ROOT / "prefect.yaml"),
    ]
    ended = server.run(command, tmp_path)
    assert ended.returncode
    assert "`bpeline deploy`" in ended.stdout + ended.stderr


def test_a_run_for_another_mlflow_ends_by_name(served: Served, server: PrefectServer) -> None:
    assert (served.home / "prefect/prefect.db").is_file()
    sweeping = served.deployments["sweep-garbage"]
    assert sweeping["work_queue_name"] == Workspace(served.home).id
    place = f"/deployments/{sweeping['id']}"
    server.ask(place, {"tags": ["mlflow:other"]}, "PATCH")
    run = server.ask(f"{place}/create_flow_run", {})["id"]

    def state() -> Any:
        found = server.ask(f"/flow_runs/{run}")["state"]
        return found if found["type"] in ENDED else None

    ended = waiting_for("end of the run", state, PATIENCE)
    server.ask(place, {"tags": sweeping["tags"]}, "PATCH")
    assert ended["type"] == "FAILED"
    assert re.search(rf"\bother\b.*{served.home}\b", ended["message"])
