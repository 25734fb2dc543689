"""The class tables against `regex` character by character, and against Python's own database."""

from __future__ import annotations

import random
import unicodedata
from collections import defaultdict
from itertools import product

import pytest
import regex

from bpeline.tokenizer_core.kernels.scanning.classes import (
    ALTERNATING,
    CASELESS,
    CLASS_RANGES,
    LOWER,
    MARK,
    NUMBER,
    UPPER,
    WHITE_SPACE,
    _sequences,
)
from bpeline.tokenizer_core.splitting import regex_syntax
from bpeline.tokenizer_core.splitting.regex_syntax import (
    class_runs,
    class_table,
    unicode_classes_digest,
)

CLASSES = {
    UPPER: regex.compile(r"\p{Lu}|\p{Lt}"),
    LOWER: regex.compile(r"\p{Ll}"),
    CASELESS: regex.compile(r"\p{Lm}|\p{Lo}"),
    MARK: regex.compile(r"\p{M}"),
    NUMBER: regex.compile(r"\p{N}"),
    WHITE_SPACE: regex.compile(r"\s"),
}
CATEGORIES = {
    "Lu": UPPER,
    "Lt": UPPER,
    "Ll": LOWER,
    "Lm": CASELESS,
    "Lo": CASELESS,
    "Mn": MARK,
    "Mc": MARK,
    "Me": MARK,
    "Nd": NUMBER,
    "Nl": NUMBER,
    "No": NUMBER,
}
REVISED = {0x295}  # a small letter until Unicode 17, caseless since


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
        if category in ("Cn", "Cs") or point in REVISED:
            continue  # later versions of Unicode may have assigned it
        white = WHITE_SPACE if table[point] == WHITE_SPACE else 0
        if table[point] != CATEGORIES.get(category, white):
            wrong.append(hex(point))
    assert wrong == []


@pytest.mark.night
def test_what_is_compared_is_every_character_of_its_ranges_and_no_other() -> None:
    for group, ranges in CLASS_RANGES.items():
        told, expected = defaultdict(set), defaultdict(set)
        for class_, begin, end in ranges:
            for sequence in _sequences(begin, end):
                for compared in product(*(range(first, last + 1) for first, last in sequence)):
                    told[bytes(compared)].add(class_)
            for point in range(begin, end):
                expected[point].add(class_)
        lengths = {
            len(chr(point).encode()) for _, begin, end in ranges for point in (begin, end - 1)
        }
        assert len(lengths) == 1, group
        for point in (*range(0x80, 0xD800), *range(0xE000, 0x10000)):
            encoded = chr(point).encode()  # the first bytes of which are compared, or all
            found = {one for size in range(1, 4) for one in told.get(encoded[:size], ())}
            assert found == expected.get(point, set()), (group, hex(point))
    assert any(class_ == ALTERNATING for class_, _, _ in CLASS_RANGES["Latin"])


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
    monkeypatch.setattr(regex_syntax, "class_runs", lambda _: (*class_runs(), (1, 7, 8)))
    assert unicode_classes_digest.__wrapped__() != today


def test_a_regex_that_contradicts_a_shortcut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = (*class_runs(), (NUMBER, 0x5000, 0x5001))
    monkeypatch.setattr(regex_syntax, "class_runs", lambda: changed)
    with pytest.raises(RuntimeError, match="U\\+4E00"):
        class_table.__wrapped__()
