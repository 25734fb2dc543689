"""Shards: they exist when their record does, and are forgotten when they are damaged."""

from __future__ import annotations

import errno
from itertools import pairwise

import duckdb
import numpy as np
import pytest
from counted_chunks import READING, TEMPTING, counted, flip

from bpeline.registry.word_counts import (
    ShardRef,
    ShardStatistics,
    WordCountStore,
    rows,
    shard_key,
)
from bpeline.registry.word_counts.rows import CountsFile, read_counts
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import CorruptFile, StorageError


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


@pytest.mark.parametrize("number", [1, 2**32 - 1, 2**32, 2**62])
def test_every_number_comes_back_whatever_room_it_takes(workspace: Workspace, number: int) -> None:
    counts = WordCounts.from_mapping({**TEMPTING, b"many": number})
    for position in (0, 2**32 - 1 - len(counts), 2**32, 2**60):
        given, path = counts.shifted(position), workspace.root / f"{position}.parquet"
        with CountsFile(workspace, path) as file:
            file.add(given)
        back = read_counts(path, file.rows, given.pattern, workspace)
        assert list(back.items()) == list(given.items())
        assert back.first_positions.tolist() == given.first_positions.tolist()
        arrays = (back.word_bytes, back.offsets, back.counts, back.first_positions)
        assert [array.dtype for array in arrays] == [np.uint8, np.int64, np.int64, np.int64]


def test_rows_have_one_digest_however_they_were_parted(workspace: Workspace) -> None:
    counts = WordCounts.from_mapping(TEMPTING)
    found = []
    for cuts in ([0, len(counts)], [0, 1, 5, len(counts)]):
        with CountsFile(workspace, workspace.root / "x.parquet") as file:
            for begin, end in pairwise(cuts):
                file.add(counts.between(begin, end))
        found.append(file.rows)
        assert read_counts(workspace.root / "x.parquet", file.rows, counts.pattern, workspace)
    assert found[0] == found[1]


def test_other_programs_read_the_rows(store: WordCountStore, workspace: Workspace) -> None:
    key = store.put(counted(TEMPTING, held_out=[b"text"]), READING)
    with duckdb.connect() as connection:
        read = "SELECT word, count, first_position FROM read_parquet(?)"
        rows = connection.execute(read, [str(workspace.shard_counts(key))]).fetchall()
        documents = connection.execute("FROM read_parquet(?)", [str(workspace.shard_held_out(key))])
        assert documents.fetchall() == [(b"text",)]
    assert rows == [(word, TEMPTING[word], k) for k, word in enumerate(TEMPTING)]


# What no program reads of a Parquet file: the mark at its beginning, who wrote it.
UNREAD = (("counts", 0.0), ("counts", 0.99))


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
    if (which, harm) in UNREAD:
        assert store.combine(refs).total == good.counts.total + bad.counts.total
        return
    with pytest.raises(CorruptFile, match=path.name):
        store.combine(refs)
    assert store.has(good.chunk.digest, READING)
    assert not store.has(bad.chunk.digest, READING)
    store.put(bad, READING)
    assert store.combine(refs).total == good.counts.total + bad.counts.total


@pytest.mark.parametrize("wrong", [OSError(errno.EMFILE, "too many"), MemoryError()])
def test_what_cannot_be_read_now_is_not_taken_for_damage(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch, wrong: Exception
) -> None:
    part = counted(TEMPTING)
    ref = ShardRef(store.put(part, READING))

    def refuse(*_: object) -> None:
        raise wrong

    with monkeypatch.context() as patched:
        patched.setattr(rows, "open_file", refuse)
        with pytest.raises((StorageError, MemoryError)):
            store.combine([ref])
    assert store.has(part.chunk.digest, READING)
    assert store.combine([ref]).total == part.counts.total


@pytest.mark.parametrize("position", [0, 7])
def test_all_damaged_shards_are_forgotten_at_once(
    store: WordCountStore, workspace: Workspace, position: int
) -> None:
    parts = [counted({b"%d" % k: k + 1}) for k in range(5)]
    keys = [store.put(part, READING) for part in parts]
    for k in (1, 3):
        flip(workspace.shard_counts(keys[k]), 0.5)
    with pytest.raises(CorruptFile):
        store.combine([ShardRef(key, position) for key in keys])
    there = [store.has(part.chunk.digest, READING) for part in parts]
    assert there == [True, False, True, False, True]


def test_a_shard_under_another_ones_name_is_not_believed(
    store: WordCountStore, workspace: Workspace
) -> None:
    keys = [store.put(counted({word: 5}), READING) for word in (b"a", b"b")]
    for place in (workspace.shard_counts, workspace.shard_manifest):
        place(keys[1]).write_bytes(place(keys[0]).read_bytes())
    with pytest.raises(CorruptFile):
        store.combine([ShardRef(keys[1])])


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


def test_statistics_add_up_what_the_records_say(
    store: WordCountStore, workspace: Workspace
) -> None:
    one = store.put(counted({b"ab": 3, b"c": 1}, held_out=[b"xyz", b"\xff"]), READING)
    two = store.put(counted({b"ab": 2}), READING)
    assert store.statistics([one, two, two]) == ShardStatistics(
        shards=3, words=4, total=8, total_bytes=15, documents=9, bytes_counted=15,
        special_tokens_seen=6, replaced_utf8=3, held_out_documents=2, held_out_bytes=4,
    )  # fmt: skip
    assert store.statistics([]) == ShardStatistics()
    workspace.shard_manifest(two).unlink()
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
    part = counted({b"a": 1}, held_out=[digest_of(k).encode() for k in range(100)])
    key = store.put(part, READING)
    flip(workspace.shard_held_out(key), 0.4)
    with pytest.raises(CorruptFile, match=r"held-out"):
        store.held_out_documents([key], 10**6)
    assert not store.has(part.chunk.digest, READING)


def test_of_one_document_that_is_too_long_the_beginning_is_measured(store: WordCountStore) -> None:
    long = ("中文" * 1000).encode()
    key = store.put(counted({b"a": 1}, held_out=[long]), READING)
    (chosen,) = store.held_out_documents([key], 1000)
    assert long.startswith(chosen)
    assert 997 <= len(chosen) <= 1000
    chosen.decode()
