"""Shards added up by DuckDB: what comes out is the core's own sum, exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import counted_chunks
import numpy as np
import pytest
from counted_chunks import READING, TEMPTING, counted, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpeline.registry.word_counts import ShardRef, TableHandle, WordCountStore
from bpeline.registry.word_counts import tables as word_count_tables
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
from bpeline.tokenizer_core.counting.word_counts import WordCounts, concatenated
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, StorageError
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.training.bpe import learn_merges
from bpeline.tokenizer_core.vocabulary.numbering import byte_order, token_bytes


def read_back(store: WordCountStore, handle: TableHandle) -> WordCounts:
    """The table from its file, not from the memory of the process that made it."""
    return store.open_table(replace(handle, reused=True))


def test_one_shard_comes_back_in_order_of_sight(store: WordCountStore) -> None:
    counts = WordCounts.from_mapping(TEMPTING)
    handle = store.combine([ShardRef(store.put(counted(counts), READING))])
    assert rows_of(handle) == [(w, TEMPTING[w], k) for k, w in enumerate(TEMPTING)]
    actual = read_back(store, handle)
    assert actual.words() == list(TEMPTING)
    assert actual.digest == handle.counts_digest == counts.digest
    assert (handle.rows, handle.total) == (len(TEMPTING), sum(TEMPTING.values()))
    assert handle.total_bytes == sum(len(w) * c for w, c in TEMPTING.items())
    arrays = (actual.word_bytes, actual.offsets, actual.counts, actual.first_positions)
    assert [array.dtype for array in arrays] == [np.uint8, np.int64, np.int64, np.int64]
    assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


WORDS = st.dictionaries(
    st.one_of(st.binary(min_size=1, max_size=3), st.sampled_from(sorted(TEMPTING))),
    st.integers(1, 2**40),
    max_size=12,
)


@pytest.mark.night
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(WORDS, st.integers(0, 10**15)), min_size=1, max_size=6))
def test_the_table_equals_the_core_s_own_sum(
    store: WordCountStore, parts: list[tuple[dict[bytes, int], int]]
) -> None:
    bases = [base + 7 * k for k, (_, base) in enumerate(parts)]
    shards = [counted(words, str(k)) for k, (words, _) in enumerate(parts)]
    shifted = [shard.counts.shifted(base) for shard, base in zip(shards, bases, strict=True)]
    refs = [
        ShardRef(store.put(shard, READING), position_base=base)
        for shard, base in zip(shards, bases, strict=True)
    ]
    handle = store.combine(refs)
    actual = read_back(store, handle)
    expected = combine_word_counts(shifted).sorted()
    assert list(actual.sorted().items()) == list(expected.items())
    assert actual.sorted().first_positions.tolist() == expected.first_positions.tolist()
    assert handle.counts_digest == expected.digest
    store.forget_table(handle.key)


def test_a_chunk_that_stands_at_several_places_counts_at_each(store: WordCountStore) -> None:
    keys = [store.put(counted({b"a": 3, b"b": 1}), READING), store.put(counted({b"c": 2}), READING)]
    refs = [
        ShardRef(keys[0], position_base=100),
        ShardRef(keys[1], position_base=50),
        ShardRef(keys[0], position_base=20),
        ShardRef(keys[0], position_base=70),
    ]
    handle = store.combine(refs)
    assert rows_of(handle) == [(b"a", 9, 20), (b"b", 3, 21), (b"c", 2, 50)]
    made = store.open_table(handle)
    assert made.digest == read_back(store, handle).digest == handle.counts_digest


def test_a_chunk_that_was_counted_in_several_parts_is_added_up(store: WordCountStore) -> None:
    first, second = WordCounts.from_mapping({b"a": 3, b"b": 1}), WordCounts.from_mapping({b"a": 4})
    rows = concatenated([first, second.shifted(9)])
    keys = [store.put(replace(counted({b"x": 1}, digest), counts=rows), READING) for digest in "12"]
    handle = store.combine([ShardRef(keys[0], position_base=100), ShardRef(keys[1])])
    assert rows_of(handle) == [(b"a", 14, 0), (b"b", 2, 1)]
    assert store.statistics(keys).total == 16


@pytest.mark.night
def test_counts_are_exact_from_shards_to_merges_beyond_32_and_53_bits(
    store: WordCountStore,
) -> None:
    """2³¹, 2⁵³ and near 2⁶²: store, table and training against Python's whole numbers."""
    for step, count in enumerate((2**31 - 1, 2**31, 2**53 - 1, 2**53 + 1, 2**58 + 1)):
        parts = [
            {b"abc": count, b"bcd": count - 1, b"xy": 1},
            {b"abc": 1, b"cda": count, b"xy": count + 1},
            {b"bcd": 2, b"yx": count + 2, b"abcd": 1},
        ]
        together: dict[bytes, int] = {}
        refs = []
        for k, words in enumerate(parts):
            key = store.put(counted(words, f"{step}-{k}"), READING)
            refs.append(ShardRef(key, position_base=1000 * k))
            for word, number in words.items():
                together[word] = together.get(word, 0) + number
        handle = store.combine(refs)
        table = read_back(store, handle)
        assert table.to_mapping() == together
        assert handle.total == table.total == sum(together.values())
        learned = learn_merges(table, 5)
        tokens = token_bytes(learned.pairs(), byte_order("smallest-ids"))
        pairs = [(tokens[left], tokens[right]) for left, right in learned.pairs()]
        assert pairs == reference.train(together, 5, tie_break="smallest-ids")
        assert learned.counts[0] == max(
            sum(number * zip_count(word, pair) for word, number in together.items())
            for pair in pairs
        )


