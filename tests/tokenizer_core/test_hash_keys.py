"""Words and pairs made to meet in one place of a table do so under one key, which nobody knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms import train_wordpiece
from bpeline.tokenizer_core.counting import WordCounts, count_words
from bpeline.tokenizer_core.counting.word_tables import WordTable
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.kernels.tables import hashing
from bpeline.tokenizer_core.kernels.tables.hashing import HashKey
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COLUMNS,
    EMPTY,
    KEY,
    NO_MERGE,
    fill_merges,
    fill_slots,
)
from bpeline.tokenizer_core.kernels.tables.word_keys import INLINE
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import train_bpe
from bpeline.tokenizer_core.vocabulary.token_table import find_merges

GPT2 = SplitPattern.named("gpt2")
WORDS = 2_000
ALL = (1 << 64) - 1


def alike_without_key() -> list[bytes]:
    """15 bytes each, of one value under (low ^ high · p) · g, a hash without a key."""
    prime, target = 0xC2B2AE3D27D4EB4F, random.Random(1).getrandbits(64)
    words = []
    for number in range(WORDS):
        upper = number + 1
        low = target ^ ((upper | 15 << 56) * prime & ALL)
        words.append(low.to_bytes(8, "little") + upper.to_bytes(7, "little"))
    return words


def in_few_bits(length: int) -> list[bytes]:
    """Words that differ in a few bits at one end of each eight bytes."""
    words = []
    for number in range(WORDS):
        word = bytearray(length)
        for bit in range(11):
            word[min(8 * (bit // 3) + 7, length - 1)] ^= (number >> bit & 1) << (7 - bit % 3)
        words.append(bytes(word))
    return sorted(set(words))


FAMILIES = {
    "equal without a key": alike_without_key(),
    "numbers": [f"{number:015}".encode() for number in range(WORDS)],
    "multiples": [(number << 40).to_bytes(8, "little") for number in range(1, WORDS)],
    "highest bits, short": in_few_bits(15),
    "highest bits, long": in_few_bits(40),
}


def longest_run(entries: NDArray[np.uint64]) -> int:
    """How many entries stand side by side: what a search passes at most."""
    return longest_of(entries[1::4] != 0)


def longest_of(taken: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], taken, [False]))))
    return int((edges[1::2] - edges[::2]).max())


@pytest.fixture
def key_of_process() -> Iterator[NDArray[np.uint64]]:
    kept = hashing.HASH_KEY.copy()
    yield hashing.HASH_KEY
    hashing.HASH_KEY[:] = kept


def usual_run(key_of_process: NDArray[np.uint64], run: Callable[[], int]) -> int:
    """The median under nine keys: one of 250 makes a run of hundreds of the multiples."""
    chosen, found = random.Random(7), list[int]()
    for _ in range(9):
        key_of_process[:] = chosen.getrandbits(64), chosen.getrandbits(64) | 1
        found.append(run())
    return sorted(found)[4]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_words_are_made_to_meet_while_counting(
    family: str, key_of_process: NDArray[np.uint64]
) -> None:
    words = FAMILIES[family]

    def run() -> int:
        table = WordTable()
        table.add(WordCounts.from_mapping(dict.fromkeys(words, 1), GPT2))
        assert len(table) == len(words)
        return longest_run(table.entries)

    assert usual_run(key_of_process, run) < 150  # about 40 by chance; a run of all of them before


@pytest.mark.parametrize("family", FAMILIES)
def test_no_words_are_made_to_meet_while_encoding(
    family: str, key_of_process: NDArray[np.uint64]
) -> None:
    none = np.zeros(0, np.int64)

    def run() -> int:
        encoder = BytePairEncoder(np.arange(256), none, none, none, GPT2)
        encoder.encode_words(FAMILIES[family])
        table = encoder._words.table
        if len(FAMILIES[family][0]) <= INLINE:
            return longest_run(table.short.places)
        assert np.count_nonzero(table.long.places) == len(FAMILIES[family])
        return longest_of(table.long.places != 0)

    assert usual_run(key_of_process, run) < 150


def pairs_alike_without_key() -> NDArray[np.int64]:
    """Pairs [n, 2] whose numbers, times the constant of Fibonacci hashing, are small."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    numbers = (number * inverse & ALL for number in range(1, 4 * WORDS))
    pairs = [divmod(number, 1 << 32) for number in numbers if number < 1 << 63]
    return np.array(pairs[:WORDS], np.int64)


def test_no_pairs_are_made_to_meet_while_encoding(key_of_process: NDArray[np.uint64]) -> None:
    left, right = pairs_alike_without_key().T.copy()

    def run() -> int:
        table = np.full(2 << 12, NO_MERGE, np.uint64)
        fill_merges(left, right, left, right, table, hashing.HASH_KEY)
        taken = table[::2] != NO_MERGE
        assert int(taken.sum()) == WORDS
        return longest_of(taken)

    assert usual_run(key_of_process, run) < 150


def test_no_pairs_are_made_to_meet_while_training(key_of_process: NDArray[np.uint64]) -> None:
    left, right = pairs_alike_without_key().T
    rows = np.zeros((WORDS, COLUMNS), np.int64)
    rows[:, KEY] = (left << 32) | right

    def run() -> int:
        slots = np.full(1 << 12, EMPTY, np.int32)
        fill_slots(rows, WORDS, slots, HashKey(*hashing.HASH_KEY))
        assert sorted(slots[slots != EMPTY].tolist()) == list(range(WORDS))
        return longest_of(slots != EMPTY)

    assert usual_run(key_of_process, run) < 150


def test_two_processes_do_not_share_a_key(key_of_process: NDArray[np.uint64]) -> None:
    assert key_of_process[0] not in (0, ALL)
    assert key_of_process[1] & np.uint64(1)


def test_no_result_depends_on_the_key(key_of_process: NDArray[np.uint64], tmp_path: Path) -> None:
    chosen = random.Random(3)
    letters = "".join(chosen.choices("ab cd é世\n", k=30_000))
    text = letters + " " + " ".join(chosen.choice("xyz") * n for n in range(200))
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b"abcd", 258: b"cd"}
    parts, lengths = b"ab" + b"cd" + b"zz" + b"a", np.array([2, 2, 2, 1])
    results = []
    for key in ((0, 1), (ALL, ALL), (5 << 60, 1 << 63 | 7), (3, 5)):
        key_of_process[:] = key
        counts = count_words(path)
        trained = train_bpe(counts, 300)
        whole = Tokenizer(vocab, [(b"a", b"b"), (b"c", b"d")], ignore_merges=True, cache_words=100)
        found = find_merges(vocab, parts, lengths)
        by_characters = train_wordpiece(count_words(path, "whitespace"), 40)
        results.append(
            (
                by_characters.digest,
                by_characters.encode(text),
                [column.tobytes() for column in (counts.word_bytes, counts.offsets, counts.counts)],
                counts.first_positions.tobytes(),
                trained.digest,
                trained.encode(text),
                whole.encode(text),
                [column.tolist() for column in found],
            )
        )
    assert all(result == results[0] for result in results)
