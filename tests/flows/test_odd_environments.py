"""Every command in odd environments: a known exit code, no traceback, nothing unforeseen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from every_command import COMMANDS
from published import copied

from bpeline.flows.cli.main import FILE_OF

PROGRAM = "from bpeline.script import main; main()"
# What the shell does first, and variables; None takes one away.
ENVIRONMENTS: dict[str, tuple[str, dict[str, str | None]]] = {
    "no HOME": ("", {"HOME": None}),
    "C locale": ("", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "umask 077": ("umask 077;", {}),
    "closed input": ("exec <&-;", {}),
    "closed output": ("exec >&-;", {}),
    "closed errors": ("exec 2>&-;", {}),
    "all closed": ("exec <&- >&- 2>&-;", {}),
    "full output": ("exec >/dev/full;", {}),
    "full errors": ("exec 2>/dev/full;", {}),
    "no reader": ("exec > >(exec true);", {}),
    "input that is a directory": ("exec </;", {}),
    "20 columns": ("", {"COLUMNS": "20"}),
    "odd folder": ("""cp -r . "../a b'c\\"d#e%zz"; cd "../a b'c\\"d#e%zz";""", {}),
    "optimized": ("", {"PYTHONOPTIMIZE": "2"}),
}
KNOWN = {0, 1, 2, 3, 4}


def run(command: str, folder: Path, environment: str) -> subprocess.CompletedProcess[bytes]:
    before, variables = ENVIRONMENTS.get(environment, ("", {}))
    inherited = {**os.environ, "PREFECT_LOGGING_LEVEL": "WARNING", **variables}
    shell = f'{before} exec "$0" "$@"'
    return subprocess.run(
        ["bash", "-c", shell, sys.executable, "-c", PROGRAM, *command.split()],
        env={name: value for name, value in inherited.items() if value is not None},
        cwd=folder,
        input=b"low lower lowest\n",
        capture_output=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with a workspace that holds two versions, and an export."""
    return folder_after(begin="small")


def test_every_command_is_among_these() -> None:
    assert {*FILE_OF} - {command.split()[0] for command in COMMANDS} == set()


@pytest.mark.night
@pytest.mark.combinations
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_environment_is_unforeseen(
    command: str, environment: str, trained: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    copied(trained, folder)
    done = run(command, folder, environment)
    printed = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode in KNOWN, printed
    assert "Traceback" not in printed
    assert "unexpected error" not in printed
    assert "Exception ignored" not in printed
