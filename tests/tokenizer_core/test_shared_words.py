"""One table of words for many threads: no word is ever given another word's ids."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding import encoding_memory
from bpeline.tokenizer_core.encoding.encoding_memory import SharedWords, WordCache
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.kernels.encoding.word_cache import LONGEST_KEPT
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

THREADS = 6


GPT2 = SplitPattern.named("gpt2")
MERGES = np.array([97, 256, 98]), np.array([98, 97, 99]), np.array([256, 257, 258])


def encoder_of(cache_words: int, pattern: SplitPattern = GPT2) -> BytePairEncoder:
    return BytePairEncoder(np.arange(256), *MERGES, pattern, cache_words)


def words_of(seed: int) -> list[bytes]:
    """Words that share first or last bytes, and lengths: their keys are as alike as can be."""
    random_ = random.Random(seed)
    lengths = [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 40, 127, 128, 129, 511, 512, 513]
    return [
        bytes(random_.choices(b"ab", k=length)) + random_.choice([b"", b"c"])
        for length in random_.choices(lengths, k=4_000)
    ]


def words_in(table: WordCache) -> int:
    return int(table.short.used[0] + table.long.used[0])


@pytest.mark.night
@pytest.mark.parametrize("cache_words", [1, 1_000, 1 << 16])
def test_threads_that_learn_the_same_words_at_once_agree(cache_words: int) -> None:
    words = words_of(1)
    expected, ends = encoder_of(0).encode_words(words)
    shared = encoder_of(cache_words)
    begin_together = threading.Barrier(THREADS)

    def encode(seed: int) -> bool:
        order = list(range(len(words)))
        random.Random(seed).shuffle(order)
        begin_together.wait()
        ids, edges = shared.encode_words([words[i] for i in order])
        starts = np.append(0, ends[:-1])
        wanted = [expected[starts[i] : ends[i]] for i in order]
        return np.array_equal(ids, np.concatenate(wanted)) and len(edges) == len(words)

    with ThreadPoolExecutor(THREADS) as pool:
        for round_ in range(4):
            assert all(pool.map(encode, range(THREADS * round_, THREADS * (round_ + 1))))
    for table in (shared._words.table.short, shared._words.table.long):
        assert table.used[0] <= 3 * table.slots // 4 + THREADS * 64


def test_what_one_thread_learned_another_finds() -> None:
    encoder = encoder_of(1 << 16)
    words = sorted(set(words_of(2)))[:500]
    encoder.encode_words(words)
    known = words_in(encoder._words.table)
    thread = threading.Thread(target=encoder.encode_words, args=(words,))
    thread.start()
    thread.join()
    kept = sum(len(word) <= LONGEST_KEPT for word in words)
    assert words_in(encoder._words.table) == known == kept


def test_ids_are_lent_to_one_block_at_a_time() -> None:
    encoder = encoder_of(1 << 10)
    texts = [Text.of(b" ".join(words_of(seed)[:size])) for seed, size in ((4, 900), (5, 50))]
    asked = [(one, np.array([[0, one.size]]), np.array([7])) for one in texts]
    expected = [encoder.encode(*one) for one in asked]
    with encoder.lending(*asked[0]) as first, encoder.lending(*asked[1]) as second:
        for lent, own in zip((first, second), expected, strict=True):
            assert [part.tolist() for part in lent] == [part.tolist() for part in own]
    with encoder.lending(*asked[1]) as (ids, _):
        assert np.shares_memory(ids, first[0]) or np.shares_memory(ids, second[0])


def test_a_full_table_has_one_successor_with_its_words() -> None:
    words = SharedWords(1 << 16)
    first = words.table
    first.short.used[0] = first.short.slots // 2
    with ThreadPoolExecutor(THREADS) as pool:
        successors = list(pool.map(lambda _: words.after(first), range(4 * THREADS)))
    assert all(table is successors[0] for table in successors)
    assert first.short.slots < successors[0].short.slots
    assert words.after(first) is successors[0], "a late thread gets the newest one"


@pytest.mark.parametrize("full", ["short", "long", "arena"])
def test_the_largest_table_is_followed_by_an_empty_one_of_its_size(full: str) -> None:
    words = SharedWords(1)
    table = words.table
    part = getattr(table, full)
    part.used[0] = part.content.size if full == "arena" else part.slots // 2
    after = words.after(table)
    assert (after.short.slots, after.long.slots) == (table.short.slots, table.long.slots)
    assert words_in(after) == 0
    assert words.table is after is not table
    assert not np.shares_memory(after.arena.content, table.arena.content)


@pytest.mark.parametrize("full", ["short", "long"])
def test_a_table_that_is_not_full_stays_where_the_other_grows(full: str) -> None:
    encoder = encoder_of(1 << 16)
    words = sorted(set(words_of(6)))[:300]
    expected = encoder.encode_words(words)[0]
    table = encoder._words.table
    known = words_in(table)
    part = getattr(table, full)
    part.used[0] = part.slots // 2
    larger = encoder._words.after(table)
    stayed = "long" if full == "short" else "short"
    assert getattr(larger, stayed) is getattr(table, stayed)
    assert getattr(larger, full).slots == 8 * part.slots
    assert larger.arena is table.arena
    assert words_in(larger) == known
    assert np.array_equal(encoder.encode_words(words)[0], expected)
    assert words_in(larger) == known, "nothing was learned anew"


def test_enlarging_moves_complete_words_alone() -> None:
    encoder = encoder_of(1 << 13)
    distinct = sorted(set(words_of(3)))[:300]
    expected = encoder.encode_words(distinct)[0]
    table = encoder._words.table
    empty = int(np.flatnonzero(table.short.places[1::4] == 0)[0])
    table.short.places[4 * empty + 1] = 1  # a thread has just taken this entry
    larger = table.enlarged(4 * table.short.slots, 8 * table.long.slots)
    kept = sum(len(word) <= LONGEST_KEPT for word in distinct)
    in_use = np.count_nonzero(larger.short.places[1::4]), np.count_nonzero(larger.long.places)
    assert in_use == (larger.short.used[0], larger.long.used[0])
    assert min(in_use) > 0
    assert sum(in_use) == kept
    encoder._words.table = larger
    assert np.array_equal(encoder.encode_words(distinct)[0], expected)
    assert words_in(larger) == kept, "nothing was learned anew"


def test_words_that_moved_to_the_other_entry_of_their_line_are_found_there() -> None:
    """A hundred of so many, in a table that is eight times as large."""
    encoder = encoder_of(1 << 15)
    words = [bytes(97 + number // 5**digit % 5 for digit in range(6)) for number in range(4_000)]
    expected = encoder.encode_words(words)[0]
    table = encoder._words.table
    assert table.short.used[0] == len(words)
    larger = table.enlarged(8 * table.short.slots, table.long.slots)
    encoder._words.table = larger
    assert np.array_equal(encoder.encode_words(words)[0], expected)
    assert larger.short.used[0] == len(words), "nothing was learned anew"


def test_longer_words_of_which_the_same_is_kept_are_told_apart() -> None:
    """Each has the place in the table, and beside it, that the word before it had."""
    encoder = encoder_of(1 << 13)
    words = [b"ab" * 20, b"ab" * 19 + b"aa", b"ab" * 20 + b"c", b"b" * 39 + b"c"]
    expected = [encoder_of(0).encode_words([word])[0].tolist() for word in words]
    table = encoder._words.table
    for word in words:
        assert encoder.encode_words([word])[0].tolist() == expected[words.index(word)]
    places = table.long.places
    homes = np.flatnonzero(places)
    assert len(homes) == len(words)
    records = places[homes] & np.uint64(0xFFFF_FFFF)
    for i, home in enumerate(homes):  # another word's record, as if it had the same bits
        kept = places[home] & ~np.uint64(0xFFFF_FFFF)
        for other in range(len(words)):
            line = places[home // 8 * 8 : home // 8 * 8 + 8]
            line[:] = 0
            line[home % 8] = kept | records[other]
            line[(home + 1) % 8] = kept | records[i]
            used = int(table.long.used[0])
            for word, ids in zip(words, expected, strict=True):
                assert encoder.encode_words([word])[0].tolist() == ids
            assert table.long.used[0] >= used


def test_a_fork_frees_the_lock_on_replacing() -> None:
    held = encoding_memory._replacing
    with held:
        encoding_memory._renew_lock()
        table = WordCache.empty(0, 0)
        assert SharedWords(0).after(table) is not table
    assert not encoding_memory._replacing.locked()


# Caches of any size


SIZES = [*range(132), 255, 256, 257, 511, 512, 513, 1_000, 1_024, 2_000, 2_048, 4_096, 4_097]
EVERY_CHARACTER = SplitPattern(regex="(?s:.)")
# 1,024 distinct words of two bytes; 300 bytes of distinct words; words that fill the arena
TWO_BYTES = "".join(map(chr, range(0x100, 0x500)))
FEW = "".join(map(chr, range(0x100, 0x100 + 150)))
LONG = " ".join(f"{number:03}" + "ab" * 60 for number in range(16))
TABLES = 40  # that one text may fill: 32 batches of 64 words at least, and some


@pytest.fixture
def _tables_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a test that would go on replacing tables for ever."""
    made = 0
    after = SharedWords.after

    def counted(words: SharedWords, full: WordCache) -> WordCache:
        nonlocal made
        made += 1
        assert made <= len(SIZES) * 3 * TABLES, "tables are replaced for ever"
        return after(words, full)

    monkeypatch.setattr(SharedWords, "after", counted)


