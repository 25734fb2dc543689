"""Words that threads share: counts, first positions and order are those of one plain dictionary."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core.counting import word_tables
from bpeline.tokenizer_core.counting.text_streams import TextCounter
from bpeline.tokenizer_core.counting.word_counts import COUNT_LIMIT, WordCounts
from bpeline.tokenizer_core.counting.word_tables import WordParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting.pretokenization import Splitter
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

GPT2 = SplitPattern.named("gpt2")
NO_ANCHORS = np.zeros((1, 2), np.int64)


def texts_of(source: random.Random, number: int) -> list[str]:
    """Texts of words that begin with a space: frequent, rare and long ones."""
    common = [f"w{chr(97 + number % 26)}{'x' * (number // 26)}" for number in range(400)]
    return [
        "".join(
            " "
            + source.choice([*common, hex(source.getrandbits(30)).translate(LETTERS)])
            + source.choice(["", "", "", "q" * source.randint(1, 40)])
            for _ in range(source.randint(0, 9_000))
        )
        for _ in range(number)
    ]


LETTERS = str.maketrans("0123456789", "ghijklmnop")


def plain(texts: list[str]) -> dict[bytes, tuple[int, int]]:
    """Count and first position of each word, in order of sight."""
    found: dict[bytes, tuple[int, int]] = {}
    begin = 0
    for text in texts:
        place = begin
        for word in text.split(" ")[1:]:
            key = b" " + word.encode()
            count, first = found.get(key, (0, place))
            found[key] = count + 1, first
            place += len(key)
        begin += len(text)
    return found


def no_memory(*_: object) -> None:
    raise MemoryError


def as_plain(rows: WordCounts) -> dict[bytes, tuple[int, int]]:
    columns = zip(rows.counts.tolist(), rows.first_positions.tolist(), strict=True)
    return dict(zip(rows.words(), columns, strict=True))


def count_into(words: WordParts, texts: list[str], mine: list[int]) -> None:
    counter = TextCounter(Splitter(GPT2), words)
    ends = np.cumsum([len(text) for text in texts]).tolist()
    for number in mine:
        text, end = texts[number], ends[number]
        spans = np.array([[0, len(text)]], np.int64)
        counter.count(Text.of(text.encode()), spans, NO_ANCHORS, end - len(text), end)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_that_share_words_count_as_one_dictionary_does(threads: int) -> None:
    texts = texts_of(random.Random(threads), 14)
    expected = plain(texts)
    words = WordParts(10, threads)  # which grow, and their arenas too
    working = [
        threading.Thread(target=count_into, args=(words, texts, list(range(n, 14, threads))))
        for n in range(threads)
    ]
    for one in working:
        one.start()
    for one in working:
        one.join()
    rows = words.rows(GPT2, threads=threads)
    assert as_plain(rows) == expected
    assert rows.words() == list(expected)


def test_a_word_met_earlier_by_another_thread_stands_where_that_met_it() -> None:
    texts = [
        " late early" + " x" * 700,
        " rare" + "r" * 30 + " early",
        " early late rare" + "r" * 30,
    ]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        words = WordParts(10, 2)
        for number in order:  # each by a counter of its own, as threads have
            count_into(words, texts, [number])
        rows = words.rows(GPT2)
        assert as_plain(rows) == plain(texts)
        assert rows.words() == list(plain(texts))


@pytest.mark.parametrize(
    ("few", "rows_of_a_range"), [(word_tables._FEW, word_tables._ROWS), (-1, 9)]
)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("number", [0, 1, 2, 9, 5_000])
def test_rows_made_by_threads_are_those_of_one_table(
    monkeypatch: pytest.MonkeyPatch, threads: int, number: int, few: int, rows_of_a_range: int
) -> None:
    monkeypatch.setattr(word_tables, "_FEW", few)
    monkeypatch.setattr(word_tables, "_ROWS", rows_of_a_range)
    source = random.Random(number)
    given: set[bytes] = set()
    while len(given) < number:  # ranges end at words of one byte, of sixteen, and of many
        given.add(source.randbytes(source.choice([1, 2, 3, 15, 16, 17, 60])))
    ordered = source.sample(sorted(given), number)
    positions = sorted(source.sample(range(10**9), number))
    words = WordParts(10, threads)
    for word, position in zip(ordered, positions, strict=True):
        part = source.randrange(len(words.tables))
        row = WordCounts.from_mapping({word: position + 1})
        row.first_positions[:] = position
        words.tables[part].add(row)
    rows = words.rows(GPT2, lambda places: places * 3, threads)
    assert rows.words() == ordered
    assert rows.counts.tolist() == [position + 1 for position in positions]
    assert rows.first_positions.tolist() == [3 * position for position in positions]


def test_rows_whose_numbers_do_not_fit_beside_their_positions_are_ordered_too() -> None:
    words = WordParts(10, 2)
    for number, word in enumerate([b"last", b"first", b"middle" * 9]):
        row = WordCounts.from_mapping({word: 1})
        row.first_positions[:] = [2**62, 5, 2**61][number]
        words.tables[number].add(row)
    rows = words.rows(GPT2, threads=2)
    assert rows.words() == [b"first", b"middle" * 9, b"last"]
    assert rows.first_positions.tolist() == [5, 2**61, 2**62]


def test_counts_above_64_bits_are_refused_by_rows_of_threads() -> None:
    words = WordParts(10, 2)
    for _ in range(2):
        words.tables[3].add(WordCounts.from_mapping({b"often": COUNT_LIMIT}))
    with pytest.raises(InvalidOption, match="64-bit"):
        words.rows(GPT2, threads=2)


def test_a_part_grows_into_memory_that_is_there_before_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = WordParts(10, 2)
    bits, asked = words.tables[3].bits, list[int]()
    entries_of = word_tables.empty_entries

    def once(bits: int) -> Any:  # a table that asks for entries itself gets none
        if asked:
            raise MemoryError
        asked.append(bits)
        return entries_of(bits)

    monkeypatch.setattr(word_tables, "empty_entries", once)
    assert words.make_room(3, words.tables[3].limit + 1, 0)
    assert words.tables[3].bits == bits + 1
    assert asked == [bits + 1]


def test_threads_go_on_after_one_that_got_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(random.Random(5), 6)
    words = WordParts(10, 2)
    count_into(words, texts, [0, 1, 2])
    with monkeypatch.context() as short:
        short.setattr(word_tables, "in_pages", no_memory)
        for part, table in enumerate(words.tables):
            with pytest.raises(MemoryError):
                words.make_room(part, table.limit, 1 << 30)
    other = threading.Thread(target=count_into, args=(words, texts, [3, 4, 5]), daemon=True)
    other.start()
    other.join(60)
    assert not other.is_alive(), "it waits for a part"
    assert as_plain(words.rows(GPT2)) == plain(texts)


def test_a_part_is_held_by_one_thread_at_a_time() -> None:
    words, waited = WordParts(10, 2), threading.Event()

    def wait() -> None:
        with words.held(3):
            waited.set()

    other = threading.Thread(target=wait, daemon=True)
    with words.held(3):
        other.start()
        with words.held(4):
            assert not waited.wait(0.1)
    assert waited.wait(60)
    other.join()


def test_a_part_is_free_after_an_error() -> None:
    words = WordParts(10, 2)

    def fail() -> None:
        with words.held(3):
            assert words.used["held"][3]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not words.used["held"].any()


def test_tables_are_a_power_of_two_and_not_without_end() -> None:
    for threads in (1, 2, 3, 100):
        parts = len(WordParts(10, threads).tables)
        assert parts.bit_count() == 1
        assert min(threads, word_tables._MOST_PARTS) <= parts <= word_tables._MOST_PARTS
