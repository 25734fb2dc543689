"""docs/tutorial.md runs: every block, in order, in a directory that was empty.

By forks of a process that has imported what commands need; before a release it is run as people do
(`tests/support/release_check.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tutorial import environment, script


def test_every_block_of_the_tutorial_runs_in_order(tmp_path: Path, warm: Path) -> None:
    around = environment(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env={**around, "PATH": f"{warm}{os.pathsep}{around['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "code/2" in done.stdout
    assert "exit code 3" in done.stdout, "the rule refuses the smaller vocabulary"
    assert (tmp_path / "tutorial/report.html").stat().st_size > 10_000
