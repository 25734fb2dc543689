"""docs/notebook.ipynb, executed cell by cell without Jupyter; also the program that fills it in.

    python tests/support/notebook.py docs/notebook.ipynb

runs the code cells in order in one new process and an empty directory, and writes what each shows
into the file. A cell shows what it prints, and the value of its last line as a notebook does: its
`_repr_html_` where it has one, and its `repr`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

PAGE = Path(__file__).parents[2] / "docs/notebook.ipynb"


def executed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A notebook with what its code cells show now; a cell that raises ends it with an error.

    Args:
        notebook: as its JSON says.
        folder: an empty directory, in which the cells run.
    """
    ours = ("BPELINE_HOME", "MLFLOW_", "PREFECT_")
    done = subprocess.run(
        [sys.executable, __file__, "--cells"],
        input=json.dumps(notebook),
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(ours)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or done.stderr:  # which a notebook shows in red
        raise AssertionError(done.stderr)
    filled: dict[str, Any] = json.loads(done.stdout)
    return filled


class _Shell:
    """What libraries ask, to know whether they are in a notebook; this one has no widgets."""

    config: ClassVar = {"IPKernelApp": {}}


def _be_in_a_notebook() -> None:
    module: Any = ModuleType("IPython")
    module.get_ipython, module.version_info = _Shell, (9, 0)
    sys.modules["IPython"] = module
    del sys.modules["__main__"].__file__


def _run_cells(notebook: dict[str, Any]) -> None:
    """Execute the code cells in this process, all in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(code, 1):
        cell["execution_count"] = number
        cell["outputs"] = _outputs("".join(cell["source"]), number, names)
    notebook["metadata"]["language_info"] = {"name": "python", "version": platform.python_version()}


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    parsed = ast.parse(source, f"cell {number}")
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(parsed, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": data,
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    """As notebooks keep text."""
    return text.splitlines(keepends=True)


def main() -> None:
    if sys.argv[1:] == ["--cells"]:
        notebook = json.load(sys.stdin)
        _be_in_a_notebook()
        _run_cells(notebook)
        json.dump(notebook, sys.stdout)
        return
    path = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        filled = executed(json.loads(path.read_text("utf-8")), Path(folder))
    path.write_text(json.dumps(filled, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
