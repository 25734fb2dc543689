"""Tables of words: sums equal a Counter's, whatever goes in; counts are exact up to 2⁶³ − 1."""

from __future__ import annotations

import errno
import mmap
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core.counting import word_tables
from bpeline.tokenizer_core.counting.chunk_counts import WordSum
from bpeline.tokenizer_core.counting.text_streams import TextCounter, words_of
from bpeline.tokenizer_core.counting.word_counts import COUNT_LIMIT, WordCounts, order_of_positions
from bpeline.tokenizer_core.counting.word_tables import WordParts, WordTable, empty_entries
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_table import (
    ALL_COUNTED,
    FRESH,
    NOWHERE,
    QUEUE,
    WALK,
    add_waiting,
    count_marked,
)
from bpeline.tokenizer_core.kernels.memory.pages import BufferPool, in_lines, in_pages
from bpeline.tokenizer_core.kernels.tables.word_keys import INLINE
from bpeline.tokenizer_core.kernels.tables.word_queue import QUEUE_BYTES
from bpeline.tokenizer_core.splitting.pretokenization import Splitter
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

GPT2 = SplitPattern.named("gpt2")
NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")
WIDE = [2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62]


def no_memory(*_: object) -> None:
    raise MemoryError


def random_words(source: random.Random, number: int) -> list[bytes]:
    """Different words of 1 to 40 bytes, many of them alike."""
    words = {
        source.choice([b"", b"prefix of many ", b"\0" * 8])
        + source.randbytes(source.randint(1, 25))
        for _ in range(number)
    }
    return sorted(words, key=hash)


def rows(words: list[bytes], counts: list[int], positions: list[int]) -> WordCounts:
    made = WordCounts.from_mapping(dict(zip(words, counts, strict=True)))
    made.first_positions[:] = positions
    return made


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_tables_add_up_to_what_a_counter_says(seed: int) -> None:
    source = random.Random(seed)
    known = random_words(source, source.choice([3, 300, 9_000]))
    expected, first = Counter[bytes](), dict[bytes, int]()
    whole = WordTable()
    for _ in range(4):
        part = WordTable(bits=source.choice([10, 13, 16]))
        for _ in range(2):
            words = source.sample(known, source.randint(0, len(known)))
            counts = [source.randint(1, 2**40) for _ in words]
            positions = source.sample(range(10**9), len(words))
            part.add(rows(words, counts, positions))
            for word, count, position in zip(words, counts, positions, strict=True):
                expected[word] += count
                first[word] = min(first.get(word, position), position)
        whole.add(part.rows(GPT2))
        assert part.rows(GPT2).total <= sum(expected.values())  # what was added is still there
    result = whole.rows(GPT2)
    assert result.to_mapping() == expected
    assert result.words() == sorted(first, key=first.__getitem__)
    assert result.first_positions.tolist() == sorted(first.values())
    assert whole.used["word_bytes"] == sum(map(len, expected)) == len(result.word_bytes)


@pytest.mark.parametrize("made", [in_pages, in_lines])
def test_arrays_in_pages_are_writable_zeros_of_their_size(made: Callable[..., Any]) -> None:
    for number in (1, 1 << 10, 1 << 17, 3 << 17, 1 << 20):
        array = made(number, np.int64)
        assert made is in_pages or array.ctypes.data % 64 == 0
        assert array.shape == (number,)
        assert array.flags.c_contiguous
        assert not array.any()
        array[:] = 3
        assert int(array.sum()) == 3 * number


def test_memory_is_given_again_until_more_is_asked_for() -> None:
    memory = BufferPool()
    first = memory(1_000)
    first[:] = 7
    assert memory(900).ctypes.data == memory(10).ctypes.data == first.ctypes.data
    larger = memory(5_000_000)
    larger[:] = 8
    assert (len(larger), int(first.sum())) == (5_000_000, 7_000)
    assert memory(0).size == 0


def test_arrays_in_pages_need_no_huge_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Plain)
    assert not in_pages(1 << 20, np.int64).any()
    assert not in_lines(1 << 20, np.int64).any()


