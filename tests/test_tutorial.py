"""docs/tutorial.md runs: every block, in order, in a directory that was empty."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tutorial import environment, script


@pytest.mark.slow
def test_every_block_of_the_tutorial_runs_in_order(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env=environment(Path(sys.executable).parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "code/2" in done.stdout
    assert "exit code 3" in done.stdout, "the rule refuses the smaller vocabulary"
    assert (tmp_path / "tutorial/report.html").stat().st_size > 10_000
