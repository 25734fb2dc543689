"""Counts at the bounds of 32, 53 and 63 bits, all the way: shards, DuckDB, merges, checkpoint, row.

Every room has tests of its own bounds; here one count walks through all of them and must come out
as plain Python's integers say, or be refused before anything is learned.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_chunks import READING, counted, rows_of

from bpeline.registry.catalogue import CountTable
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.registry.word_counts import ShardRef, WordCountStore
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import CorpusError, InvalidOption
from bpeline.tokenizer_core.merging.checkpoint import load_checkpoint
from bpeline.tokenizer_core.training.bpe import learn_merges
from bpeline.tokenizer_core.vocabulary.numbering import byte_order

from .conftest import Record

BOUNDS = [edge + step for edge in (2**31, 2**32, 2**53, 2**61) for step in (-1, 0, 1)]


@pytest.fixture
def store(place: Path) -> WordCountStore:
    return WordCountStore(Workspace.open(place / "workspace"), threads=1)


@pytest.mark.night
def test_a_count_is_exact_from_shard_to_row(place: Path, record: Record) -> None:
    """Two chunks add up to the bound, with ties where float64 sees some."""
    for top in BOUNDS:
        walk(top, Workspace.open(place / str(top)))
        record.add("bounds")
    record.require_none()


def walk(top: int, workspace: Workspace) -> None:
    """One count through every room."""
    store = WordCountStore(workspace, threads=1)
    half = top // 2
    parts = [
        {b"ab": half, b"cd": half - 1, b"ef": 3, b"abc": 1},
        {b"ab": top - half, b"cd": top - half, b"ef": 4, b"abd": 2},
    ]
    keys = [store.put(counted(part, str(n)), READING) for n, part in enumerate(parts)]
    handle = store.combine([ShardRef(key, position_base=n * 100) for n, key in enumerate(keys)])
    sums = {word: sum(part.get(word, 0) for part in parts) for part in parts for word in part}
    assert {word: count for word, count, _ in rows_of(handle)} == sums
    assert handle.total == sum(sums.values())
    path = workspace.checkpoint("numbers", "")
    words = store.open_table(handle)
    learned = learn_merges(words, 5, min_count=2, checkpoint=path, checkpoint_every=1)
    tokens = [bytes([byte]) for byte in byte_order("smallest-ids")]
    pairs = []
    for left, right in learned.pairs():
        pairs.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    assert pairs == reference.train(sums, 5)
    expected = [sums[b"ab"] + 3, sums[b"cd"]]  # "ab" also stands in "abc" and "abd"
    assert load_checkpoint(path).counts[:2].tolist() == expected
    catalogue = Catalogue(workspace.catalogue_url)
    row = CountTable("k" * 64, handle.counts_digest, "c" * 64, handle.rows, handle.total, "run")
    catalogue.remember_count_table(row)
    (found,) = catalogue.count_tables()
    assert found.total == sum(sums.values())


@pytest.mark.parametrize("above", [0, 1])
def test_at_two_to_the_63_a_sum_is_refused_and_nothing_wraps(
    above: int, store: WordCountStore
) -> None:
    keys = [
        store.put(counted({b"ab": count}, str(count)), READING)
        for count in (2**62, 2**62 - 1 + above)
    ]
    refs = [ShardRef(key) for key in keys]
    if above:
        with pytest.raises(InvalidOption):
            store.combine(refs)
    else:
        handle = store.combine(refs)
        assert [row[1] for row in rows_of(handle)] == [2**63 - 1]
        assert learn_merges(store.open_table(handle), 1, min_count=2).counts.tolist() == [2**63 - 1]


def test_pairs_that_add_up_to_two_to_the_63_are_refused_before_learning(place: Path) -> None:
    counts = WordCounts.from_mapping({b"ab": 2**62, b"cd": 2**62})
    with pytest.raises(CorpusError, match="64-bit"):
        learn_merges(counts, 1, checkpoint=place / "checkpoint")
    assert not (place / "checkpoint").exists()
