"""The program of `warm_commands` does what the installed one does, and ends when it is ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import waiting_for

REAL = Path(sys.executable).with_name("bpeline")
PROCESSES = Path("/proc")
TEXT = "some words and some more words\n"


def run(program: Path, *typed: str, folder: Path, **more: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [program, *typed], cwd=folder, input=TEXT, env={**os.environ, **more}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.night
@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (("versions", "--json"), 1),
        (("count", "-", "--help"), 0),
        (("train", "-", "--name", "small", "--vocab-size", "300", "--dry-run"), 0),
        (("train", "nothing.txt", "--name", "small"), 2),
        (("show", "small/1"), 1),
        (("--version",), 0),
    ],
)
def test_streams_and_codes_are_those_of_the_installed_program(
    typed: tuple[str, ...], code: int, tmp_path: Path, warm: Path
) -> None:
    said = []
    for program in (REAL, warm / "bpeline"):
        folder = tmp_path / program.parent.name
        folder.mkdir()
        home = str(folder / "own")
        ended = run(program, *typed, folder=folder, BPELINE_HOME=home)
        said.append([str(part).replace(str(folder), "") for part in ended])
    assert said[0][0] == str(code), said[0]
    assert said[1] == said[0]


@pytest.mark.night
def test_they_need_not_import_what_takes_long(tmp_path: Path, warm: Path) -> None:
    """One that does not find MLflow there begins a process that imports it, for two seconds."""
    program = "import sys; print(sorted({'mlflow.tracking', 'numba', 'duckdb'} & {*sys.modules}))"
    said = run(warm / "own/python", "-c", program, folder=tmp_path)[1]
    assert said == "['duckdb', 'mlflow.tracking', 'numba']\n"


@pytest.mark.night
def test_commands_run_side_by_side_each_in_its_own_workspace(tmp_path: Path, warm: Path) -> None:
    begun = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "text.txt").write_text(f"{TEXT * 20}{name}", encoding="utf-8")
        typed = ["train", "text.txt", "--name", name, "--vocab-size", "262"]
        begun.append(subprocess.Popen([warm / "bpeline", *typed], cwd=folder, stderr=-1, text=True))
    for name, process in zip(("one", "other"), begun, strict=True):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        shown = run(warm / "bpeline", "versions", folder=tmp_path / name)[1]
        assert f"{name}/1" in shown


@pytest.mark.night
@pytest.mark.skipif(not PROCESSES.is_dir(), reason="this system shows no processes as files")
def test_a_program_that_is_killed_takes_its_command_along(tmp_path: Path, warm: Path) -> None:
    asked = [warm / "bpeline", "train", "-", "--name", "small"]  # waits for what nobody writes
    with subprocess.Popen(asked, cwd=tmp_path, stdin=subprocess.PIPE) as asking:
        waiting_for("the program and the command", lambda: len(_working_in(tmp_path)) == 2, 60)
        asking.kill()
        asking.wait()
        waiting_for("the end of both", lambda: not _working_in(tmp_path), 60)


def _working_in(folder: Path) -> list[int]:
    """The processes whose directory it is."""
    found = []
    for process in PROCESSES.glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found