def test_memory_that_the_system_does_not_give_is_no_error_of_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: int, **__: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", full)
    with pytest.raises(MemoryError, match=r"8 MB.*Cannot allocate memory"):
        in_pages(1_000_000, np.int64)
    with pytest.raises(MemoryError, match=r"8 MB.*Cannot allocate memory"):
        in_lines(1 << 20, np.int64)


def test_a_table_may_be_filled_from_a_larger_and_a_smaller_one() -> None:
    words = random_words(random.Random(4), 5_000)
    large, small = WordTable(bits=17), WordTable()
    large.add(WordCounts.from_mapping(dict.fromkeys(words, 2)))
    small.add(WordCounts.from_mapping(dict.fromkeys(words[::3], 3)))
    for one, other in ((large, small), (small, large)):
        total = WordTable()
        total.add(one.rows(GPT2))
        total.add(other.rows(GPT2))
        mapping = total.rows(GPT2).to_mapping()
        assert mapping == {word: 2 + 3 * (index % 3 == 0) for index, word in enumerate(words)}


@pytest.mark.parametrize("number", [0, 1, 2, 5_000, 70_000])
@pytest.mark.parametrize("top", [1, 3_000, 2**31, 2**53, 2**63 - 1])
def test_positions_are_sorted_as_numpy_sorts_them(number: int, top: int) -> None:
    positions = np.random.default_rng(number).integers(0, top, number, np.int64)
    expected = np.argsort(positions, kind="stable").tolist()
    assert order_of_positions(positions).tolist() == expected
    positions -= np.int64(10)  # some below zero
    assert order_of_positions(positions).tolist() == np.argsort(positions, kind="stable").tolist()


def test_a_fork_frees_the_lock_on_growing() -> None:
    with word_tables._growing:
        word_tables._renew_lock()
        table = WordTable()
        assert table.make_room(10_000, 0)
    assert not word_tables._growing.locked()


def test_a_table_whose_arena_cannot_grow_is_what_kernels_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = WordTable()
    monkeypatch.setattr(word_tables, "in_pages", no_memory)
    with pytest.raises(MemoryError):
        table.make_room(10_000, 1 << 20)
    assert table.limit >= 10_000
    assert table.used["entries"] == table.entries.ctypes.data
    assert (table.used["slots"], table.used["limit"]) == (1 << table.bits, table.limit)


# ---- bounds ---------------------------------------------------------------------------------


def test_a_table_with_bounds_says_when_it_is_full() -> None:
    table = WordTable(table_bytes=1 << 21)  # half of it: 2^15 entries, 1 MiB of long words
    assert table.make_room(19_000, 1 << 20)
    assert not table.make_room(20_000, 0)
    assert not table.make_room(1, (1 << 20) + 1)
    assert len(table.entries) * 8 == 1 << 20
    table.make_room_anyway(20_000, 1 << 21)
    assert len(table.entries) * 8 == 1 << 20
    assert len(table.arena) >= 1 << 21


@pytest.mark.parametrize("table_bytes", [0, 1 << 21, 1 << 22, 1 << 30])
def test_what_a_counter_holds_stays_below_its_bound(table_bytes: int) -> None:
    source = random.Random(12)
    expected, passed_on = Counter[bytes](), WordTable()
    largest = 0

    def take(words: WordParts) -> WordParts:
        nonlocal largest
        (table,) = words.tables
        largest = max(largest, table.entries.nbytes + len(table.arena))
        passed_on.add(table.rows(GPT2))
        return words_of(1 << 20, table_bytes=table_bytes)

    counter = TextCounter(Splitter(GPT2), words_of(1 << 20, table_bytes=table_bytes), take)
    for number in range(6):
        words = [f"{source.getrandbits(source.choice([12, 40, 200])):x}" for _ in range(30_000)]
        content = " " + " ".join(word.translate(NO_DIGITS) for word in words)
        spans = np.array([[0, len(content)]], np.int64)
        counter.count(Text.of(content.encode()), spans, np.zeros((1, 2), np.int64), number)
        expected.update(word.encode() for word in content.replace(" ", "| ").split("|")[1:])
    take(counter.words)
    assert passed_on.rows(GPT2).to_mapping() == expected
    assert largest <= max(table_bytes, 1 << 21)


# ---- 64 bits --------------------------------------------------------------------------------


