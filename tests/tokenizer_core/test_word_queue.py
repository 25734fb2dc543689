"""The queue of words holds what is asked for, and by SIMD what it holds one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import HAS_SIMD, load_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import HashKey
from bpeline.tokenizer_core.kernels.tables.word_keys import ENTRY, INLINE, LONG
from bpeline.tokenizer_core.kernels.tables.word_queue import (
    BATCH,
    ENTRIES,
    HIGHS,
    LOWS,
    MOST_QUEUED,
    QUEUE_BYTES,
    WORDS,
    Sought,
    next_start,
    queue_by_simd,
    queue_one_by_one,
)
from bpeline.tokenizer_core.text import Text

LONGEST, KEPT = 900, 512  # bytes
# Nothing is read at a table's address, only asked for to be near.
TABLE, SLOTS = np.int64(1 << 20), 1 << 12
SLOT_BITS = np.uint64(ENTRY * (SLOTS - 1))
LONG_TABLE, LONG_BITS = np.int64(1 << 22), np.uint64(16 * (SLOTS - 1))
KEY = HashKey(np.uint64(0x243F_6A88_85A3_08D3), np.uint64(0x1319_8A2E_0370_7345))
NO_KEY = (1 << 64) - 1
MEMORY = np.zeros(QUEUE_BYTES // 8, np.uint64)
needs_simd = pytest.mark.skipif(
    not HAS_SIMD, reason="this processor has no AVX-512 with VBMI2 and VAES"
)


@kernel
def copy_rows(number: I64, base: I64, queue: I64, rows: U64s) -> None:
    for row in range(number):
        at = queue + 8 * row
        rows[4 * row] = load_u64(at + WORDS) - np.uint64(base)
        rows[4 * row + 1] = load_u64(at + LOWS)
        rows[4 * row + 2] = load_u64(at + HIGHS)
        rows[4 * row + 3] = load_u64(at + ENTRIES)


@entry_kernel
def one_by_one(
    text: U8s, marks: U64s, start: I64, end: I64, kept: I64, memory: U64s, rows: U64s, stop: I64s
) -> I64:
    base, queue = np.int64(text.ctypes.data), np.int64(memory.ctypes.data)
    sought = Sought(queue, TABLE, SLOT_BITS, LONG_TABLE, LONG_BITS, KEY, kept, np.int64(LONGEST))
    number, after = queue_one_by_one(base, marks, start, end, sought)
    copy_rows(number, base, queue, rows)
    stop[0] = after
    return number


@entry_kernel
def by_simd(
    text: U8s, marks: U64s, start: I64, end: I64, kept: I64, memory: U64s, rows: U64s, stop: I64s
) -> I64:
    base, queue = np.int64(text.ctypes.data), np.int64(memory.ctypes.data)
    sought = Sought(queue, TABLE, SLOT_BITS, LONG_TABLE, LONG_BITS, KEY, kept, np.int64(LONGEST))
    number, after = queue_by_simd(base, marks, start, end, sought)
    copy_rows(number, base, queue, rows)
    stop[0] = after
    return number


@entry_kernel
def start_behind(marks: U64s, after: I64, end: I64) -> I64:
    return next_start(marks, after, end)


WAYS = [pytest.param(one_by_one, id="one by one")]
WAYS += [pytest.param(by_simd, id="by_simd", marks=needs_simd)]


def cut_text(rng: np.random.Generator, size: int) -> tuple[Text, list[int], NDArray[np.uint64]]:
    """Any bytes, among them zeros, cut into words of all lengths; most are short."""
    text = Text.of(rng.choice([0, 1, 97, 128, 255], size).astype(np.uint8).tobytes())
    kinds = [
        lambda: rng.integers(1, 4),
        lambda: rng.integers(1, INLINE + 3),
        lambda: rng.integers(INLINE - 1, 70),
        lambda: rng.integers(60, LONGEST + 1),
    ]
    likely = rng.dirichlet((8, 8, 1, 0.2))
    starts = [0]
    while starts[-1] < size:
        starts.append(starts[-1] + int(kinds[rng.choice(4, p=likely)]()))
    starts.pop()
    marks = np.zeros(size // 64 + 2, np.uint64)
    np.bitwise_or.at(marks, np.array(starts) >> 6, np.uint64(1) << np.array(starts, np.uint64) % 64)
    return text, starts, marks


def queued(
    way: Any, text: Text, marks: NDArray[np.uint64], start: int, end: int, kept: int = KEPT
) -> tuple[NDArray[np.uint64], int]:
    rows, stop = np.zeros(4 * MOST_QUEUED, np.uint64), np.zeros(1, np.int64)
    number = way(text.data, marks, start, end, kept, MEMORY, rows, stop)
    return rows[: 4 * number].reshape(-1, 4), int(stop[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kept", [KEPT, 0], ids=["kept", "not kept"])
def test_each_word_of_a_span_is_queued_with_its_key(way: Any, kept: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        text, starts, marks = cut_text(rng, int(rng.integers(1, 9000)))
        begin = int(rng.integers(0, text.size))
        end = int(rng.integers(begin + 1, text.size + 1))
        expected = [begin, *(one for one in starts if begin < one < end), end]
        start, found = begin, 0
        while start < end:
            rows, stop = queued(way, text, marks, start, end, kept)
            words = expected[found : found + len(rows) + 1]
            assert rows[:, 0].tolist() == words[:-1]
            assert stop == words[-1]
            assert len(rows) >= BATCH or stop == end
            for row, word, after in zip(rows.tolist(), words, words[1:], strict=False):
                content = text.data[word:after].tobytes()
                if len(content) > kept:
                    assert row[1:3] == [len(content), NO_KEY]
                elif len(content) > INLINE:
                    assert row[2] == int(LONG) | len(content)
                else:
                    key = content.ljust(INLINE, b"\0") + bytes([len(content)])
                    assert row[1:3] == np.frombuffer(key, np.uint64).tolist()
                if INLINE < len(content) <= kept:
                    offset = row[3] - int(LONG_TABLE)
                    assert offset == (row[1] >> 29) & int(LONG_BITS)
                elif len(content) <= kept:
                    offset = row[3] - int(TABLE)
                    assert 0 <= offset < ENTRY * SLOTS
                    assert offset % ENTRY == 0
            start, found = stop, found + len(rows)
        assert found == len(expected) - 1


@needs_simd
def test_both_ways_queue_the_same(seed: int) -> None:
    """The addresses of entries too: `queue_hash` of one key and of eight."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        text, _, marks = cut_text(rng, int(rng.integers(1, 9000)))
        start, end = int(rng.integers(0, text.size)), text.size
        rows, stop = queued(one_by_one, text, marks, start, end)
        others, other_stop = queued(by_simd, text, marks, start, end)
        assert stop == other_stop or min(len(rows), len(others)) >= BATCH
        both = min(len(rows), len(others))
        np.testing.assert_array_equal(rows[:both], others[:both])


