"""The class tables against `regex` character by character, and against Python's own database."""

from __future__ import annotations

import random
import unicodedata

import pytest
import regex

from tokenizer_core import unicode_classes
from tokenizer_core.kernels.character_masks import LETTER, NUMBER, WHITE_SPACE
from tokenizer_core.unicode_classes import class_runs, class_table, unicode_classes_digest

CLASSES = {LETTER: regex.compile(r"\p{L}"), NUMBER: regex.compile(r"\p{N}"),
           WHITE_SPACE: regex.compile(r"\s")}  # fmt: skip


def class_by_regex(point: int) -> int:
    if 0xD800 <= point < 0xE000:
        return 0  # no text holds them
    character = chr(point)
    return sum(class_ for class_, pattern in CLASSES.items() if pattern.match(character))


def test_every_character_of_the_basic_plane_has_its_class() -> None:
    table = class_table().tolist()
    assert [point for point in range(0x10000) if table[point] != class_by_regex(point)] == []


def test_both_sides_of_every_edge_and_a_sample_have_their_class() -> None:
    edges = {point for _, begin, end in class_runs() for point in (begin - 1, begin, end - 1, end)}
    sample = random.Random(3).sample(range(0x10000, 0x110000), 30_000)
    points = [point for point in (*edges, *sample, 0x10FFFF) if 0 <= point < 0x110000]
    table = class_table()
    assert [hex(point) for point in points if table[point] != class_by_regex(point)] == []


def test_the_classes_agree_with_the_general_categories_python_knows() -> None:
    table = class_table().tolist()
    wrong = []
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        if category in ("Cn", "Cs"):
            continue  # later versions of Unicode may have assigned it
        expected = {"L": LETTER, "N": NUMBER}.get(category[0], table[point] & WHITE_SPACE)
        if table[point] != expected:
            wrong.append(hex(point))
    assert wrong == []


@pytest.mark.parametrize("point", [0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x3000])
def test_white_space_beyond_ascii_is_white_space(point: int) -> None:
    assert class_table()[point] == WHITE_SPACE


@pytest.mark.parametrize("point", [0x1C, 0x1F, 0x200B, 0x200D, 0xFEFF, 0x180E])
def test_what_only_looks_like_white_space_is_not(point: int) -> None:
    assert class_table()[point] == 0


def test_the_digest_changes_when_a_character_changes_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    today = unicode_classes_digest()
    assert len(today) == 64
    monkeypatch.setattr(unicode_classes, "class_runs", lambda: (*class_runs(), (LETTER, 7, 8)))
    assert unicode_classes_digest.__wrapped__() != today


def test_a_regex_that_contradicts_a_shortcut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = (*class_runs(), (NUMBER, 0x5000, 0x5001))
    monkeypatch.setattr(unicode_classes, "class_runs", lambda: changed)
    with pytest.raises(RuntimeError, match="U\\+5000"):
        class_table.__wrapped__()