def zip_count(word: bytes, pair: tuple[bytes, bytes]) -> int:
    """How often two neighbouring bytes are the pair."""
    return sum((word[i : i + 1], word[i + 1 : i + 2]) == pair for i in range(len(word) - 1))


def test_words_that_fit_are_added_although_all_of_them_together_would_not(
    store: WordCountStore,
) -> None:
    """Σ count may exceed 2⁶³ − 1 while no word's count does; then DuckDB adds up in any case."""
    keys = [store.put(counted({word: 2**62, b"z": 5}), READING) for word in (b"a", b"b", b"c")]
    handle = store.combine([ShardRef(key, position_base=k) for k, key in enumerate(keys)])
    assert sorted(rows_of(handle)) == [
        (b"a", 2**62, 0), (b"b", 2**62, 1), (b"c", 2**62, 2), (b"z", 15, 1),
    ]  # fmt: skip
    assert handle.total == 3 * 2**62 + 15


def test_a_sum_may_reach_the_last_count_there_is(store: WordCountStore) -> None:
    keys = [store.put(counted({b"a": count}), READING) for count in (2**63 - 2, 1)]
    handle = store.combine([ShardRef(key, position_base=k) for k, key in enumerate(keys)])
    assert rows_of(handle) == [(b"a", 2**63 - 1, 0)]


def test_a_sum_beyond_64_bits_is_refused(store: WordCountStore, workspace: Workspace) -> None:
    keys = [store.put(counted({b"a": 2**63 - 1}, str(k)), READING) for k in range(2)]
    with pytest.raises(InvalidOption, match="64-bit"):
        store.combine([ShardRef(key) for key in keys])
    assert list(workspace.tables.iterdir()) == []
    assert list(workspace.temporary.iterdir()) == []


def test_shards_of_different_patterns_do_not_mix(store: WordCountStore) -> None:
    cl100k = WordCounts.from_mapping({b"a": 1}, SplitPattern.named("cl100k"))
    keys = [store.put(counted(cl100k), READING), store.put(counted({b"a": 1}), READING)]
    with pytest.raises(InvalidOption, match="pattern"):
        store.combine([ShardRef(key) for key in keys])
    handle = store.combine([ShardRef(keys[0])])
    assert store.open_table(handle).pattern == SplitPattern.named("cl100k")


@pytest.mark.parametrize(
    "pattern",
    [
        SplitPattern(r"\w+|\W"),
        SplitPattern(r"\S+"),
        SplitPattern.named("whitespace"),
        SplitPattern.named("wordpunct"),
        SplitPattern.named("o200k"),
    ],
)
def test_every_kind_of_pattern_comes_back(store: WordCountStore, pattern: SplitPattern) -> None:
    key = store.put(counted(WordCounts.from_mapping({b"a": 1}, pattern)), READING)
    assert read_back(store, store.combine([ShardRef(key)])).pattern == pattern


def test_empty_shards_make_an_empty_table_and_no_shards_none(store: WordCountStore) -> None:
    handle = store.combine([ShardRef(store.put(counted({}), READING))])
    assert (handle.rows, handle.total, len(read_back(store, handle))) == (0, 0, 0)
    with pytest.raises(EmptyCorpus):
        store.combine([])


