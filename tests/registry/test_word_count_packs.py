"""Packs: counts of many small chunks in a few files, as good as shards with files of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from counted_chunks import READING, counted, flip

from bpeline.registry.word_counts import ShardFiles, ShardRef, WordCountStore, shard_key
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts, combine_word_counts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE, Disk
from bpeline.tokenizer_core.errors import CorruptFile


class CountingDisk(Disk):
    """Counts the times it waits for the medium."""

    syncs = 0

    def sync(self, path: Path) -> None:
        self.syncs += 1
        super().sync(path)


def parts_of(number: int) -> list[ChunkCounts]:
    return [
        counted({b"%d" % (k % 7): k + 1, b"all": 2}, f"{k}", [b"held %d" % k] * (k % 3))
        for k in range(number)
    ]


def put(store: WordCountStore, parts: Sequence[ChunkCounts]) -> list[ShardRef]:
    with store.putting() as chunks:
        for part in parts:
            chunks.put(part, READING)
    keys = [shard_key(part.chunk.digest, READING) for part in parts]
    return [ShardRef(key, 1000 * k) for k, key in enumerate(keys)]


def files_in(workspace: Workspace) -> list[Path]:
    return sorted(path for path in workspace.shards.rglob("*") if path.is_file())


def test_hundreds_of_small_chunks_are_a_few_files_and_a_few_syncs(
    store: WordCountStore, workspace: Workspace
) -> None:
    disk = CountingDisk()
    with DURABLE.on(disk):
        put(store, parts_of(300))
    assert len(files_in(workspace)) == 3
    assert disk.syncs < 15


def test_sums_of_a_pack_may_exceed_64_bits_together(store: WordCountStore) -> None:
    large = [counted({b"word %d" % k: 2**61, b"all": k + 1}, f"{k}") for k in range(40)]
    refs = put(store, large)
    assert all(store.statistics([ref.key]).total == 2**61 + k + 1 for k, ref in enumerate(refs))
    assert store.statistics([ref.key for ref in refs]).total == 40 * 2**61 + 820
    lengths = [6 + (k > 9) for k in range(40)]
    sums = [store.statistics([ref.key]).total_bytes for ref in refs]
    assert sums == [2**61 * size + 3 * k + 3 for k, size in enumerate(lengths)]


def test_a_pack_says_what_shards_with_files_of_their_own_say(
    store: WordCountStore, tmp_path: Path
) -> None:
    parts = parts_of(20)
    alone = WordCountStore(Workspace.open(tmp_path / "alone"), threads=1)
    for part in parts:
        alone.put(part, READING)
    refs = put(store, parts)
    assert all(store.has(part.chunk.digest, READING) for part in parts)
    assert not store.has(parts[0].chunk.digest, digest_of("another reading"))
    # One at several places, one that lies alone, another order, some left out.
    more = counted({b"more": 1}, "more")
    for one in (store, alone):
        one.put(more, READING)
    own = shard_key(more.chunk.digest, READING)
    refs = [*refs[5:], *refs[:3], ShardRef(refs[7].key, 70_000), ShardRef(own, 80_000)]
    keys = [ref.key for ref in refs]
    assert store.statistics(keys) == alone.statistics(keys)
    assert store.held_out_documents(keys, 10**6) == alone.held_out_documents(keys, 10**6)
    table, expected = store.combine(refs), alone.combine(refs)
    assert (table.key, table.counts_digest) == (expected.key, expected.counts_digest)
    read, there = (
        one.open_table(replace(handle, reused=True))
        for one, handle in ((store, table), (alone, expected))
    )
    assert read.first_positions.tolist() == there.first_positions.tolist()
    held = {shard_key(part.chunk.digest, READING): part.counts for part in [*parts, more]}
    summed = combine_word_counts([held[ref.key].shifted(ref.position_base) for ref in refs])
    assert read.to_mapping() == summed.to_mapping()
    files, pattern = ShardFiles(store.workspace), parts[0].counts.pattern
    for key in keys:
        words = files.counts(files.read(key), pattern)
        assert list(words.items()) == list(held[key].items())


def test_what_comes_later_leaves_packs_as_they_are(
    store: WordCountStore, workspace: Workspace
) -> None:
    parts = parts_of(12)
    put(store, parts[:4] + parts[5:])
    before = {path: path.read_bytes() for path in files_in(workspace)}
    refs = put(store, parts[4:5])
    assert {path: path.read_bytes() for path in before} == before
    assert len(files_in(workspace)) == len(before) + 3  # alone, so in files of its own
    assert store.statistics([refs[0].key]).shards == 1


def test_chunks_of_one_text_are_counted_once(store: WordCountStore) -> None:
    (part,) = parts_of(1)
    with store.putting() as chunks:
        assert not chunks.has(part.chunk.digest, READING)
        chunks.put(part, READING)
        assert chunks.has(part.chunk.digest, READING)
        assert not store.has(part.chunk.digest, READING)  # nothing of it is written yet
    assert store.has(part.chunk.digest, READING)


def test_what_was_counted_before_a_failure_is_kept(store: WordCountStore) -> None:
    parts = parts_of(5)

    def put_and_fail() -> None:
        with store.putting() as chunks:
            for part in parts[:3]:
                chunks.put(part, READING)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_and_fail()
    there = [store.has(part.chunk.digest, READING) for part in parts]
    assert there == [True, True, True, False, False]


@pytest.mark.parametrize("harm", ["altered", "truncated", "missing"])
@pytest.mark.parametrize("which", [".json", ".held-out.parquet", ".parquet"])
def test_a_damaged_pack_is_forgotten_and_counted_again(
    store: WordCountStore, workspace: Workspace, which: str, harm: str
) -> None:
    parts, others = parts_of(6), parts_of(12)[6:]
    refs = [*put(store, parts), *put(store, others)]
    expected = store.combine(refs)
    store.forget_table(expected.key)
    names = {ShardFiles(workspace).read(ref.key).file for ref in refs[:6]}
    (path,) = (workspace.shards / f"{name}{which}" for name in names)
    if harm == "altered":
        flip(path, 0.5)
    elif harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    keys = [ref.key for ref in refs]
    damaged = WordCountStore(workspace, threads=1)
    if "held" in which:
        with pytest.raises(CorruptFile):
            damaged.held_out_documents(keys, 10**6)
    else:
        with pytest.raises(CorruptFile):
            damaged.combine(refs)
    fresh = WordCountStore(workspace, threads=1)
    assert not any(fresh.has(part.chunk.digest, READING) for part in parts)
    assert all(fresh.has(part.chunk.digest, READING) for part in others)
    put(fresh, parts)
    assert fresh.combine(refs).counts_digest == expected.counts_digest
    assert len(fresh.held_out_documents(keys, 10**6)) == 12


def test_a_pack_under_another_ones_name_is_not_believed(
    store: WordCountStore, workspace: Workspace
) -> None:
    refs = [*put(store, parts_of(4)), *put(store, parts_of(8)[4:])]
    one, other = sorted(workspace.packs.glob("*.json"))
    other.write_bytes(one.read_bytes())
    fresh = WordCountStore(workspace, threads=1)
    with pytest.raises(CorruptFile):
        fresh.combine(refs)


def test_a_pack_is_the_same_bytes_whoever_writes_it(
    store: WordCountStore, workspace: Workspace
) -> None:
    put(store, parts_of(9))
    before = {path: path.read_bytes() for path in files_in(workspace)}
    put(store, parts_of(9))
    assert {path: path.read_bytes() for path in files_in(workspace)} == before
