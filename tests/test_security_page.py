"""The limits that docs/security.md promises are those of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| ([\d,]+)[^|]* \| `([\w.]+):(\w+)` \|$", PAGE, flags=re.MULTILINE)


def test_every_limit_of_the_page_is_compared() -> None:
    assert len(ROWS) == len(re.findall(r"`[\w.]+:\w+` \|$", PAGE, flags=re.MULTILINE)) > 10


@pytest.mark.parametrize(("what", "number", "module", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_a_limit_is_what_the_page_says(what: str, number: str, module: str, name: str) -> None:
    del what
    assert getattr(import_module(module), name) == int(number.replace(",", ""))
