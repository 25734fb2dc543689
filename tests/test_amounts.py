"""Which of the tests that are marked ``rotating`` a run by day takes."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from amounts import not_today

ONE_OF = 3


def collected() -> list[Any]:
    """Seven tests that rotate, one of them with four cases, one that does not, in one file."""
    module = ModuleType("test_these")
    rotating = pytest.mark.rotating(ONE_OF).mark
    items: list[Any] = []
    for test in (*(f"test_{number}" for number in range(7)), "test_always"):
        marks = [] if test == "test_always" else [rotating]
        setattr(module, test, SimpleNamespace(pytestmark=marks))
        for case in [f"[{number}]" for number in range(4)] if test == "test_2" else [""]:
            items.append(
                SimpleNamespace(
                    nodeid=f"tests/test_these.py::{test}{case}",
                    module=module,
                    get_closest_marker=lambda name, marks=marks: next(iter(marks), None),
                )
            )
    return items


def test_every_test_and_every_case_has_its_turn_and_no_day_has_most_of_them() -> None:
    items = collected()
    left_out = [{one.nodeid for one in not_today(items, seed)} for seed in range(ONE_OF)]
    days = [{one.nodeid for one in items} - out for out in left_out]
    always = "tests/test_these.py::test_always"
    assert all(always in day for day in days)
    rotating = [day - {always} for day in days]
    assert sum(map(len, rotating)) == len(set.union(*rotating)) == len(items) - 1
    assert max(map(len, rotating)) - min(map(len, rotating)) <= 2


def test_a_test_has_the_same_turn_when_it_is_collected_alone() -> None:
    items = collected()
    for seed in range(ONE_OF):
        left_out = {one.nodeid for one in not_today(items, seed)}
        for one in items:
            if "[" not in one.nodeid:
                assert bool(list(not_today([one], seed))) == (one.nodeid in left_out)
