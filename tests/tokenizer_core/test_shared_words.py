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

IDENTITY = np.arange(256)
THREADS = 6


def encoder_of(cache_words: int) -> BytePairEncoder:
    left, right = np.array([97, 256, 98]), np.array([98, 97, 99])
    results = np.array([256, 257, 258])
    pattern = SplitPattern.named("gpt2")
    return BytePairEncoder(IDENTITY, left, right, results, pattern, cache_words)


def words_of(seed: int) -> list[bytes]:
    """Words that share first or last bytes, and lengths: their keys are as alike as can be."""
    random_ = random.Random(seed)
    lengths = [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 40, 127, 128, 129, 511, 512, 513]
    return [
        bytes(random_.choices(b"ab", k=length)) + random_.choice([b"", b"c"])
        for length in random_.choices(lengths, k=4_000)
    ]


@pytest.mark.slow
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
    assert shared._words.table._counts[0] <= 3 * shared._words.table.slots // 4 + THREADS * 64


def test_what_one_thread_learned_another_finds() -> None:
    encoder = encoder_of(1 << 16)
    words = sorted(set(words_of(2)))[:500]
    encoder.encode_words(words)
    known = encoder._words.table._counts[0]
    thread = threading.Thread(target=encoder.encode_words, args=(words,))
    thread.start()
    thread.join()
    kept = sum(len(word) <= LONGEST_KEPT for word in words)
    assert encoder._words.table._counts[0] == known == kept


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
    with ThreadPoolExecutor(THREADS) as pool:
        successors = list(pool.map(lambda _: words.after(first), range(4 * THREADS)))
    assert all(table is successors[0] for table in successors)
    assert first.slots < successors[0].slots
    assert words.after(first) is successors[0], "a late thread gets the newest one"


def test_the_largest_table_is_followed_by_an_empty_one_of_its_size() -> None:
    words = SharedWords(1)
    full = words.table
    assert words.after(full).slots == full.slots
    assert words.table is not full


def test_enlarging_moves_complete_words_alone() -> None:
    encoder = encoder_of(1 << 13)
    distinct = sorted(set(words_of(3)))[:300]
    expected = encoder.encode_words(distinct)[0]
    table = encoder._words.table
    empty = int(np.flatnonzero(table._entries[1::4] == 0)[0])
    table._entries[4 * empty + 1] = 1  # a thread has just taken this entry
    larger = table.enlarged(4 * table.slots)
    kept = sum(len(word) <= LONGEST_KEPT for word in distinct)
    assert larger._counts[0] == np.count_nonzero(larger._entries[1::4]) == kept
    encoder._words.table = larger
    assert np.array_equal(encoder.encode_words(distinct)[0], expected)
    assert larger._counts[0] == kept, "nothing was learned anew"


def test_a_fork_frees_the_lock_on_replacing() -> None:
    held = encoding_memory._replacing
    with held:
        encoding_memory._renew_lock()
        table = WordCache(0)
        assert SharedWords(0).after(table) is not table
    assert not encoding_memory._replacing.locked()