@pytest.mark.usefixtures("_tables_are_counted")
@pytest.mark.parametrize("text", [TWO_BYTES, FEW, LONG], ids=["most", "few", "long words"])
def test_every_small_cache_encodes_short_texts_of_distinct_words(text: str) -> None:
    pattern = GPT2 if text == LONG else EVERY_CHARACTER
    content = text.encode()
    expected = encoder_of(0, pattern).encode_short(content)
    whole = Text.of(content * 3)
    span, behind = np.array([[0, whole.size]]), np.array([-1])
    for cache_words in SIZES:
        encoder = encoder_of(cache_words, pattern)
        for _ in range(2):  # with a table that is empty, then with one that is not
            assert encoder.encode_short(content) == expected, cache_words
        ids, _ = encoder.encode(whole, span, behind)
        assert ids.tolist() == encoder_of(0, pattern).encode(whole, span, behind)[0].tolist()


@pytest.mark.usefixtures("_tables_are_counted")
def test_a_table_that_others_fill_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst that other threads can do: each new table is full before it is used."""
    after = SharedWords.after

    def full_at_once(words: SharedWords, full: WordCache) -> WordCache:
        table = after(words, full)
        for part in (table.short, table.long):
            part.used[0] = 3 * part.slots // 4
        return table

    monkeypatch.setattr(SharedWords, "after", full_at_once)
    content = TWO_BYTES.encode()
    encoder = encoder_of(100, EVERY_CHARACTER)
    expected = encoder_of(0, EVERY_CHARACTER).encode_short(content)
    assert encoder.encode_short(content) == expected
    whole = Text.of(content)
    ids, _ = encoder.encode(whole, np.array([[0, whole.size]]), np.array([-1]))
    assert ids.tolist() == expected
