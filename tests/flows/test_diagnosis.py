"""``bpeline doctor``: what it looks at, and when it says that something is broken."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from bpeline import flows
from bpeline.flows import diagnosis
from bpeline.flows.diagnosis import KNOWN_GOOD, Finding, within
from bpeline.registry.opening import open_registry

Command = Callable[..., Result]


def test_the_known_good_versions_are_those_of_the_project_file() -> None:
    project = tomllib.loads((Path(flows.__file__).parents[1] / "pyproject.toml").read_text())
    declared = {}
    for line in project["project"]["dependencies"]:
        name, ranges = re.match(r"([\w.-]+)(.*)", line).groups()  # type: ignore[union-attr]
        lowest = re.search(r">=([\d.]+)", ranges)
        below = re.search(r"<([\d.]+)", ranges)
        declared[name] = (lowest and lowest[1], below and below[1])
    assert declared == KNOWN_GOOD


@pytest.mark.parametrize(
    ("found", "lowest", "below", "good"),
    [
        ("2.0.45", "2.0.45", "2.1", True),
        ("2.0.44", "2.0.45", "2.1", False),
        ("2.1.0", "2.0.45", "2.1", False),
        ("2.1.0b3", "2.0.45", "2.1", False),
        ("2.0.100", "2.0.45", "2.1", True),
        ("10.0", "9", None, True),
        ("2", "2.0.0", None, True),
        ("2026.11.15", "2026.1", None, True),
        ("0.150.0.post1", "0.139", "0.151", True),
    ],
)
def test_versions_are_compared_as_numbers(
    found: str, lowest: str, below: str | None, good: bool
) -> None:
    assert within(found, lowest, below) is good


def test_a_healthy_machine(bpeline: Command) -> None:
    open_registry()
    result = bpeline("doctor", "--json")
    findings = {one["subject"]: one for one in json.loads(result.stdout)}
    assert findings["python"]["state"] == "ok"
    assert findings["workspace"]["state"] == "ok"
    assert KNOWN_GOOD.keys() <= findings.keys()
    broken = [one for one in findings.values() if one["state"] == "broken"]
    assert result.exit_code == (1 if broken else 0)
    assert not broken


def test_looking_makes_no_workspace(tmp_path: Path, bpeline: Command) -> None:
    assert "does not exist yet" in bpeline("doctor").stdout
    assert not (tmp_path / ".bpeline").exists()


def test_an_unsuitable_package_is_broken(bpeline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN_GOOD, "sqlalchemy", ("2.0.45", "2.0.46"))
    monkeypatch.setitem(KNOWN_GOOD, "nosuchpackage", ("1", None))
    result = bpeline("doctor")
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("broken")]
    assert [line.split()[1] for line in lines] == ["sqlalchemy", "nosuchpackage"]


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


def test_a_configured_prefect_server_that_is_down_is_broken(
    bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    result = bpeline("doctor")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9/api (PREFECT_API_URL) does not answer" in result.stdout


def test_kernels_without_a_place_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    from bpeline.tokenizer_core.kernels import compilation

    monkeypatch.setattr(compilation, "cache_directory", lambda: None)
    finding = next(one for one in diagnosis.examine() if one.subject == "kernels")
    assert finding.state == "note"
    assert "BPELINE_KERNEL_CACHE" in finding.advice


def test_the_state_of_the_kernels_cache_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.tokenizer_core.kernels import compilation

    def told() -> diagnosis.Finding:
        return next(one for one in diagnosis.examine() if one.subject == "kernels")

    directory = tmp_path / "0123456789abcdef"
    directory.mkdir()
    monkeypatch.setattr(compilation, "cache_directory", lambda: directory)
    assert (told().state, "none compiled yet" in told().found) == ("note", True)
    (directory / "kernel.nbc").write_bytes(b"x" * 3_000_000)
    (directory / "kernel.nbi").write_bytes(b"x")
    assert told().state == "ok"
    assert "1 compiled, 3.0 MB" in told().found
    older = tmp_path / "fedcba9876543210"
    older.mkdir()
    (older / "kernel.nbc").write_bytes(b"x" * 2_000_000)
    assert "1 of other versions, 2.0 MB" in told().found


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
