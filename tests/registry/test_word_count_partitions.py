"""Word counts added up partition by partition are the core's own sum, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_chunks import READING, TEMPTING, counted, flip
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpeline.registry.word_counts import ShardRef, WordCountStore, partitions
from bpeline.registry.word_counts.arrow_columns import counts_as_parts
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_sums import combine_word_counts
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption, StorageError

WORDS = st.dictionaries(
    st.one_of(st.binary(min_size=1, max_size=3), st.sampled_from(sorted(TEMPTING))),
    st.integers(1, 2**40),
    max_size=12,
)


class Mapped:
    """A mapper without workers, which remembers what it was given and does it twice."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[str]]] = []
        self.between: Callable[[str], None] = lambda _: None

    def __call__(
        self, work: Callable[[Any], Any], items: Sequence[Any], name: str, named: Any
    ) -> list[Any]:
        self.done.append((name, list(map(named, items))))
        self.between(name)
        first = [work(item) for item in items]
        assert [work(item) for item in items] == first  # a lost worker's work is done again
        return first


@pytest.fixture
def mapper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapped]:
    """Everything is large enough for partitions, and makes several of all."""
    monkeypatch.setattr(partitions, "PARTITIONED_ROWS", 0)
    monkeypatch.setattr(partitions, "_ROWS_IN_SLICE", 20)
    monkeypatch.setattr(partitions, "_ROWS_IN_PARTITION", 7)
    return Mapped()


@pytest.fixture
def far(workspace: Workspace, mapper: Mapped) -> WordCountStore:
    return WordCountStore(workspace, mapper=mapper)


@pytest.mark.night
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(WORDS, st.integers(0, 10**15)), min_size=1, max_size=6))
def test_partitions_equal_the_core_s_own_sum(
    far: WordCountStore, parts: list[tuple[dict[bytes, int], int]]
) -> None:
    """Bases, empty shards and shards that stand in several places included."""
    parts = [*parts, parts[0]]
    refs, shifted = [], []
    for k, (words, base) in enumerate(parts):
        part = counted(words)
        refs.append(ShardRef(far.put(part, READING), base + k))
        shifted.append(part.counts.shifted(base + k))
    expected = combine_word_counts(shifted)
    handle = far.combine(refs)
    actual = far.open_table(replace(handle, reused=True))
    assert actual.to_mapping() == expected.to_mapping()
    assert actual.digest == expected.digest == handle.counts_digest
    assert actual.first_positions.tolist() == sorted(expected.first_positions.tolist())
    far.forget_table(handle.key)


@pytest.mark.night
def test_the_table_is_the_one_that_is_made_here(
    far: WordCountStore, mapper: Mapped, workspace: Workspace
) -> None:
    keys = [
        far.put(
            counted({b"%d" % (number % 90): 1 + k for number in range(k, 60 + k)}, str(k)), READING
        )
        for k in range(6)
    ]
    refs = [ShardRef(key, position_base=1000 * k) for k, key in enumerate(keys)]
    made = far.combine(refs)
    content = made.path.read_bytes()
    far.forget_table(made.key)
    here = WordCountStore(workspace).combine(refs)
    assert (here.counts_digest, here.key, here.rows) == (made.counts_digest, made.key, made.rows)
    assert len(here.path.read_bytes()) == len(content)
    assert [name for name, _ in mapper.done] == ["cut counts", "merge counts"]
    assert len(mapper.done[0][1]) == 6  # 60 rows each, where a slice takes 20
    assert len(mapper.done[1][1]) == 52  # 360 rows by 7
    assert "partition 51" in mapper.done[1][1][-1]
    assert list(workspace.temporary.iterdir()) == []


def test_few_rows_are_added_up_here(
    far: WordCountStore, mapper: Mapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "PARTITIONED_ROWS", 15)
    far.combine([ShardRef(far.put(counted(TEMPTING), READING))])
    assert mapper.done == []
    keys = [far.put(counted(TEMPTING, name), READING) for name in "ab"]
    far.combine([ShardRef(key, position_base=k) for k, key in enumerate(keys)])
    assert [name for name, _ in mapper.done] == ["cut counts", "merge counts"]


def test_a_word_falls_into_the_same_partition_on_every_machine() -> None:
    words = WordCounts.from_mapping(TEMPTING)
    # By the plain-Python twin of the kernel, in tests/tokenizer_core/test_chunk_counts.py.
    expected = [1, 3, 2, 6, 2, 1, 1, 3, 5, 2, 3, 1, 1, 2]
    assert partitions.partition_of(words, 7).tolist() == expected
    many = WordCounts.from_mapping({b"word %d" % number: 1 for number in range(4000)})
    assert min(np.bincount(partitions.partition_of(many, 4)).tolist()) > 800
    assert partitions.partition_of(WordCounts.empty(), 4).tolist() == []


@pytest.mark.night
def test_a_damaged_shard_is_forgotten_and_can_be_counted_again(
    far: WordCountStore, workspace: Workspace
) -> None:
    keys = [far.put(counted(TEMPTING, name), READING) for name in "ab"]
    refs = [ShardRef(key, position_base=k) for k, key in enumerate(keys)]
    flip(workspace.shard_counts(keys[1]), 0.5)
    with pytest.raises(CorruptFile):
        far.combine(refs)
    assert [workspace.shard_manifest(key).exists() for key in keys] == [True, False]
    far.put(counted(TEMPTING, "b"), READING)
    assert far.combine(refs).total == 2 * sum(TEMPTING.values())


def test_counts_lost_between_workers_are_noticed(
    far: WordCountStore, mapper: Mapped, workspace: Workspace
) -> None:
    keys = [far.put(counted(dict.fromkeys(TEMPTING, 2), name), READING) for name in "ab"]
    refs = [ShardRef(key, k) for k, key in enumerate(keys)]

    def swap(name: str) -> None:
        """The second slice is the first one's words, fewer of them."""
        if name == "merge counts":
            (directory,) = workspace.temporary.iterdir()
            one = partitions.Slice(workspace, ((keys[0], 0),), 5, directory / "slice-of-less.arrow")
            partitions.cut_slice(one)
            for path in directory.glob("slice-[0-9]*.arrow"):
                one.path.replace(path)
                break

    mapper.between = swap
    with pytest.raises(StorageError):
        far.combine(refs)


def test_sums_that_int64_cannot_hold_are_refused(far: WordCountStore) -> None:
    keys = [far.put(counted({b"a": 2**63 - 1}, name), READING) for name in "ab"]
    with pytest.raises(InvalidOption):
        far.combine([ShardRef(key, k) for k, key in enumerate(keys)])


def test_what_was_merged_is_not_merged_again(tmp_path: Path) -> None:
    path = tmp_path / "1.arrow"
    words = WordCounts.from_mapping(TEMPTING)
    path.write_bytes(counts_as_parts(words, np.array([3, len(words)])))
    nothing = (tmp_path / "no slice",)
    one = partitions.Partition(1, nothing, 1, words.pattern, (0, 3), path)
    assert partitions.merge_partition(one) == (len(words), len(words.word_bytes))
