"""Another Python of ours: it finds our modules and no others, and ends with who began it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bpeline.tokenizer_core.another_python import another_python

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


@pytest.mark.parametrize("python", ["/nowhere/python", "", None])
def test_there_is_none_where_there_is_no_python_to_run(
    monkeypatch: pytest.MonkeyPatch, python: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", python)  # as where another program holds Python
    assert another_python("") is None


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
