"""Classes of characters by pages and by ranges are those of the table, for every character."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    HAS_SIMD,
    mask_continuations,
    mask_non_ascii,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.classes import classes_by_page, classes_by_range
from bpeline.tokenizer_core.splitting.regex_syntax import CODE_POINTS, class_table
from bpeline.tokenizer_core.text import Text

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
