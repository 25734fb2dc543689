"""Vocabularies exported and imported, against tiktoken and HuggingFace: see `format_fuzz`."""

from __future__ import annotations

from pathlib import Path

import format_fuzz
import pytest

QUICK = ("gpt2", "cl100k", "own-0")


@pytest.mark.parametrize(
    "name", [name for name in format_fuzz.case_names() if name.endswith(QUICK)]
)
def test_ids_agree_with_other_tools(name: str, tmp_path: Path) -> None:
    case = format_fuzz.make_case(name, tmp_path)
    assert format_fuzz.compare(case, seed=11, block=0) == format_fuzz.TEXTS_AT_ONCE


@pytest.mark.slow
@pytest.mark.parametrize("name", format_fuzz.case_names())
def test_ids_agree_with_other_tools_at_length(name: str, tmp_path: Path) -> None:
    case = format_fuzz.make_case(name, tmp_path)
    for block in range(1, 4):
        format_fuzz.compare(case, seed=12, block=block)


def test_a_difference_is_told_in_one_line_that_does_it_again(tmp_path: Path) -> None:
    case = format_fuzz.make_case("from-tiktoken gpt2", tmp_path)
    wrong = format_fuzz.Case(case.name, case.ours, case.with_specials, case.with_specials)
    with pytest.raises(AssertionError, match=r"REPRO: .*'from-tiktoken gpt2' --seed 13"):
        format_fuzz.compare(wrong, seed=13, block=0)
