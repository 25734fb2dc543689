"""Another Python of ours: it finds our modules and no others, and ends with who began it."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import spawn
from pathlib import Path

import pytest

from bpeline.tokenizer_core.another_python import (
    another_python,
    python_to_run,
    required_python,
)
from bpeline.tokenizer_core.errors import WorkerLost

ROOT = Path(__file__).parents[2]


def test_it_runs_a_program_of_ours_with_its_arguments_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bpeline", "typing", "threading"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('of another program')")
    monkeypatch.chdir(tmp_path)
    ours, theirs = os.pipe()
    program = """
import os, typing
from bpeline.lazy_names import lazy_names
os.write(int(sys.argv[2]), sys.argv[1].encode())
"""
    begun = another_python(program, "said", str(theirs), pass_fds=[theirs])
    os.close(theirs)
    assert begun is not None
    with begun, os.fdopen(ours, "rb") as pipe:
        assert pipe.read() == b"said"
        assert begun.wait() == 0


@pytest.mark.parametrize("python", ["/nowhere/python", "/", "", None])
def test_there_is_none_where_there_is_no_python_to_run(
    monkeypatch: pytest.MonkeyPatch, python: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", python)  # as where another program holds Python
    monkeypatch.setattr(spawn, "_python_exe", python)
    assert python_to_run() is None
    assert another_python("") is None
    with pytest.raises(WorkerLost, match=repr(python)) as lost:
        required_python("patterns run in processes", "use threads")
    assert "patterns run in processes" in lost.value.accepted
    assert lost.value.next_step.startswith("use threads")


@pytest.mark.parametrize("name", ["python", "python3.11", "python3.13t", "Python", "pypy3.10-c"])
def test_a_python_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, link = tmp_path / name, tmp_path / "interpreter"
    path.touch(0o700)
    link.symlink_to(path)
    for known in map(str, (path, link)):
        monkeypatch.setattr(sys, "executable", known)
        assert python_to_run() == known


@pytest.mark.usefixtures("without_python")
def test_a_program_that_holds_python_is_not_started_again() -> None:
    assert python_to_run() is None
    assert another_python("") is None


@pytest.mark.parametrize("frozen", [False, True])
def test_a_python_that_multiprocessing_was_told_is_one(
    monkeypatch: pytest.MonkeyPatch, without_python: Path, frozen: bool
) -> None:
    python = sys._base_executable  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    monkeypatch.setattr(spawn, "_python_exe", os.fsencode(without_python))
    assert python_to_run() is None
    monkeypatch.setattr(spawn, "_python_exe", os.fsencode(python))
    assert python_to_run() == python


def test_what_a_frozen_program_calls_python_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_python_exe", os.fsencode(sys.executable))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert python_to_run() is None
    with pytest.raises(WorkerLost, match="frozen"):
        required_python("patterns run in processes", "use threads")


def test_there_is_none_where_there_is_no_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    assert another_python("") is None


# Whoever reads its standard output waits until the other has closed its copy, too.
_PARENT = """
import os, time
from bpeline.tokenizer_core.another_python import another_python
outlives = "import os, time; time.sleep(30); os.write(int(sys.argv[1]), b'still there')"
copy = os.dup(1)
begun = another_python(outlives, str(copy), pass_fds=[copy])
print(begun.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_a_process_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        os.kill(int(parent.stdout.readline()), 0)
        parent.kill()
        assert parent.stdout.read() == ""
