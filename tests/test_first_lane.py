"""What people meet first is tested by every change: `first_lane.toml` names the tests."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = tomllib.loads((ROOT / "tests/first_lane.toml").read_text("utf-8"))
NAMED = sorted({test for part in TABLE.values() for test in part.values()})
BLOCKS = re.findall(r"^```\w+\n(.*)$", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE)


def at_night(function: ast.FunctionDef) -> bool:
    return "pytest.mark.night" in map(ast.unparse, function.decorator_list)


@pytest.mark.parametrize("test", NAMED)
def test_it_exists_and_runs_by_day(test: str) -> None:
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text("utf-8")
    assert not re.search(r"^pytestmark = .*night", text, re.MULTILINE)
    body = ast.parse(text).body
    functions = [one for one in body if isinstance(one, ast.FunctionDef)]
    tests = [one for one in functions if one.name.startswith(name or "test_")]
    assert any(not at_night(one) for one in tests)
    if name:
        assert [one.name for one in tests if one.name == name] == [name]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_of_the_readme_is_named(block: str) -> None:
    assert [first for first in TABLE["readme"] if block.startswith(first)], block


def test_no_block_is_named_that_is_gone() -> None:
    for first in TABLE["readme"]:
        assert [block for block in BLOCKS if block.startswith(first)], first
