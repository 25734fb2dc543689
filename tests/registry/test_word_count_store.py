"""The word-count store: what it adds up equals the core's own sum, and damage is never believed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry import word_count_tables
from registry.word_count_store import (
    ShardRef,
    ShardStatistics,
    TableHandle,
    WordCountStore,
    shard_key,
)
from registry.workspace import Workspace
from tokenizer_core import reference
from tokenizer_core.chunk_counts import ChunkCounts
from tokenizer_core.chunking import Chunk
from tokenizer_core.corpus import SourceFile
from tokenizer_core.digests import digest_of, digest_of_bytes
from tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption, StorageError
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.trainers.bpe import learn_merges
from tokenizer_core.vocabulary import byte_order, token_bytes
from tokenizer_core.word_counts import WordCounts, combine_word_counts, concatenated

ROOT = Path(__file__).parents[2]
READING = digest_of("a reading")
FILE = SourceFile("/corpus/a.txt", "corpus", "text", None, 1, 2, 3, 4)
# Words that text columns refuse, and whose order differs from that of their letters.
TEMPTING = {
    b"the": 3, b" the": 5, b"\x00": 1, b"a\x00": 2, b"a": 4, b"\xff\xfe": 7, b"\xed\xa0\x80": 1,
    "naïve".encode(): 2, b"'": 1, b"''; DROP": 1, b"\x80": 6, b"x" * 5000: 1, b"B": 2, b"b": 3,
}  # fmt: skip


def counted(
    words: Mapping[bytes, int] | WordCounts, name: str = "", held_out: list[bytes] | None = None
) -> ChunkCounts:
    """Word counts as if a chunk had been counted."""
    counts = words if isinstance(words, WordCounts) else WordCounts.from_mapping(words)
    digest = digest_of([name, counts.digest])
    return ChunkCounts(
        chunk=Chunk(FILE, 0, 0, 1, digest),
        counts=counts,
        held_out=held_out or [],
        documents=3,
        bytes_counted=counts.total_bytes,
        special_tokens_seen=2,
        replaced_utf8=1,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "it's a [home]*")  # a name that SQL and globs read otherwise


@pytest.fixture
def store(workspace: Workspace) -> WordCountStore:
    return WordCountStore(workspace, threads=2)


def rows_of(handle: TableHandle) -> list[tuple[bytes, int, int]]:
    """The table as any DuckDB client sees it."""
    with duckdb.connect(handle.path, read_only=True) as connection:
        return connection.execute("FROM word_counts").fetchall()


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    path.write_bytes(content)


# ---- sums ----------------------------------------------------------------------------------------


def test_one_shard_comes_back_sorted_by_bytes(store: WordCountStore) -> None:
    counts = WordCounts.from_mapping(TEMPTING)
    handle = store.combine([ShardRef(store.put(counted(counts), READING))])
    expected = [(w, TEMPTING[w], list(TEMPTING).index(w)) for w in sorted(TEMPTING)]
    assert rows_of(handle) == expected
    actual = store.open_table(handle)
    assert actual.words() == sorted(TEMPTING)
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
WEIGHTS = st.sampled_from([1.0, 1.0, 0.5, 0.25, 2.0, 0.1, 1 / 3, 1e-12, 0.0])


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(WORDS, WEIGHTS, st.integers(0, 10**15)), min_size=1, max_size=5))
def test_the_table_equals_the_sum_in_memory(
    store: WordCountStore, parts: list[tuple[dict[bytes, int], float, int]]
) -> None:
    """Weights, bases, empty shards and shards that stand in several places included."""
    parts = [*parts, parts[0]]
    refs, shifted = [], []
    for k, (words, weight, base) in enumerate(parts):
        part = counted(words)
        refs.append(ShardRef(store.put(part, READING), weight, base + k))
        shifted.append(part.counts.shifted(base + k))
    expected = combine_word_counts(shifted, [weight for _, weight, _ in parts])
    handle = store.combine(refs)
    actual = store.open_table(handle)
    assert actual.to_mapping() == dict(sorted(expected.to_mapping().items()))
    assert actual.digest == expected.digest == handle.counts_digest
    in_order = expected.sorted().first_positions
    assert actual.first_positions.tolist() == in_order.tolist()
    store.forget_table(handle.key)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(WORDS, st.integers(0, 10**15)), min_size=1, max_size=6))
def test_a_corpus_without_weights_or_repeated_shards_is_the_sum_in_memory(
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
    actual = store.open_table(handle)
    expected = combine_word_counts(shifted).sorted()
    assert list(actual.items()) == list(expected.items())
    assert actual.first_positions.tolist() == expected.first_positions.tolist()
    assert handle.counts_digest == expected.digest
    store.forget_table(handle.key)


def test_a_chunk_that_was_counted_in_several_parts_is_added_up(store: WordCountStore) -> None:
    first, second = WordCounts.from_mapping({b"a": 3, b"b": 1}), WordCounts.from_mapping({b"a": 4})
    rows = concatenated([first, second.shifted(9)])
    keys = [store.put(replace(counted({b"x": 1}, digest), counts=rows), READING) for digest in "12"]
    handle = store.combine([ShardRef(keys[0], position_base=100), ShardRef(keys[1])])
    assert rows_of(handle) == [(b"a", 14, 0), (b"b", 2, 1)]
    assert store.statistics(keys).total == 16


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
        table = store.open_table(handle)
        assert table.to_mapping() == dict(sorted(together.items()))
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


def test_counts_beyond_32_bits_and_weights_stay_exact(store: WordCountStore) -> None:
    large = {b"a": 2**62, b"b": 2**31, b"c": 2**53 + 1}
    keys = [store.put(counted(large, str(k)), READING) for k in range(2)]
    halves = store.combine([ShardRef(keys[0]), ShardRef(keys[1], 0.5, 10)])
    assert [count for _, count, _ in rows_of(halves)] == [
        2**62 + 2**61,
        2**31 + 2**30,
        2**53 + 1 + 2**52,  # half of 2⁵³ + 1 as a double is 2⁵²
    ]


def test_halves_are_rounded_to_even(store: WordCountStore) -> None:
    odd = {b"1": 1, b"3": 3, b"5": 5, b"7": 7}
    handle = store.combine([ShardRef(store.put(counted(odd), READING), 0.5)])
    assert [(word, count) for word, count, _ in rows_of(handle)] == [
        (word, round(count / 2)) for word, count in odd.items() if round(count / 2)
    ]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (2.0, 1.0), (0.9, 1.2)])
def test_a_sum_beyond_64_bits_is_refused(
    store: WordCountStore, workspace: Workspace, weights: tuple[float, float]
) -> None:
    keys = [store.put(counted({b"a": 2**63 - 1}, str(k)), READING) for k in range(2)]
    with pytest.raises(InvalidOption, match="64-bit"):
        store.combine([ShardRef(key, weight) for key, weight in zip(keys, weights, strict=True)])
    assert list(workspace.tables.iterdir()) == []
    assert list(workspace.temporary.iterdir()) == []


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_an_impossible_weight_is_refused(store: WordCountStore, weight: float) -> None:
    with pytest.raises(InvalidOption, match="weight"):
        store.combine([ShardRef(store.put(counted({b"a": 1}), READING), weight)])


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
    assert store.open_table(store.combine([ShardRef(key)])).pattern == pattern


def test_empty_shards_make_an_empty_table_and_no_shards_none(store: WordCountStore) -> None:
    handle = store.combine([ShardRef(store.put(counted({}), READING))])
    assert (handle.rows, handle.total, len(store.open_table(handle))) == (0, 0, 0)
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
    refs = [ShardRef(store.put(part, READING), 1.0, 10_000 * k) for k, part in enumerate(parts)]
    actual = store.open_table(store.combine(refs))
    expected = combine_word_counts(
        [part.counts.shifted(10_000 * k) for k, part in enumerate(parts)]
    ).sorted()
    assert actual.words() == expected.words() == sorted(actual.words())
    assert actual.counts.tolist() == expected.counts.tolist()
    assert actual.first_positions.tolist() == expected.first_positions.tolist()


# ---- finished files ------------------------------------------------------------------------------


def test_a_finished_table_stands_alone(store: WordCountStore, workspace: Workspace) -> None:
    handle = store.combine([ShardRef(store.put(counted(TEMPTING), READING))])
    names = sorted(path.name for path in workspace.tables.iterdir())
    assert names == [f"{handle.key}.duckdb", f"{handle.key}.json"]  # above all, no .wal
    assert list(workspace.temporary.iterdir()) == []
    store.open_table(handle)
    assert sorted(path.name for path in workspace.tables.iterdir()) == names


def test_a_second_run_reuses_the_table_whatever_the_order_of_its_shards(
    store: WordCountStore,
) -> None:
    refs = [ShardRef(store.put(counted({b"a": k}), READING), 1.0, k) for k in (1, 2)]
    first, second = store.combine(refs), store.combine(refs[::-1])
    assert (first.reused, second.reused) == (False, True)
    assert (first.key, first.counts_digest) == (second.key, second.counts_digest)
    changed = [
        [ShardRef(refs[0].key, 2.0, 1), refs[1]],
        [ShardRef(refs[0].key, 1.0, 7), refs[1]],
        [refs[0]],
        [*refs, refs[0]],
    ]
    assert len({store.combine(one).key for one in changed} | {first.key}) == 5


def test_a_table_is_built_with_nothing_open_to_the_outside(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "threads", "enable_external_access", "autoinstall_known_extensions",
        "autoload_known_extensions", "allow_community_extensions", "lock_configuration",
        "python_enable_replacements", "preserve_insertion_order",
    ]  # fmt: skip
    # The statement that makes the table tells how it found the settings.
    monkeypatch.setattr(
        word_count_tables,
        "_EACH_ONCE",
        "CREATE TABLE word_counts AS SELECT (name || '=' || value)::BLOB AS word, "
        "1::BIGINT AS count, 0::BIGINT AS first_position FROM duckdb_settings() "
        f"WHERE name IN {tuple(names)} AND len($files) > 0 AND len($bases) > 0",
    )
    key = store.put(counted({b"%d" % k: 1 for k in range(len(names))}), READING)
    found = dict(
        word.split(b"=") for word in store.open_table(store.combine([ShardRef(key)])).words()
    )
    assert found == {
        b"threads": b"2",
        **{
            name.encode(): b"false"
            for name in names
            if name not in ("threads", "lock_configuration")
        },
        b"lock_configuration": b"true",
    }


def test_a_lost_count_is_noticed(store: WordCountStore, monkeypatch: pytest.MonkeyPatch) -> None:
    key = store.put(counted({b"a": 5, b"b": 6}), READING)
    wrong = word_count_tables._EACH_ONCE.replace("ORDER BY word", "HAVING word <> 'b'::BLOB")
    assert wrong != word_count_tables._EACH_ONCE
    monkeypatch.setattr(word_count_tables, "_EACH_ONCE", wrong)
    with pytest.raises(StorageError, match="lost counts"):
        store.combine([ShardRef(key)])
    monkeypatch.undo()
    assert not store.combine([ShardRef(key)]).reused


def test_too_little_memory_is_a_typed_error_and_leaves_nothing(workspace: Workspace) -> None:
    words = {b"%030d" % k: 1 for k in range(20_000)}
    key = WordCountStore(workspace).put(counted(words), READING)
    with pytest.raises(StorageError, match="memory"):
        WordCountStore(workspace, memory_limit="1MB", threads=1).combine([ShardRef(key)])
    assert list(workspace.tables.iterdir()) == []
    assert WordCountStore(workspace).combine([ShardRef(key)]).rows == 20_000


# ---- damage --------------------------------------------------------------------------------------


def test_a_shard_exists_when_its_record_does(store: WordCountStore, workspace: Workspace) -> None:
    part = counted(TEMPTING, held_out=[b"held out"])
    digest = part.chunk.digest
    assert not store.has(digest, READING)
    key = store.put(part, READING)
    assert key == shard_key(digest, READING)
    assert store.has(digest, READING)
    assert not store.has(digest, digest_of("another reading"))
    for path in (
        workspace.shard_counts(key), workspace.shard_held_out(key), workspace.shard_manifest(key),
    ):  # fmt: skip
        path.unlink()
        assert not store.has(digest, READING)
        store.put(part, READING)
        assert store.has(digest, READING)
    store.forget_shard(key)
    assert not store.has(digest, READING)


@pytest.mark.parametrize("which", ["counts", "manifest"])
@pytest.mark.parametrize("harm", [0.0, 0.3, 0.6, 0.99, "truncated", "missing", "empty"])
def test_a_damaged_shard_is_named_and_forgotten_so_that_it_is_counted_again(
    store: WordCountStore, workspace: Workspace, which: str, harm: float | str
) -> None:
    good, bad = counted(TEMPTING), counted({b"%d" % k: k + 1 for k in range(500)})
    refs = [ShardRef(store.put(part, READING)) for part in (good, bad)]
    paths = {"counts": workspace.shard_counts, "manifest": workspace.shard_manifest}
    path = paths[which](refs[1].key)
    if isinstance(harm, float):
        flip(path, harm)
    elif harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: -1 if harm == "truncated" else 0])
    with pytest.raises(CorruptFile, match=path.name):
        store.combine(refs)
    assert store.has(good.chunk.digest, READING)
    assert not store.has(bad.chunk.digest, READING)
    store.put(bad, READING)
    assert store.combine(refs).total == good.counts.total + bad.counts.total


def test_a_shard_under_another_ones_name_is_not_believed(
    store: WordCountStore, workspace: Workspace
) -> None:
    keys = [store.put(counted({word: 5}), READING) for word in (b"a", b"b")]
    for place in (workspace.shard_counts, workspace.shard_manifest):
        place(keys[1]).write_bytes(place(keys[0]).read_bytes())
    with pytest.raises(CorruptFile):
        store.combine([ShardRef(keys[1])])


@pytest.mark.parametrize("place", [k / 40 for k in range(40)])
def test_a_damaged_table_is_never_believed(
    store: WordCountStore, tmp_path: Path, place: float
) -> None:
    words = {b"%d" % k: 1 + k * k for k in range(3000)}
    refs = [ShardRef(store.put(counted(words), READING))]
    handle = store.combine(refs)
    expected = store.open_table(handle).digest
    flip(handle.path, place)
    try:
        actual = store.open_table(handle).digest
    except CorruptFile:
        assert not store.combine(refs).reused  # forgotten, and made anew
    else:
        assert actual == expected  # the bit was in a part of the file that holds nothing


@pytest.mark.parametrize("harm", ["truncated", "missing", "manifest", "log", "other table"])
def test_a_table_whose_surroundings_are_wrong_is_never_believed(
    store: WordCountStore, workspace: Workspace, harm: str
) -> None:
    refs = [ShardRef(store.put(counted(TEMPTING), READING))]
    other = store.combine([ShardRef(store.put(counted({b"a": 1}), READING))])
    handle = store.combine(refs)
    if harm == "truncated":
        handle.path.write_bytes(handle.path.read_bytes()[:-4096])
    elif harm == "missing":
        handle.path.unlink()
    elif harm == "manifest":
        flip(workspace.table_manifest(handle.key), 0.5)
    elif harm == "log":
        word_count_tables.log_of(handle.path).write_bytes(b"")
    else:
        handle.path.write_bytes(other.path.read_bytes())
    with pytest.raises(CorruptFile):
        store.open_table(handle)
    again = store.combine(refs)
    assert not again.reused
    assert store.open_table(again).digest == again.counts_digest == handle.counts_digest


KILLED_WHILE_STORING = """
import os, sys
from pathlib import Path
from registry.word_count_store import ShardRef, WordCountStore
from registry.workspace import Workspace
from tokenizer_core.durable_files import DurableFiles
workspace = Workspace(Path(sys.argv[1]))
DurableFiles.replace = lambda *_: os._exit(137)
WordCountStore(workspace, threads=1).combine([ShardRef(sys.argv[2])])
"""


def test_a_killed_combination_leaves_only_what_the_next_opening_sweeps(
    store: WordCountStore, workspace: Workspace
) -> None:
    ref = ShardRef(store.put(counted(TEMPTING), READING))
    (workspace.temporary / "duckdb-1-killed").mkdir()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_STORING, str(workspace.root), ref.key], cwd=ROOT
    )
    assert killed.returncode == 137
    assert [path.name.startswith(".tmp-") for path in workspace.tables.iterdir()] == [True]
    Workspace.open(workspace.root)
    assert [*workspace.tables.iterdir(), *workspace.temporary.iterdir()] == []
    handle = store.combine([ref])
    assert not handle.reused
    assert store.open_table(handle).total == sum(TEMPTING.values())


# ---- documents and statistics --------------------------------------------------------------------


def test_statistics_add_up_what_the_records_say(store: WordCountStore) -> None:
    one = store.put(counted({b"ab": 3, b"c": 1}, held_out=[b"xyz", b"\xff"]), READING)
    two = store.put(counted({b"ab": 2}), READING)
    assert store.statistics([one, two, two]) == ShardStatistics(
        shards=3, words=4, total=8, total_bytes=15, documents=9, bytes_counted=15,
        special_tokens_seen=6, replaced_utf8=3, held_out_documents=2, held_out_bytes=4,
    )  # fmt: skip
    assert store.statistics([]) == ShardStatistics()
    store.forget_shard(two)
    with pytest.raises(CorruptFile):
        store.statistics([one, two])


def test_held_out_documents_come_back_in_order(store: WordCountStore) -> None:
    documents = [b"one", b"", b"zwei\x00", b"\xff\xfe", b"d" * 100_000]
    one = store.put(counted({b"a": 1}, held_out=documents), READING)
    two = store.put(counted({b"b": 1}, held_out=[b"two"]), READING)
    none = store.put(counted({b"c": 1}), READING)
    everything = store.held_out_documents([one, none, two, one], 10**9)
    assert everything == [*documents, b"two"]
    assert store.held_out_documents([none], 10) == []


def test_a_limit_takes_an_even_share_of_every_shard_and_always_the_same(
    store: WordCountStore,
) -> None:
    held_out = [[b"%d.%03d" % (k, n) for n in range(400)] for k in range(5)]
    keys = [
        store.put(counted({b"a": k + 1}, held_out=docs), READING) for k, docs in enumerate(held_out)
    ]
    chosen = store.held_out_documents(keys, 1000)
    assert sum(map(len, chosen)) == 1000
    assert [sum(doc.startswith(b"%d." % k) for doc in chosen) for k in range(5)] == [40] * 5
    assert chosen == store.held_out_documents(keys, 1000)
    assert store.held_out_documents(keys, 0) == []


def test_damaged_held_out_documents_are_not_believed(
    store: WordCountStore, workspace: Workspace
) -> None:
    part = counted({b"a": 1}, held_out=[b"some text to evaluate on"] * 10)
    key = store.put(part, READING)
    flip(workspace.shard_held_out(key), 0.4)
    with pytest.raises(CorruptFile, match=r"held-out"):
        store.held_out_documents([key], 10**6)
    assert not store.has(part.chunk.digest, READING)


def test_a_shard_is_the_same_bytes_whoever_writes_it(
    store: WordCountStore, workspace: Workspace
) -> None:
    """So processes that write the same shard at once leave a whole one, whatever the order."""
    part = counted(TEMPTING, held_out=[b"x"])
    key = store.put(part, READING)
    paths = (workspace.shard_counts, workspace.shard_held_out, workspace.shard_manifest)
    before = [digest_of_bytes(path(key).read_bytes()) for path in paths]
    store.put(part, READING)
    assert [digest_of_bytes(path(key).read_bytes()) for path in paths] == before


def test_of_one_document_that_is_too_long_the_beginning_is_measured(store: WordCountStore) -> None:
    long = ("中文" * 1000).encode()
    key = store.put(counted({b"a": 1}, held_out=[long]), READING)
    (chosen,) = store.held_out_documents([key], 1000)
    assert long.startswith(chosen)
    assert 997 <= len(chosen) <= 1000
    chosen.decode()