@needs_simd
def test_nothing_is_loaded_for_words_that_are_none() -> None:
    """Of two words sixteen rows are written: their entries are asked for, and the first one."""
    text, marks = Text.of(b"ab " + b"c" * 20), np.array([1 | 1 << 3, 0], np.uint64)
    assert len(queued(by_simd, text, marks, 0, text.size, kept=0)[0]) == 2
    entries = MEMORY[ENTRIES // 8 :][:16]
    assert entries[0] != TABLE
    assert set(entries[2:].tolist()) == {int(TABLE)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", [0, 1, 5, 100, BATCH])
def test_a_word_that_is_too_long_is_the_next_one(way: Any, before: int) -> None:
    """Words before it come first; then there is none, and how long it is can be asked for."""
    size = 2 * before + LONGEST + 1 + 3
    text = Text.of(b"a" * size)
    starts = np.array([*range(0, 2 * before + 1, 2), size - 3])
    marks = np.zeros(size // 64 + 2, np.uint64)
    np.bitwise_or.at(marks, starts >> 6, np.uint64(1) << starts.astype(np.uint64) % 64)
    start = 0
    while start < 2 * before:
        rows, start = queued(way, text, marks, start, size)
        assert len(rows)
    rows, stop = queued(way, text, marks, start, size)
    assert (len(rows), stop) == (0, 2 * before)
    assert start_behind(marks, start, size) == size - 3
    rows, stop = queued(way, text, marks, size - 3, size)
    assert (len(rows), stop) == (1, size)
