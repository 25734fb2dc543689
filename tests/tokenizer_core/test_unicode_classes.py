"""The class tables against `regex` character by character, and against Python's own database."""

from __future__ import annotations

import random
import unicodedata
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    HAS_SIMD,
    mask_continuations,
    mask_non_ascii,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U8s, U64s
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
    classes_by_page,
    classes_by_range,
)
from bpeline.tokenizer_core.splitting import regex_syntax
from bpeline.tokenizer_core.splitting.regex_syntax import (
    CODE_POINTS,
    MOST_CLASSES,
    character_classes,
    class_runs,
    class_table,
    unicode_classes_digest,
)
from bpeline.tokenizer_core.text import Text

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


# Sets of characters


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


# Classes as masks


SURROGATES = range(0xD800, 0xE000)
needs_simd = pytest.mark.skipif(not HAS_SIMD, reason="this processor has no AVX-512 with VBMI2")


@entry_kernel
def by_page(text: U8s, blocks: I64, table: U8s, masks: U64s) -> None:
    behind = (np.uint64(0), np.uint64(0), np.uint64(0))
    for block in range(blocks):
        address = text.ctypes.data + 64 * block
        leads = mask_non_ascii(address) & ~mask_continuations(address)
        low, middle, high, behind = classes_by_page(
            address, leads, behind[0], behind[1], behind[2], table.ctypes.data
        )
        masks[3 * block], masks[3 * block + 1], masks[3 * block + 2] = low, middle, high


@entry_kernel
def by_range(text: U8s, blocks: I64, table: U8s, masks: U64s) -> None:
    behind = (np.uint64(0), np.uint64(0), np.uint64(0))
    for block in range(blocks):
        address = text.ctypes.data + 64 * block
        leads = mask_non_ascii(address) & ~mask_continuations(address)
        low, middle, high, behind = classes_by_range(
            address, leads, behind[0], behind[1], behind[2], table.ctypes.data
        )
        masks[3 * block], masks[3 * block + 1], masks[3 * block + 2] = low, middle, high


WAYS = [
    pytest.param(by_page, id="by page", marks=needs_simd),
    pytest.param(by_range, id="by range"),
]


def classes_of_bytes(way: Any, characters: str) -> NDArray[np.uint8]:
    """The class that a way finds for each byte of a text."""
    text = Text.of(characters.encode())
    blocks = text.size // 64 + 1
    masks = np.zeros(3 * blocks, np.uint64)
    way(text.data, blocks, class_table(), masks)
    bits = np.unpackbits(masks.view(np.uint8).reshape(blocks, 3, 8), axis=2, bitorder="little")
    low, middle, high = (bits[:, bit].ravel()[: text.size] for bit in range(3))
    return low | middle << 1 | high << 2


def expected_of(characters: str) -> NDArray[np.uint8]:
    """What the table says, 0 for ASCII."""
    points = np.frombuffer(characters.encode("utf-32-le"), np.uint32)
    sizes = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    return np.repeat(np.where(points < 0x80, 0, class_table()[points]).astype(np.uint8), sizes)


def assert_told(way: Any, characters: str) -> None:
    wrong = np.flatnonzero(classes_of_bytes(way, characters) != expected_of(characters))
    assert wrong.size == 0, characters.encode()[wrong[0] - 3 : wrong[0] + 4]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_every_character_in_any_order(way: Any, seed: int) -> None:
    points = np.array([p for p in range(0x80, CODE_POINTS) if p not in SURROGATES])
    if seed:  # the first time pages are together
        np.random.default_rng(seed).shuffle(points)
    assert_told(way, points.astype("<u4").tobytes().decode("utf-32-le"))


@pytest.mark.parametrize("way", WAYS)
def test_characters_of_few_pages_beside_ascii(way: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        pages = 64 * rng.integers(2, rng.choice([32, 0x800, 0xFFFF // 64, CODE_POINTS // 64]), 4)
        points = rng.choice(pages, 200) + rng.integers(0, 64, 200)
        points[(points >= SURROGATES.start) & (points < SURROGATES.stop)] = 0xE9
        points = np.where(rng.random(200) < rng.random(), rng.integers(0, 0x80, 200), points)
        assert_told(way, points.astype("<u4").tobytes().decode("utf-32-le"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("character", ["é", "٣", "א", "中", "。", "ᏸ", "😀", "𝟘", "𐐀"])
def test_each_place_in_a_block(way: Any, character: str) -> None:
    for before in range(130):
        assert_told(way, "a" * before + character + "b" + character * 3)
