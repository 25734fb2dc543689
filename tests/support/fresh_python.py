"""Programs run by a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def output_of(
    program: str, *arguments: object, cwd: Path = ROOT, seconds: int = 300, **environment: str
) -> str:
    """What a program prints, which must end well; its arguments, and changes of its environment."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=cwd, env=os.environ | environment, capture_output=True, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout
