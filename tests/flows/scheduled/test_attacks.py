"""What another user of this machine, and whoever has the password, can do to `bpeline serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from loopback import waiting_for
from prefect_server import PrefectServer
from served import Served

pytestmark = pytest.mark.night

ROOT = Path(__file__).parents[3]
# Prints the status of each request, then why the password cannot be read.
ANOTHER_USER = """
import encodings.idna, json, os, sys, urllib.error, urllib.request
requests, password = json.load(sys.stdin)
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for method, address, content in requests:
    for more in {}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}:
        headers = {"Content-Type": "application/json", **more}
        body = json.dumps(content).encode()
        try:
            urllib.request.urlopen(urllib.request.Request(address, body, headers, method=method))
            print("done")
        except urllib.error.HTTPError as error:
            print(error.code)
try:
    print(open(password).read() if os.getuid() == 65534 else "Permission denied")
except OSError as error:
    print(error.strerror)
"""


def test_another_user_and_another_site_change_nothing(served: Served) -> None:
    prefect, mlflow = served.server.url, f"http://127.0.0.1:{served.mlflow}/api/2.0"
    requests = [
        ("POST", f"{prefect}/flows/", {"name": "theirs"}),
        ("POST", f"{prefect}/deployments/", {"name": "theirs", "work_pool_name": "bpeline"}),
        ("GET", f"{prefect.removesuffix('/api')}/docs", None),
        ("POST", f"{mlflow}/mlflow/registered-models/alias", {"name": "demo", "alias": "champion"}),
        ("PUT", f"{mlflow}/mlflow-artifacts/artifacts/1/models/mlflow_model.py", "import os"),
        ("POST", f"{mlflow}/mlflow/experiments/create", {"artifact_location": "file:///etc"}),
        ("GET", f"{mlflow}/mlflow-artifacts/artifacts?path=1", None),
    ]
    asked = json.dumps([requests, str(served.home / "server-password")])
    program = [sys.executable, "-c", ANOTHER_USER]
    done = subprocess.run(program, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *statuses, reason = done.stdout.splitlines()
    assert statuses == ["401", "403", "403"] * len(requests)
    assert reason == "Permission denied"
    assert "theirs" not in {one["name"] for one in served.server.all("flows")}


def test_with_the_password_the_worker_runs_only_what_bpeline_deploys(
    served: Served, tmp_path: Path
) -> None:
    flow = served.server.ask("/flows/", {"name": "theirs"})["id"]
    done = tmp_path / "done"
    (tmp_path / "evil.py").write_text(f"open({str(done)!r}, 'w')\n")
    ours = served.deployments["sweep-garbage"]
    shell = {"prefect.deployments.steps.run_shell_script": {"script": f"touch {done}"}}

    def deployed(name: str, **more: Any) -> Any:
        queue = {"work_pool_name": "bpeline", "work_queue_name": ours["work_queue_name"]}
        content = {"name": name, "flow_id": flow, **queue, **more}
        return served.server.ask("/deployments/", content)["id"]

    for more in {"command": f"touch {done}"}, {"working_dir": "/"}, {"env": {"LD_PRELOAD": "a"}}:
        with pytest.raises(HTTPError, match="422"):
            deployed("variables", job_variables=more)
        with pytest.raises(HTTPError, match="422"):
            served.server.ask(f"/deployments/{ours['id']}/create_flow_run", {"job_variables": more})
    steps, entrypoint = ours["pull_steps"], ours["entrypoint"]
    made = [
        deployed("entrypoint", entrypoint=f"{tmp_path}/evil.py:flow", pull_steps=steps),
        deployed("steps", entrypoint=entrypoint, pull_steps=[shell, *steps]),
        deployed("nothing"),
    ]
    template = served.server.ask("/work_pools/bpeline")["base_job_template"]
    open_to_all = {"job_configuration": {"command": "{{ command }}"}, "variables": {
        "type": "object", "properties": {"command": {"type": "string"}}}}  # fmt: skip
    served.server.ask("/work_pools/bpeline", {"base_job_template": open_to_all}, "PATCH")
    variables = {"command": f"touch {done}"}
    try:
        more = {"entrypoint": entrypoint, "pull_steps": steps, "job_variables": variables}
        made.append(deployed("command", **more))
        runs = [served.server.ask(f"/deployments/{one}/create_flow_run", {})["id"] for one in made]
    finally:
        served.server.ask("/work_pools/bpeline", {"base_job_template": template}, "PATCH")
    states = []
    for run in runs:

        def look(run: str = run) -> Any:
            state = served.server.ask(f"/flow_runs/{run}")["state"]
            return state if state["type"] == "CRASHED" else None

        states.append(waiting_for("end of a run", look, 180)["message"])
    assert ["flows that" in one for one in states] == [True, False, True, False]
    assert "pull steps" in states[1]
    assert "does not set command" in states[3]
    assert not done.exists()
    for one in made:
        served.server.ask(f"/deployments/{one}", method="DELETE")


def made(server: PrefectServer, pool: str) -> Any:
    """The pool after `bpeline deploy` has seen it."""
    program = (
        "import sys; from bpeline.flows.serving import work_pool; "
        "from prefect.client.orchestration import get_client\n"
        "with get_client(sync_client=True) as client: work_pool.make(client, sys.argv[1], False)"
    )
    done = server.run([sys.executable, "-c", program, pool], ROOT)
    assert done.returncode == 0, done.stderr
    return server.ask(f"/work_pools/{pool}")


def test_a_pool_that_others_made_is_left_alone(served: Served) -> None:
    server = served.server
    strict = server.ask("/work_pools/bpeline")["base_job_template"]
    assert strict["variables"]["additionalProperties"] is False
    theirs = {"name": "theirs", "type": "docker", "base_job_template": {
        "job_configuration": {"image": "{{ image }}"},
        "variables": {"type": "object", "properties": {"image": {"type": "string"}}}}}  # fmt: skip
    server.ask("/work_pools/", theirs)
    assert made(server, "theirs")["base_job_template"] == theirs["base_job_template"]
    assert made(server, "new")["base_job_template"] == strict
    usual = (
        "from prefect.workers.process import ProcessWorker as W; import json; "
        "print(json.dumps(W.get_default_base_job_template()))"
    )
    template = json.loads(server.run([sys.executable, "-c", usual], ROOT).stdout)
    server.ask("/work_pools/", {"name": "old", "type": "process", "base_job_template": template})
    assert made(server, "old")["base_job_template"] == template


def test_runs_whose_process_is_gone_are_marked_at_the_next_start(served: Served) -> None:
    server = served.server
    flow = server.ask("/flows/", {"name": "lost"})["id"]
    running = {"flow_id": flow, "state": {"type": "RUNNING"}}
    living, gone = (server.ask("/flow_runs/", running)["id"] for _ in range(2))
    with subprocess.Popen(["true"]) as ended:
        pass
    for run, pid in (living, os.getpid()), (gone, ended.pid):
        label = json.dumps({"pid": pid, "host": os.uname().nodename, "birth": ""})
        server.ask(f"/flow_runs/{run}/labels", {"bpeline.process": label}, "PATCH")
    program = "from bpeline.flows.serving.prefect_worker import mark_lost_runs; mark_lost_runs()"
    done = server.run([sys.executable, "-c", program], ROOT, BPELINE_HOME=str(served.home))
    assert done.returncode == 0, done.stderr
    assert server.ask(f"/flow_runs/{living}")["state_type"] == "RUNNING"
    assert server.ask(f"/flow_runs/{gone}")["state_type"] == "CRASHED"
    server.ask(f"/flow_runs/{living}", method="DELETE")
