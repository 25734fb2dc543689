"""docs/notebook.ipynb runs: every code cell, in order, and shows what the file says it shows."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest
from notebook import PAGE, executed

NOTEBOOK: dict[str, Any] = json.loads(PAGE.read_text("utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> list[dict[str, str]]:
    """What a cell shows by media type; numbers and digests, which machines differ in, as ``#``."""
    outputs = [one.get("data") or {"stream": one["text"]} for one in cell["outputs"]]
    return [
        {
            kind: re.sub(r"[0-9a-f]{8,}|[-+]?[0-9][0-9.,]*", "#", "".join(text))
            for kind, text in output.items()
        }
        for output in outputs
    ]


@pytest.mark.night
def test_every_cell_runs_in_order_and_shows_what_the_file_says(tmp_path: Path) -> None:
    again = [cell for cell in executed(NOTEBOOK, tmp_path)["cells"] if cell["cell_type"] == "code"]
    assert (tmp_path / ".bpeline").is_dir()
    said = "if that is meant: python tests/support/notebook.py docs/notebook.ipynb"
    # The corpus is the standard library's, so other Pythons have other tokens.
    same = NOTEBOOK["metadata"]["language_info"]["version"] == platform.python_version()
    for before, now in zip(CODE, again, strict=True):
        if same:
            assert shown(now) == shown(before), said
        kinds = [[*output] for output in shown(before)]
        assert [[*output] for output in shown(now)] == kinds, said


@pytest.mark.night
def test_a_cell_that_raises_is_an_error(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["1 / 0"], "outputs": []}
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        executed({"cells": [cell], "metadata": {}}, tmp_path)


def test_it_is_a_notebook_of_the_usual_form_that_shows_everything_it_promises() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len({*names}) == len(names)
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert [cell["execution_count"] for cell in CODE] == [*range(1, len(CODE) + 1)]
    pages = "".join(output.get("text/html", "") for cell in CODE for output in shown(cell))
    assert "<svg" in pages, "a curve"
    assert "outline" in pages, "a special token"
    assert "interval</th>" in pages, "two versions"
    assert "/tmp/" not in PAGE.read_text("utf-8")
