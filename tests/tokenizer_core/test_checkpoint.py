"""Checkpoints are whole or refused, whatever happens to their bytes."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, InvalidOption
from bpeline.tokenizer_core.merging.checkpoint import (
    Checkpoint,
    load_checkpoint,
    previous_path,
    save_checkpoint,
)

COUNTS, SETTINGS, OTHER = "a" * 64, "b" * 64, "c" * 64


def checkpoint_of(merges: int, counts_digest: str = COUNTS) -> Checkpoint:
    return Checkpoint(
        counts_digest,
        SETTINGS,
        np.arange(merges, dtype=np.int32),
        np.arange(256, 256 + merges, dtype=np.int32) - 1,
        np.int64(2) ** 62 - np.arange(merges, dtype=np.int64),
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        (one.counts_digest, one.settings_digest) == (other.counts_digest, other.settings_digest)
        and np.array_equal(one.left, other.left)
        and np.array_equal(one.right, other.right)
        and np.array_equal(one.counts, other.counts)
    )


@pytest.mark.parametrize("merges", [0, 1, 100])
def test_what_is_saved_is_loaded(tmp_path: Path, merges: int) -> None:
    path = tmp_path / "merges.checkpoint"
    save_checkpoint(path, checkpoint_of(merges))
    loaded = load_checkpoint(path)
    assert same(loaded, checkpoint_of(merges))
    assert (loaded.left.dtype, loaded.counts.dtype) == (np.int32, np.int64)
    assert len(loaded) == merges


def test_every_truncation_falls_back_to_the_checkpoint_before(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, checkpoint_of(5))
    save_checkpoint(path, checkpoint_of(9))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert same(load_checkpoint(path), checkpoint_of(5))
    previous_path(path).unlink()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFile):
            load_checkpoint(path)


def test_no_mutation_is_ever_read_as_merges(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, checkpoint_of(7))
    whole = path.read_bytes()
    source = random.Random(8)
    for _ in range(2000):
        mutated = bytearray(whole)
        for _ in range(source.choice([1, 1, 1, 2, 8])):
            mutated[source.randrange(len(mutated))] = source.choice([0, 255, source.randrange(256)])
        if source.random() < 0.2:
            mutated += source.randbytes(source.randrange(1, 9))
        if mutated == whole:
            continue
        path.write_bytes(mutated)
        with pytest.raises(CorruptFile):
            load_checkpoint(path)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (8, (2).to_bytes(4, "little")),  # a later format
        (12, (2**31).to_bytes(4, "little")),  # a header of two gigabytes
        (16, (2**60).to_bytes(8, "little")),  # more merges than there are bytes
        (-32 - 8, None),
    ],
)
def test_a_forged_file_with_a_true_hash_is_refused(
    tmp_path: Path, at: int, value: bytes | None
) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, checkpoint_of(3))
    content = bytearray(path.read_bytes()[:-32])
    if value is None:  # the first merge joins a token that does not exist yet
        at, value = len(content) - 3 * 16, (256).to_bytes(4, "little")
    content[at : at + len(value)] = value
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(CorruptFile):
        load_checkpoint(path)


def test_a_broken_file_never_displaces_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, checkpoint_of(1))
    save_checkpoint(path, checkpoint_of(2))
    path.write_bytes(b"torn")
    save_checkpoint(path, checkpoint_of(3))
    path.write_bytes(b"torn again")
    assert same(load_checkpoint(path), checkpoint_of(1))


def test_a_crash_between_the_two_renames_loses_only_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, checkpoint_of(4))

    def full(*_: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(DURABLE, "write", full)
    with pytest.raises(DiskFull):
        save_checkpoint(path, checkpoint_of(5))
    assert not path.exists()
    assert same(load_checkpoint(path), checkpoint_of(4))


def test_a_missing_checkpoint_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption) as refusal:
        load_checkpoint(tmp_path / "nothing")
    assert str(tmp_path / "nothing") in refusal.value.happened
    assert refusal.value.accepted
    assert refusal.value.next_step


def test_another_runs_checkpoint_is_refused() -> None:
    checkpoint = checkpoint_of(2)
    checkpoint.require_same_run(COUNTS, SETTINGS)
    with pytest.raises(InvalidOption, match="word counts"):
        checkpoint.require_same_run(OTHER, SETTINGS)
    with pytest.raises(InvalidOption, match="settings"):
        checkpoint.require_same_run(COUNTS, OTHER)
