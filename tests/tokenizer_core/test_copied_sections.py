"""Copies among sections, whatever their order; a bounded number of them is kept."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bpeline.tokenizer_core.counting import CopiedSections, SectionSample


def some_sections(seed: int) -> list[bytes]:
    random_ = random.Random(seed)
    texts = [random_.randbytes(random_.randint(0, 90)) for _ in range(400)]
    return random_.choices(texts, k=1000)


def looked_at(sections: list[bytes], most: int, together: int) -> CopiedSections:
    sample = SectionSample(most)
    for at in range(0, len(sections), together):
        sample.add(sections[at : at + together])
    return sample.result()


@pytest.mark.parametrize("together", [1, 7, 1000])
def test_every_copy_is_found(together: int) -> None:
    sections = some_sections(together)
    times = Counter(sections)
    found = looked_at(sections, 1000, together)
    assert (found.sections, found.bytes) == (1000, sum(map(len, sections)))
    assert found.copies == 1000 - len(times)
    assert found.copied_bytes == sum(map(len, sections)) - sum(map(len, times))
    assert found.share == found.copied_bytes / found.bytes


def test_of_too_many_the_same_are_kept_in_any_order_with_all_their_copies() -> None:
    sections = some_sections(5)
    found = looked_at(sections, 50, 13)
    random.Random(6).shuffle(sections)
    assert found == looked_at(sections, 50, 100) != looked_at(sections, 51, 13)
    assert found.sections - found.copies == 50
    whole = looked_at(sections, 1000, 100)
    assert found.share == pytest.approx(whole.share, abs=0.15)


def test_nothing_is_no_copy() -> None:
    assert looked_at([], 10, 1) == CopiedSections()
    assert CopiedSections().share == 0.0
    once = looked_at([b"a", b"b", b""], 10, 3)
    assert (once.sections, once.copies) == (3, 0)
