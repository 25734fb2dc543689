"""docs/tutorial.md as one script of bash, for its test and for what is tried before a release."""

from __future__ import annotations

import os
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
_INSTALLING = ("python3 -m venv", "pip install")  # whoever runs the script has done that


def script() -> str:
    """All blocks in order, each announced by its number."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    parts = ["set -eu"]
    for number, (language, body) in enumerate(blocks, 1):
        parts.append(f"echo '=== block {number}'")
        if language == "console":
            lines = body.splitlines()
            assert all(line.startswith("$ ") for line in lines), body
            typed = [line.removeprefix("$ ") for line in lines]
            parts += [line for line in typed if not line.startswith(_INSTALLING)]
        else:
            assert language == "python", language
            parts.append(f"python - <<'END_OF_BLOCK'\n{body}END_OF_BLOCK")
    return "\n".join(parts)


def environment(programs: Path) -> dict[str, str]:
    """This process's environment, without a workspace, and with some programs found first.

    Args:
        programs: the ``bin`` of a virtual environment.
    """
    ours = ("BPELINE_HOME", "MLFLOW_", "PREFECT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept['PATH']}"}