def counted_on(preset: int, where: str) -> WordCounts:
    """The counts of a text with one word of each kind, after ``preset`` occurrences of each."""
    raw = b" short" * 3 + b" " + b"x" * 30 + b" short"
    text, spans = Text.of(raw), np.array([[0, len(raw)]], np.int64)
    anchors = np.zeros((1, 2), np.int64)
    bits = np.zeros(len(raw) // 64 + 2, np.uint64)
    for begin in (0, 6, 12, 18, 49):
        bits[begin >> 6] |= np.uint64(1 << (begin & 63))
    front, queue = empty_entries(10), np.zeros(4 * QUEUE, np.uint64)
    walk = np.zeros(1, WALK)
    walk["begin"] = FRESH
    ahead = np.zeros(QUEUE_BYTES // 8, np.uint64)
    table = WordTable()
    table.make_room(10, 1000)
    waiting = np.zeros((1, 2), np.int64)
    near = (anchors, 0, NOWHERE, front, queue, waiting)
    if where == "table":
        table.add(rows([b" short", b" " + b"x" * 30], [preset, preset], [0, 18]))
    marked = count_marked(text.data, bits, bits[:0], spans, *near, ahead, walk, table.used)
    assert marked == ALL_COUNTED
    held = np.flatnonzero(front[1::4])
    assert len(held) == 1  # the short word; the long one waits in the queue
    assert waiting[0, 0] >= 1
    if where == "front":
        front[4 * held[0] + 2] += np.uint64(preset)
    if where == "queue":
        entries = queue[: 4 * waiting[0, 0]].reshape(-1, 4)
        entries[entries[:, 1] >= np.uint64(0xFF << 56), 2] += np.uint64(preset)
    assert add_waiting(text.data, *near, table.used, 0) == ALL_COUNTED
    return table.rows(GPT2)


@pytest.mark.parametrize("preset", WIDE)
@pytest.mark.parametrize("where", ["front", "queue", "table"])
def test_counting_goes_on_rightly_beyond_32_and_53_bits(preset: int, where: str) -> None:
    short = 4 + preset * (where != "queue")
    long = 1 + preset * (where != "front")
    assert counted_on(preset, where).to_mapping() == {b" short": short, b" " + b"x" * 30: long}


@pytest.mark.parametrize("where", ["front", "queue", "table"])
def test_counting_refuses_what_does_not_fit(where: str) -> None:
    most = COUNT_LIMIT - (1 if where == "queue" else 4)
    assert COUNT_LIMIT in counted_on(most, where).counts
    with pytest.raises(InvalidOption, match=str(2**63)):
        counted_on(most + 1, where)


@pytest.mark.parametrize("length", [1, INLINE, INLINE + 1, 200])
@pytest.mark.parametrize("count", WIDE)
def test_sums_and_added_tables_are_right_beyond_32_and_53_bits(count: int, length: int) -> None:
    word = b"w" * length
    part = WordCounts.from_mapping({word: count, b"other": 1})
    total = WordSum(GPT2)
    total.add(part)
    total.add(WordCounts.from_mapping({word: count - 3}))
    assert total.result().to_mapping() == {word: 2 * count - 3, b"other": 1}
    one = WordTable()
    one.add(part)
    one.add(part)
    if count < 2**62:
        assert one.rows(GPT2).to_mapping() == {word: 2 * count, b"other": 2}
    else:
        with pytest.raises(InvalidOption, match="64-bit"):
            one.rows(GPT2)


def test_a_sum_refuses_one_occurrence_too_many() -> None:
    total = WordSum(GPT2)
    total.add(WordCounts.from_mapping({b"a": COUNT_LIMIT - 1, b"b": 1}))
    assert total.result().to_mapping() == {b"a": COUNT_LIMIT - 1, b"b": 1}
    with pytest.raises(InvalidOption, match="64-bit"):
        total.add(WordCounts.from_mapping({b"c": 1}))


def test_long_words_are_kept_whole_and_the_arena_grows_with_them() -> None:
    table = WordTable()
    words = {
        bytes([letter]) * size: letter for letter, size in ((97, 16), (98, 9_000), (99, 10**6))
    }
    table.add(WordCounts.from_mapping(words))
    assert table.arena_bytes >= sum(map(len, words))
    assert table.rows(GPT2).to_mapping() == words
