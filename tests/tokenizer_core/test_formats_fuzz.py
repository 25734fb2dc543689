"""Vocabularies exported and imported, against tiktoken and HuggingFace: see `format_fuzz`.

A few thousand texts, the same in every run, and as many others as `amounts` says, which the seed
chooses and all ways of a vocabulary and all patterns share.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Literal

import format_fuzz
import pytest
from amounts import Amounts

Policy = Literal["all", "none"]

POLICIES: tuple[Policy, ...] = ("all", "none")
QUICK = ("gpt2", "cl100k", "own-0")
NAMES = format_fuzz.case_names()


def compare_under(policy: Policy, case: format_fuzz.Case, seed: int, block: int) -> None:
    """Compare the ids of one block where all special tokens count, or none does."""
    texts = format_fuzz.texts_of(seed, block)
    theirs = case.with_specials if policy == "all" else case.without_specials
    if case.ours.encode_batch(texts, None, policy) != list(theirs(texts)):
        format_fuzz.compare(case, seed, block)  # tells which, and how to do it again
        raise AssertionError(f"{case.name}, seed {seed}, block {block}: different the first time")


@pytest.mark.night
@pytest.mark.parametrize(
    "name", [name for name in format_fuzz.case_names() if name.endswith(QUICK)]
)
def test_ids_agree_with_other_tools(name: str, tmp_path: Path) -> None:
    case = format_fuzz.make_case(name, tmp_path)
    assert format_fuzz.compare(case, seed=11, block=0) == format_fuzz.TEXTS_AT_ONCE


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_ids_of_other_texts_are_those_of_other_tools(
    name: str, amounts: Amounts, seed: int, tmp_path: Path
) -> None:
    case = format_fuzz.make_case(name, tmp_path)
    first = NAMES.index(name) * 1_000_000  # every case has texts of its own
    blocks = -(-amounts.encoded_texts // (format_fuzz.TEXTS_AT_ONCE * len(NAMES)))
    for block, policy in zip(range(first, first + blocks), cycle(POLICIES), strict=False):
        compare_under(policy, case, seed, block)


@pytest.mark.night
def test_a_difference_is_told_in_one_line_that_does_it_again(tmp_path: Path) -> None:
    case = format_fuzz.make_case("from-tiktoken gpt2", tmp_path)
    wrong = format_fuzz.Case(case.name, case.ours, case.with_specials, case.with_specials)
    with pytest.raises(AssertionError, match=r"REPRO: .*'from-tiktoken gpt2' --seed 13"):
        format_fuzz.compare(wrong, seed=13, block=0)
    with pytest.raises(AssertionError, match=r"REPRO: .*'from-tiktoken gpt2' --seed 13"):
        compare_under("none", wrong, seed=13, block=0)
