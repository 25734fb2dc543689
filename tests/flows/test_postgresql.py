"""Catalogue, MLflow and Prefect on one real PostgreSQL: a training, its version, both servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import asked, free_ports
from postgres import PostgresServer

from bpeline import flows

ROOT = Path(flows.__file__).parents[1]
PROGRAM = "from bpeline.flows.cli.main import main; main()"
LOAD = (
    "from bpeline.registry import load_tokenizer; print(load_tokenizer('news@champion').vocab_size)"
)

psycopg = pytest.importorskip("psycopg")


def on_postgres(postgres: PostgresServer, home: Path) -> dict[str, str]:
    """The environment of a machine whose three services are databases of a server."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BPELINE_HOME": str(home),
        "BPELINE_CATALOGUE_URL": postgres.new_url(),
        "MLFLOW_TRACKING_URI": postgres.new_url(),
        "PREFECT_API_DATABASE_CONNECTION_URL": postgres.new_url("asyncpg"),
        "PREFECT_HOME": str(home.with_name("prefect")),
    }


def run(*command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.night
def test_everything_on_postgresql(
    postgres: PostgresServer, corpus: Path, tmp_path: Path, warm: Path
) -> None:
    home = tmp_path / "on-postgres"
    env = on_postgres(postgres, home)
    prefect, mlflow = free_ports(2)
    said: list[str] = []

    def bpeline(*arguments: str) -> str:
        done = run(str(warm / "bpeline"), *arguments, env={**env, "PREFECT_API_URL": api})
        said.extend((done.stdout, done.stderr))
        assert done.returncode == 0, done.stderr
        return done.stdout

    api = f"http://127.0.0.1:{prefect}/api"
    server = [sys.executable, "-u", "-c", PROGRAM, "serve", "--prefect-port", str(prefect),
              "--mlflow-port", str(mlflow)]  # fmt: skip
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True, env=env) as served:
        assert served.stdout is not None
        try:
            for line in served.stdout:
                said.append(line)
                if "Ctrl-C" in line:
                    break
            secret = (home / "server-password").read_text().strip()
            env["PREFECT_API_AUTH_STRING"] = f"bpeline:{secret}"
            commands = Path("/proc").glob("[0-9]*/cmdline")
            seen_by_all = b"".join(command.read_bytes() for command in commands if command.exists())
            assert postgres.password.encode() not in seen_by_all
            trained = bpeline("train", str(corpus), "--name", "news", "--vocab-size", "300")
            assert "news/1" in trained
            assert f"http://127.0.0.1:{mlflow}/#/models/news/versions/1" in trained
            shown = f"http://127.0.0.1:{mlflow}/api/2.0/mlflow/registered-models/get?name=news"
            model = asked(shown, Authorization=f"Bearer {secret}")["registered_model"]
            assert model["latest_versions"][0]["version"] == "1"
            bpeline("promote", "news/1")
            (version,) = json.loads(bpeline("versions", "--json"))
            assert version["aliases"] == ["candidate", "champion"]
            bpeline("doctor")
        finally:
            served.send_signal(signal.SIGTERM)
            said.append(served.stdout.read())
    loaded = run(sys.executable, "-c", LOAD, env=env)
    assert loaded.stdout.strip() == "300", loaded.stderr
    flow_runs = "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'"
    database = env["PREFECT_API_DATABASE_CONNECTION_URL"].replace("+asyncpg", "")
    with psycopg.connect(database) as connection:
        assert connection.execute(flow_runs).fetchone() == (1,)
    assert list(home.glob("*.sqlite")) == []
    assert postgres.password not in "".join(said)
    for path in (*home.rglob("*"), *(tmp_path / "prefect").rglob("*")):
        assert not path.is_file() or postgres.password.encode() not in path.read_bytes(), path
    shutil.rmtree(tmp_path / "prefect", ignore_errors=True)