def test_hundreds_of_shards_over_many_batches_keep_the_order(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_count_tables, "_ROWS_IN_BATCH", 1000)
    numbers = np.random.default_rng(0).integers(0, 30_000, (60, 1500))
    parts = [
        counted({b"%d" % n: 1 + int(n) % 5 for n in row}, str(k)) for k, row in enumerate(numbers)
    ]
    refs = [ShardRef(store.put(part, READING), 10_000 * k) for k, part in enumerate(parts)]
    actual = read_back(store, store.combine(refs))
    expected = combine_word_counts(
        [part.counts.shifted(10_000 * k) for k, part in enumerate(parts)]
    ).in_order_of_sight()
    assert actual.words() == expected.words()
    assert actual.counts.tolist() == expected.counts.tolist()
    assert actual.first_positions.tolist() == expected.first_positions.tolist()


def test_what_does_not_fit_into_memory_is_added_up_on_disk(workspace: Workspace) -> None:
    numbers = np.random.default_rng(1).integers(0, 200_000, (4, 30_000))
    refs = [
        ShardRef(
            WordCountStore(workspace).put(counted({b"%012d" % n: 1 for n in row}), READING),
            position_base=10**6 * k,
        )
        for k, row in enumerate(numbers)
    ]
    little = WordCountStore(workspace, memory_limit=24 << 20, threads=1).combine(refs)
    WordCountStore(workspace).forget_table(little.key)
    much = WordCountStore(workspace).combine(refs)
    assert (much.counts_digest, much.total) == (little.counts_digest, little.total)


KILLED = """
import os, signal, sys
from counted_chunks import READING
from bpeline.registry.word_counts import ShardFiles, ShardRef, WordCountStore, shard_key
from bpeline.registry.workspace.workspace import Workspace

workspace, read, times = Workspace.open(sys.argv[1]), ShardFiles.counts_together, []

def counts_together(self, shard, pattern):
    times.append(any(workspace.temporary.glob("duckdb-*/*")))
    if times.count(True) == 2:  # DuckDB adds up, and has spilled
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, shard, pattern)

ShardFiles.counts_together = counts_together
refs = [ShardRef(key, base) for key, base in zip(sys.argv[2:], range(0, 10**9, 10**6))]
WordCountStore(workspace, memory_limit=40 << 20, threads=1).combine(refs)
"""


@pytest.mark.night
def test_a_sum_that_was_killed_while_duckdb_spilled_leaves_nothing_and_is_made_again(
    workspace: Workspace,
) -> None:
    numbers = np.random.default_rng(2).integers(0, 10**9, (30, 40_000))
    parts = [counted({b"%012d" % n: 1 + int(n) % 3 for n in row}) for row in numbers]
    store = WordCountStore(workspace)
    keys = [store.put(part, READING) for part in parts]
    refs = [ShardRef(key, 10**6 * k) for k, key in enumerate(keys)]
    command = [sys.executable, "-c", KILLED, str(workspace.root), *keys]
    support = str(Path(counted_chunks.__file__).parent)
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": support}, check=False)
    assert ended.returncode == -signal.SIGKILL
    left = [path.name.partition("-")[0] for path in workspace.temporary.iterdir()]
    assert left == ["duckdb"], "it was killed while files were spilled"
    assert store.table(store.table_key(refs)) is None
    with workspace.lock("adding up"):  # as every command that writes
        assert list(workspace.temporary.iterdir()) == []
        assert list(workspace.tables.iterdir()) == []
        made = store.combine(refs)
    expected = combine_word_counts([part.counts.shifted(10**6 * k) for k, part in enumerate(parts)])
    assert made.counts_digest == read_back(store, made).digest == expected.digest
    assert list(workspace.temporary.iterdir()) == []


def test_too_little_memory_is_a_typed_error_and_leaves_nothing(workspace: Workspace) -> None:
    words = {b"%030d" % k: 1 for k in range(20_000)}
    keys = [WordCountStore(workspace).put(counted(words, name), READING) for name in "ab"]
    refs = [ShardRef(key, k) for k, key in enumerate(keys)]
    with pytest.raises(StorageError, match="memory"):
        WordCountStore(workspace, memory_limit=10**6, threads=1).combine(refs)
    assert list(workspace.tables.iterdir()) == []
    assert list(workspace.temporary.iterdir()) == []
    assert WordCountStore(workspace).combine(refs).rows == 20_000
