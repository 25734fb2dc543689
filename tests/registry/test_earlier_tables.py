"""A table that begins with an earlier one is the table that all shards would have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from counted_chunks import READING, TEMPTING, counted, flip, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpeline.registry.word_counts import ShardRef, TableHandle, WordCountStore
from bpeline.registry.word_counts import store as word_count_store
from bpeline.registry.word_counts.shards import ShardFiles
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import WordCounts

CHUNK = 10**9
WORDS = st.dictionaries(st.sampled_from(sorted(TEMPTING)), st.integers(1, 2**40), max_size=9)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the shards whose words were read since it was last cleared."""
    keys: list[str] = []
    counts = ShardFiles.counts_together

    def reading(self: ShardFiles, shard: object, pattern: object) -> object:
        keys.append(shard.key)  # type: ignore[attr-defined]
        return counts(self, shard, pattern)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardFiles, "counts_together", reading)
    return keys


def put(store: WordCountStore, corpus: Sequence[dict[bytes, int]]) -> list[ShardRef]:
    return [
        ShardRef(store.put(counted(words, str(place)), READING), place * CHUNK)
        for place, words in enumerate(corpus)
    ]


Scratch = tuple[TableHandle, WordCounts]


def from_scratch(store: WordCountStore, refs: Sequence[ShardRef]) -> Scratch:
    """Made of nothing but shards, and forgotten; and what it held."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(word_count_store, "part_of", lambda *_: None)
        table = store.combine(refs)
    counts = store.open_table(table)
    store.forget_table(table.key)
    return table, counts


def assert_equal(table: TableHandle, scratch: Scratch, store: WordCountStore) -> None:
    made, counts = scratch
    assert table == replace(made, path=table.path)
    actual = store.open_table(replace(table, reused=True))  # as it lies in its file
    assert actual.digest == counts.digest
    assert actual.first_positions.tolist() == counts.first_positions.tolist()


@pytest.mark.night
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(WORDS, min_size=2, max_size=6), st.data())
def test_what_an_earlier_table_holds_is_not_added_again(
    store: WordCountStore, read: list[str], corpus: list[dict[bytes, int]], data: st.DataObject
) -> None:
    refs = put(store, corpus)
    if data.draw(st.booleans()):  # a chunk that stands at two places
        refs.append(ShardRef(refs[0].key, len(refs) * CHUNK))
    some = st.lists(st.sampled_from(refs), unique=True, min_size=1, max_size=len(refs) - 1)
    held = data.draw(some)
    scratch = from_scratch(store, refs)
    earlier = store.combine(held)
    read.clear()
    table = store.combine(refs)
    assert set(read) == {ref.key for ref in refs if ref not in held}
    assert_equal(table, scratch, store)
    for made in (earlier, table):
        store.forget_table(made.key)


@pytest.mark.night
def test_the_table_that_holds_most_is_taken(store: WordCountStore, read: list[str]) -> None:
    refs = put(store, [{b"a": 1}, {b"b": 2}, {b"c": 3}, {b"d": 4}])
    for number in (1, 3, 2):
        store.combine(refs[:number])
    read.clear()
    table = store.combine(refs)
    assert read == [refs[3].key]
    assert [row[:2] for row in rows_of(table)] == [(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)]


@pytest.mark.night
def test_a_chunk_that_moved_or_went_makes_a_table_useless(
    store: WordCountStore, read: list[str]
) -> None:
    refs = put(store, [{b"a": 1}, {b"b": 2, b"a": 5}, {b"c": 3}])
    store.combine(refs)
    moved = [refs[0], ShardRef(refs[2].key, CHUNK), ShardRef(refs[1].key, 2 * CHUNK)]
    for others in (refs[:2], moved, moved[1:]):
        scratch = from_scratch(store, others)
        read.clear()
        assert_equal(store.combine(others), scratch, store)
    assert set(read) == {ref.key for ref in moved[1:]}


def test_a_damaged_table_is_forgotten_and_the_shards_are_added(
    store: WordCountStore, workspace: Workspace, read: list[str]
) -> None:
    refs = put(store, [{bytes([n, k]): n + 1 for n in range(200)} for k in range(3)])
    scratch = from_scratch(store, refs)
    earlier = store.combine(refs[:2])
    path: Path = workspace.table(earlier.key)
    for place in (0.3, 0.5, 0.7, 0.9):
        flip(path, place)
    read.clear()
    table = store.combine(refs)
    assert len(read) == 3
    assert store.table(earlier.key) is None
    assert_equal(table, scratch, store)


def test_a_record_of_before_is_passed_over(store: WordCountStore, read: list[str]) -> None:
    """Tables of earlier versions do not say where their chunks stood."""
    refs = put(store, [{b"a": 1}, {b"b": 2}])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(word_count_store, "PLACES", "other")
        store.combine(refs[:1])
    read.clear()
    store.combine(refs)
    assert read == [ref.key for ref in refs]
