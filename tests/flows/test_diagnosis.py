"""``bpeline doctor``: what it looks at, and when it says that something is broken."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import Result
from s3_server import S3Server

from bpeline.flows.cli import diagnosis
from bpeline.flows.cli.diagnosis import Finding
from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.errors import BpelineError

Command = Callable[..., Result]


def findings_of(result: Result) -> dict[str, dict[str, str]]:
    """Those that `--json` prints, by their subjects."""
    return {one["subject"]: one for one in json.loads(result.stdout)}


def test_a_healthy_machine(bpeline: Command) -> None:
    open_registry()
    result = bpeline("doctor", "--json")
    findings = findings_of(result)
    assert findings["python"]["state"] == "ok"
    assert findings["workspace"]["state"] == "ok"
    assert {"numpy", "sqlalchemy", "mlflow", "prefect"} <= findings.keys()
    assert "distributed" not in findings, "it belongs to an extra"
    broken = [one for one in findings.values() if one["state"] == "broken"]
    assert result.exit_code == (1 if broken else 0)
    assert not broken


def test_looking_makes_no_workspace(tmp_path: Path, bpeline: Command) -> None:
    found = findings_of(bpeline("doctor", "--json"))["workspace"]
    assert (found["state"], str(tmp_path / ".bpeline") in found["found"]) == ("note", True)
    assert not (tmp_path / ".bpeline").exists()


@pytest.mark.night
def test_servers_are_looked_at_before_there_is_a_workspace(
    tmp_path: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("BPELINE_CATALOGUE_URL", "postgresql+psycopg://u@127.0.0.1:1/d")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("BPELINE_STORE", f"file://{tmp_path}/no/such/place")
    result = bpeline("doctor", "--json")
    findings = findings_of(result)
    for subject in ("catalogue", "mlflow server", "store"):
        assert findings[subject]["state"] == "broken"
    assert (result.exit_code, findings["disk"]["state"]) == (1, "ok")
    assert list(tmp_path.iterdir()) == []


class ReadOnlyStore(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # clients wait for its "100 Continue"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.night
def test_a_store_that_refuses_what_is_written_is_broken(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)

    def found(bucket: str) -> Finding:
        monkeypatch.setenv("BPELINE_STORE", f"s3://{bucket}/ws")
        return next(one for one in diagnosis.examine() if one.subject == "store")

    assert found(s3.bucket).state == "ok"
    assert s3.keys("ws/") == []  # it is removed
    nowhere = found("no-such-bucket")
    assert nowhere.state == "broken"
    with ThreadingHTTPServer(("127.0.0.1", 0), ReadOnlyStore) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        s3fs.S3FileSystem.clear_instance_cache()  # they keep the address
        refused = found("bucket")
        s3fs.S3FileSystem.clear_instance_cache()
        server.shutdown()
    assert (refused.state, "Forbidden" in refused.found) == ("broken", True)
    assert "credentials" in refused.advice


def older(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'b7e2c1a4d9f3'")


def unfinished(path: Path) -> None:
    """As a process leaves it that is killed while it writes."""
    if not (child := os.fork()):
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA cache_size = 1")
        rows = [(str(number), "x" * 500) for number in range(500)]
        connection.executemany(
            "INSERT INTO registered_models (name, description) VALUES (?, ?)", rows
        )
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.night
@pytest.mark.usefixtures("quick_mlflow")
@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        (lambda path: None, "ok", "mlflow.sqlite"),
        (older, "note", "another MLflow made it"),
        (unfinished, "note", "unfinished transaction"),
        (lambda path: path.write_bytes(b"hello" * 1000), "broken", "not a database"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "broken", "malformed"),
    ],
)
def test_mlflows_database_is_looked_at(
    bpeline: Command, change: Callable[[Path], None], state: str, says: str
) -> None:
    registry = open_registry()
    path = registry.workspace.root / "mlflow.sqlite"
    found = findings_of(bpeline("doctor", "--json"))["mlflow database"]
    assert (found["state"], str(path) in found["found"]) == ("ok", True)
    assert not path.exists(), "looking makes none"
    registry.tracker.prepare()
    change(path)
    before = path.read_bytes()
    found = findings_of(bpeline("doctor", "--json"))["mlflow database"]
    assert (found["state"], says in found["found"]) == (state, True)
    assert path.read_bytes() == before


def test_an_unsuitable_package_is_broken(bpeline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["numpy>=2", "sqlalchemy<2.0.46,>=2.0.45", "nosuchpackage>=1"]
    monkeypatch.setattr(diagnosis, "requires", lambda _: required)
    result = bpeline("doctor")
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("broken")]
    assert [line.split()[1] for line in lines] == ["sqlalchemy", "nosuchpackage"]
    assert "sqlalchemy>=2.0.45,<2.0.46" in result.stdout


def test_a_package_newer_than_what_was_tested_is_named(
    bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert diagnosis.versions_tested().keys() >= {"numpy", "sqlalchemy", "pyyaml"}
    older = {"numpy": "2.0.1", "sqlalchemy": "99", "prefect": "3.8.8rc1"}
    monkeypatch.setattr(diagnosis, "versions_tested", lambda: older)
    findings = findings_of(bpeline("doctor", "--json"))
    newer = {name: findings[name]["state"] for name in older}
    assert newer == {"numpy": "note", "sqlalchemy": "ok", "prefect": "note"}
    assert "2.0.1" in findings["numpy"]["found"]
    assert f"--constraint {diagnosis.CONSTRAINTS} numpy`" in findings["numpy"]["advice"]


def test_a_damaged_workspace_is_broken(tmp_path: Path, bpeline: Command) -> None:
    workspace = open_registry().workspace
    workspace.manifest.write_text("{")
    result = bpeline("doctor")
    assert result.exit_code == 1
    assert "workspace.json" in result.stdout


def test_a_run_at_work_is_named(bpeline: Command) -> None:
    with open_registry().workspace.lock("training 'news': learn merges"):
        result = bpeline("doctor")
    assert "learn merges" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(("mode", "whom"), [(0o755, "go"), (0o2775, "o"), (0o2770, "")])
def test_a_workspace_that_others_may_read_is_named_with_what_to_type(
    bpeline: Command, mode: int, whom: str
) -> None:
    root = open_registry().workspace.root
    root.chmod(mode)
    result = bpeline("doctor")
    assert result.exit_code == 0
    assert (f"{root} (mode {mode:o})" in result.stdout) == bool(whom)
    assert (f"chmod {whom}-rwx {root}" in result.stdout) == bool(whom)


def test_a_configured_prefect_server_that_is_down_is_broken(
    bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    result = bpeline("doctor")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9/api (PREFECT_API_URL)" in result.stdout


def test_kernels_without_a_place_are_a_note_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.tokenizer_core.kernels.compiling import machine_code

    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path))
    tmp_path.chmod(0o770)
    monkeypatch.setattr(machine_code, "_found", machine_code._found.__wrapped__)
    finding = next(one for one in diagnosis.examine() if one.subject == "kernels")
    assert finding.state == "note"
    assert f"{tmp_path} (mode 770)" in finding.found
    assert shlex.split(finding.advice) == ["chmod", "go-w", str(tmp_path)]


def test_the_state_of_the_kernels_cache_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.tokenizer_core.kernels.compiling import machine_code

    def told() -> diagnosis.Finding:
        return next(one for one in diagnosis.examine() if one.subject == "kernels")

    directory = tmp_path / "0123456789abcdef"
    directory.mkdir()
    monkeypatch.setattr(machine_code, "_found", lambda: directory)
    assert (told().state, "`bpeline doctor --compile`" in told().advice) == ("note", True)
    (directory / "kernel.nbc").write_bytes(b"x" * 3_000_000)
    (directory / "kernel.nbi").write_bytes(b"x")
    assert told().state == "ok"
    assert "1 compiled, 3.0 MB" in told().found
    older = tmp_path / "fedcba9876543210"
    older.mkdir()
    (older / "kernel.nbc").write_bytes(b"x" * 2_000_000)
    assert "2.0 MB" in told().found


def test_fast_paths_that_are_off_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from bpeline.tokenizer_core.kernels.compiling import compilation

    def told() -> dict[str, diagnosis.Finding]:
        found = (one for one in diagnosis.examine() if one.subject.startswith("fast "))
        return {one.subject: one for one in found}

    assert told() == {}
    monkeypatch.setattr(compilation, "TRIED", ((0, 1), (0, 2)))
    assert told().keys() == {"fast kernels"}
    monkeypatch.setenv("BPELINE_PLAIN_NUMBA", "1")
    assert told()["fast kernels"].advice == "unset BPELINE_PLAIN_NUMBA"
    for finding in told().values():
        assert finding.state == "note"
        assert finding.found.startswith("OFF: ")
        assert finding.advice


def test_what_is_not_compiled_yet_is_compiled_on_request(
    bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def compile_all() -> Iterator[tuple[str, float]]:
        done.append("all of it")
        yield "all of it", 1.25

    def examine() -> list[Finding]:
        return [Finding("ok", "before this", str(len(done)))]

    monkeypatch.setattr("bpeline.tokenizer_core.warm_up.compile_all", compile_all)
    monkeypatch.setattr(diagnosis, "examine", examine)
    assert bpeline("doctor").stdout.split() == ["ok", "before", "this", "0"]
    said = bpeline("doctor", "--compile").stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in said] == [
        "compiled         all of it, 1.2 s",
        "before this      1",
    ]
    findings = json.loads(bpeline("doctor", "--compile", "--json").stdout)
    assert [finding["subject"] for finding in findings] == ["compiled", "before this"]


@pytest.mark.night
@pytest.mark.usefixtures("quick_mlflow")
def test_an_mlflow_that_was_here_and_is_not_is_broken(bpeline: Command) -> None:
    registry = open_registry()
    registry.make_store()
    path = registry.workspace.root / "mlflow.sqlite"
    for lose in (lambda: path.write_bytes(b""), path.unlink):
        lose()
        found = findings_of(bpeline("doctor", "--json"))["versions"]
        assert found["state"] == "broken"
        assert "sqlite" in found["found"]
        assert "bpeline doctor --fix" in found["advice"]


@pytest.mark.parametrize("left", ["nothing", "its folder", "files written since", "the workspace"])
def test_where_mlflow_looks_for_files_of_a_moved_workspace_is_said_with_what_to_type(
    folder_after: Callable[..., Path], left: str, tmp_path: Path, bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    former, here = folder_after(begin="small") / ".bpeline", tmp_path / "a b'c" / ".bpeline"
    shutil.copytree(former, here)
    if left != "the workspace":
        shutil.rmtree(former)
    if left == "its folder":
        former.mkdir()
    elif left == "files written since":
        (former / "mlflow-artifacts/new").mkdir(parents=True)
    monkeypatch.chdir(here.parent)
    found = findings_of(bpeline("doctor", "--json"))["mlflow files"]
    assert f"the files of v in {former / 'mlflow-artifacts'}, because" in found["found"]
    assert load_tokenizer("v@candidate").digest == load_tokenizer("v/2").digest
    if left == "the workspace":
        assert "`bpeline delete` removes files of both" in found["advice"]
        return

    def fetch() -> None:
        open_registry().tracker.models.download_version("v", 1, ["vocab.json"], tmp_path)

    with pytest.raises(BpelineError):
        fetch()
    subprocess.run(["bash", "-c", found["advice"].split("`")[1]], check=True)
    fetch()
    assert (here / "mlflow-artifacts/new").is_dir() == (left == "files written since")
    assert "mlflow files" not in findings_of(bpeline("doctor", "--json"))


@pytest.mark.night
@pytest.mark.parametrize("words", ["bpeline doctor", f"bpeline compress {__file__}", "import"])
def test_a_compiler_that_is_switched_off_is_said_with_what_to_unset(
    words: str, tmp_path: Path
) -> None:
    program = "from bpeline.script import main; main()"
    if words == "import":
        program = "from bpeline import train_bpe"
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()[1:]],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "`unset NUMBA_DISABLE_JIT`" in done.stdout + done.stderr
    assert "partially initialized" not in done.stderr
