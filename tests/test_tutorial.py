"""docs/tutorial.md runs: every block, in order, in a directory that was empty."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs/tutorial.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def script() -> str:
    """All blocks as one script of bash, each announced; installing is what the test has done."""
    parts = ["set -eu"]
    for number, (language, body) in enumerate(BLOCKS, 1):
        parts.append(f"echo '=== block {number}'")
        if language == "console":
            lines = [line.removeprefix("$ ") for line in body.splitlines()]
            assert all(line.startswith("$ ") for line in body.splitlines()), body
            parts += [
                line for line in lines if not line.startswith(("python3 -m venv", "venv/bin/pip"))
            ]
        else:
            assert language == "python", language
            parts.append(f"python - <<'END_OF_BLOCK'\n{body}END_OF_BLOCK")
    return "\n".join(parts)


@pytest.mark.slow
def test_every_block_of_the_tutorial_runs_in_order(tmp_path: Path) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BPELINE_HOME", "MLFLOW_", "PREFECT_"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    said = done.stdout
    assert "code/2" in said
    assert "exit code 3" in said, "the rule refuses the smaller vocabulary"
    assert (tmp_path / "tutorial/report.html").stat().st_size > 10_000
    assert "same bytes" in said or "equal" in said
