"""The tests that docs/security.md names as proofs exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PAGE = TEXT.partition("\n## Hostile input\n")[2].partition("\n## ")[0]
PROOFS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]


def test_every_row_names_a_proof() -> None:
    rows = [row for row in ROWS if not row.startswith("| input |")]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::test_\w+`", row)] == []


@pytest.mark.parametrize("file", sorted({file for file, _ in PROOFS}))
def test_a_proof_exists(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert {test for named, test in PROOFS if named == file} <= known
