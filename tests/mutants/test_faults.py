"""The list of faults is true to the code: each can still be put where it belongs."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _mutants() -> Any:
    spec = importlib.util.spec_from_file_location(
        "mutants", Path(__file__).with_name("__main__.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


FAULTS = _mutants().faults()


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_place_and_leaves_a_program(fault: Any) -> None:
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1
    changed = text.replace(fault.old, fault.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    for file in fault.tests:
        tests, night = (ROOT / file).read_text(encoding="utf-8"), "pytest.mark.night"
        assert f"pytestmark = {night}" not in tests
        assert tests.count("\ndef test_") > tests.count(f"@{night}"), "by day there is none"
