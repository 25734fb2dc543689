"""Character classes against the `regex` package, character by character."""

from __future__ import annotations

import random

import pytest
import regex

from bpeline.tokenizer_core.splitting.regex_syntax import MOST_CLASSES, character_classes

SOURCES = ["a", "(?:.)", "(?s:.)", r"\s", r"[^\s]", r"\w", r"\p{L}", r"\P{Lu}", r"(?i:\p{Lu})",
           "(?i:s)", "(?i:i)", "(?i:[k-m])", r"[^\r\n\p{L}\p{N}]", "[a-z0-9_]", "(?i:[^a-z])",
           "\n", r"\p{Han}", "[[:punct:]]", r"(?i:ß)", "(?i:µ)"]  # fmt: skip


def interesting_points() -> list[int]:
    special = [*range(0x600), 0x1E9E, 0x212A, 0x2028, 0x3000, 0xD7FF, 0xE000, 0xFFFF, 0x10000]
    generator = random.Random(1)
    points = {*special, 0x10FFFF, *generator.sample(range(0x600, 0x110000), 6000)}
    return sorted(point for point in points if not 0xD800 <= point < 0xE000)


def test_a_class_is_in_exactly_the_sets_that_hold_its_characters() -> None:
    classes = character_classes(SOURCES)
    assert classes is not None
    compiled = [regex.compile(source) for source in SOURCES]
    for point in interesting_points():
        character = chr(point)
        held = {index for index, one in enumerate(compiled) if one.fullmatch(character)}
        class_ = int(classes.of_point[point])
        assert {i for i, members in enumerate(classes.members) if class_ in members} == held, point


def test_characters_in_the_same_sets_share_a_class() -> None:
    classes = character_classes([r"\p{L}", r"\p{N}", "a", "a"])
    assert classes is not None
    assert classes.number == 4
    assert len({int(classes.of_point[ord(character)]) for character in "bzé漢𝒜"}) == 1
    assert classes.members[2] == classes.members[3]
    assert classes.of_point.shape == (0x110000,)


def test_no_set_at_all_is_one_class() -> None:
    classes = character_classes([])
    assert classes is not None
    assert (classes.number, classes.members, int(classes.of_point.max())) == (1, (), 0)


@pytest.mark.parametrize("more", [0, 1])
def test_more_classes_than_fit_are_none(more: int) -> None:
    points = range(0x4E00, 0x4E00 + MOST_CLASSES - 1 + more)
    assert (character_classes(list(map(chr, points))) is None) == bool(more)
