"""Interrupted training goes on as if nothing had happened; other runs' merges are refused."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, InvalidOption
from bpeline.tokenizer_core.merging.checkpoint import (
    Checkpoint,
    load_checkpoint,
    previous_path,
    save_checkpoint,
)
from bpeline.tokenizer_core.training.bpe import LearnedMerges, learn_merges, settings_digest
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS
from tests.tokenizer_core.test_bpe_trainer import TOY, as_lists, pairs_of


@functools.cache
def many_words() -> WordCounts:
    """Thousands of words over few letters: more merges than one checkpoint waits for."""
    source = random.Random(11)
    words = {
        bytes(source.choice(b"etaoin srh") for _ in range(source.randrange(2, 14))): 1
        + source.randrange(20)
        for _ in range(8000)
    }
    return WordCounts.from_mapping(words)


def some_words(seed: int, size: int = 12) -> dict[bytes, int]:
    source = random.Random(seed)
    return {
        bytes(source.choice(b"aab ") for _ in range(source.randrange(2, 9))): source.randrange(1, 5)
        for _ in range(size)
    }


def checkpoint_after(learned: LearnedMerges, merges: int, counts: WordCounts, **options: object):  # type: ignore[no-untyped-def]
    return Checkpoint(
        counts.digest,
        settings_digest(**options),  # type: ignore[arg-type]
        learned.left[:merges],
        learned.right[:merges],
        learned.counts[:merges],
    )


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize("seed", range(4))
def test_resuming_after_any_merge_gives_the_uninterrupted_run(tie_break: str, seed: int) -> None:
    counts = WordCounts.from_mapping(some_words(seed))
    options = {"tie_break": tie_break, "min_count": 1 + seed % 2, "max_token_bytes": 7}
    whole = learn_merges(counts, 60, **options)  # type: ignore[arg-type]
    assert len(whole) > 10
    for merges in range(len(whole) + 1):
        saved = checkpoint_after(whole, merges, counts, **options)
        resumed = learn_merges(counts, 60, resume_from=saved, **options)  # type: ignore[arg-type]
        assert as_lists(resumed) == as_lists(whole)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_a_run_killed_at_any_write_resumes_from_its_file(
    tie_break: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = WordCounts.from_mapping(some_words(9))
    whole = learn_merges(counts, 25, tie_break=tie_break)
    write = type(DURABLE).write
    for survived in range(1, len(whole) - 1):
        path = tmp_path / f"{survived}.checkpoint"
        writes = itertools.count()

        def dying(target: Path, content: bytes) -> None:
            if next(writes) == survived:  # noqa: B023
                raise DiskFull("the machine stops here")
            write(DURABLE, target, content)

        with monkeypatch.context() as patch:
            patch.setattr(DURABLE, "write", dying)
            with pytest.raises(DiskFull):
                learn_merges(counts, 25, tie_break=tie_break, checkpoint=path, checkpoint_every=1)
        assert len(load_checkpoint(path)) == survived
        resumed = learn_merges(
            counts, 25, tie_break=tie_break, resume_from=path, checkpoint=path, checkpoint_every=1
        )
        assert as_lists(resumed) == as_lists(whole)
        assert load_checkpoint(path).counts.tolist() == whole.counts.tolist()


def test_a_torn_checkpoint_costs_only_the_merges_since_the_one_before(tmp_path: Path) -> None:
    path, counts = tmp_path / "c", WordCounts.from_mapping(some_words(2))
    whole = learn_merges(counts, 20, checkpoint=path, checkpoint_every=1)
    path.write_bytes(path.read_bytes()[:-1])
    assert len(load_checkpoint(path)) == len(whole) - 1
    assert as_lists(learn_merges(counts, 20, resume_from=path)) == as_lists(whole)
    previous_path(path).write_bytes(b"")
    with pytest.raises(CorruptFile):
        learn_merges(counts, 20, resume_from=path)


def test_one_chain_of_checkpoints_serves_every_size(tmp_path: Path) -> None:
    path, counts = tmp_path / "c", many_words()
    whole = learn_merges(counts, 3000)
    learn_merges(counts, 1500, checkpoint=path)
    larger = learn_merges(counts, 3000, resume_from=path, checkpoint=path)
    assert as_lists(larger) == as_lists(whole)
    content = path.read_bytes()
    smaller = learn_merges(counts, 700, resume_from=path, checkpoint=path)
    assert smaller.pairs() == whole.pairs()[:700]
    assert not smaller.exhausted
    assert path.read_bytes() == content, "a smaller vocabulary must not shorten the chain"


def test_the_file_does_not_depend_on_how_the_run_was_interrupted(tmp_path: Path) -> None:
    counts = many_words()
    learn_merges(counts, 2000, checkpoint=tmp_path / "whole")
    learn_merges(counts, 777, checkpoint=tmp_path / "parts")
    learn_merges(counts, 2000, resume_from=tmp_path / "parts", checkpoint=tmp_path / "parts")
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    "other",
    [
        {"tie_break": "greatest-bytes"},
        {"min_count": 3},
        {"max_token_bytes": 9},
        {"given": np.array([[0, 1]], np.int32)},
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, other: dict[str, str]) -> None:
    path, counts = tmp_path / "c", WordCounts.from_mapping(TOY)
    learn_merges(counts, 3, checkpoint=path)
    with pytest.raises(InvalidOption, match="settings"):
        learn_merges(counts, 9, resume_from=path, **other)  # type: ignore[arg-type]


def test_a_checkpoint_of_other_counts_is_refused_even_for_fewer_merges(tmp_path: Path) -> None:
    path = tmp_path / "c"
    learn_merges(WordCounts.from_mapping(TOY), 3, checkpoint=path)
    for merges in (1, 9):
        with pytest.raises(InvalidOption, match="word counts"):
            learn_merges(WordCounts.from_mapping({**TOY, b"low_": 6}), merges, resume_from=path)


def test_merges_that_the_counts_contradict_are_refused() -> None:
    counts = WordCounts.from_mapping(TOY)
    saved = checkpoint_after(learn_merges(counts, 5), 5, counts)
    saved.counts[3] += 1
    with pytest.raises(CorruptFile):
        learn_merges(counts, 9, resume_from=saved)


def test_resuming_an_exhausted_run_finds_nothing_more(tmp_path: Path) -> None:
    path, counts = tmp_path / "c", WordCounts.from_mapping(TOY)
    exhausted = learn_merges(counts, 1000, checkpoint=path)
    assert exhausted.exhausted
    again = learn_merges(counts, 2000, resume_from=path, checkpoint=path)
    assert as_lists(again) == as_lists(exhausted)


def test_given_merges_come_first_and_learning_goes_on(tmp_path: Path) -> None:
    words = {b"lowlow": 4, b"wide_": 4, b"latest_": 1}
    old, new = WordCounts.from_mapping(TOY), WordCounts.from_mapping(words)
    first = learn_merges(old, 6)
    given = np.stack([first.left, first.right], axis=1)
    extended = learn_merges(new, 9, given=given, checkpoint=tmp_path / "c", checkpoint_every=1)
    assert extended.pairs()[:6] == first.pairs()
    assert len(extended) == 9
    segments = {tuple(bytes([byte]) for byte in word): count for word, count in words.items()}
    found = []
    for pair in pairs_of(extended, "smallest-ids"):
        found.append(reference.count_pairs(segments).get(pair, 0))
        segments = {reference.merge_pair(word, pair): count for word, count in segments.items()}
    assert extended.counts.tolist() == found
    assert {0, 1} <= set(found[:6]), "some given merges are rare here, some do not occur"
    for merges in (2, 6, 8):
        saved = checkpoint_after(extended, merges, new, given=given)
        assert as_lists(learn_merges(new, 9, given=given, resume_from=saved)) == as_lists(extended)


@pytest.mark.parametrize(
    "given",
    [[[256, 0]], [[0, 1], [0, 1]], [[-1, 0]], [0, 1], [[0, 1, 2]], [[0, 1], [2, 3], [4, 5]]],
)
def test_given_merges_that_cannot_be_are_refused(given: list[object]) -> None:
    with pytest.raises(InvalidOption):
        learn_merges(WordCounts.from_mapping(TOY), 2, given=np.array(given, np.int32))


# Files


COUNTS, SETTINGS = "a" * 64, "b" * 64


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
