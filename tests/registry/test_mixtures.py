"""Sources with weights: SQL over the sums of sources, equal to the reference and to NumPy."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from counted_chunks import READING, TEMPTING, counted, flip, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpeline.registry.word_counts import ShardRef, WordCountStore, mixtures
from bpeline.registry.word_counts import tables as word_count_tables
from bpeline.registry.word_counts.mixtures import WeighedShards, combine_sources
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption, StorageError

WORDS = st.dictionaries(
    st.one_of(st.binary(min_size=1, max_size=2), st.sampled_from(sorted(TEMPTING))),
    st.one_of(st.integers(1, 9), st.integers(1, 2**40)),
    max_size=8,
)
WEIGHTS = st.sampled_from([1.0, 1.0, 0.0, 0.5, 1.5, 2.0, 0.1, 0.333333, 0.000001, 1234.5])
SOURCES = st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=3), WEIGHTS), max_size=4)


def placed(
    store: WordCountStore, sources: list[tuple[list[dict[bytes, int]], float]]
) -> list[WeighedShards]:
    """The chunks of sources in a store, one behind the other in the corpus."""
    made, base = [], 0
    for number, (chunks, weight) in enumerate(sources):
        refs = []
        for chunk in chunks:
            key = store.put(counted(chunk, f"{number}-{base}"), READING)
            refs.append(ShardRef(key, base))
            base += 100
        made.append(WeighedShards(tuple(refs), weight))
    return made


@pytest.mark.night
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SOURCES.filter(lambda sources: any(weight for _, weight in sources)))
def test_the_table_is_the_reference_s_and_the_core_s_own_sum(
    store: WordCountStore, sources: list[tuple[list[dict[bytes, int]], float]]
) -> None:
    together = []
    for chunks, weight in sources:
        words: dict[bytes, int] = {}
        for chunk in chunks:
            for word, count in chunk.items():
                words[word] = words.get(word, 0) + count
        together.append((words, Fraction(round(weight * 10**6), 10**6)))
    expected = reference.mix(together)
    shards = placed(store, sources)
    handle, sums = combine_sources(store, shards)
    table = store.open_table(replace(handle, reused=True))
    assert table.to_mapping() == expected
    own = [store.open_table(store.combine(source.refs)) for source in shards]
    added = combine_word_counts(own, [weight for _, weight in sources])
    assert (added.digest, added.total) == (table.digest, handle.total)
    assert [one.weighted_total for one in sums] == [
        sum(reference.mix([source]).values()) for source in together
    ]
    assert [(one.words, one.total) for one in sums] == [
        (len(words), sum(words.values())) for words, _ in together
    ]
    assert sum(one.weighted_bytes for one in sums) == handle.total_bytes
    store.forget_table(handle.key)


def test_weights_of_one_are_the_table_that_knows_no_sources(store: WordCountStore) -> None:
    sources = placed(store, [([{b"a": 3}, {b"b": 1}], 1.0), ([{b"a": 4}], 1.0)])
    plain = store.combine([ref for source in sources for ref in source.refs])
    handle, sums = combine_sources(store, sources)
    assert (handle.key, handle.counts_digest) == (plain.key, plain.counts_digest)
    assert handle.reused
    assert [one.total for one in sums] == [one.weighted_total for one in sums] == [4, 4]


@pytest.mark.night
def test_the_cut_and_the_order_of_sources_do_not_matter(store: WordCountStore) -> None:
    """Half of 1 + 1 + 1 is 2; half of each by itself would be 3, or nothing."""
    cut = placed(store, [([{b"a": 1}, {b"a": 1}, {b"a": 1}], 0.5), ([{b"b": 5}], 3.0)])
    whole = [WeighedShards((ShardRef(store.put(counted({b"a": 3}), READING), 0),), 0.5), cut[1]]
    assert [row[:2] for row in rows_of(combine_sources(store, cut)[0])] == [(b"a", 2), (b"b", 15)]
    one, other = combine_sources(store, whole)[0], combine_sources(store, whole[::-1])[0]
    assert one.counts_digest == combine_sources(store, cut)[0].counts_digest
    assert (one.key, other.reused) == (other.key, True)
    assert combine_sources(store, [replace(whole[0], weight=0.25), whole[1]])[0].key != one.key


@pytest.mark.night
def test_changing_weights_reads_no_shard(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = placed(store, [([{b"a": 3}], 2.0), ([{b"a": 4}], 1.0)])
    combine_sources(store, sources)
    monkeypatch.setattr(WordCountStore, "_read_shards", None)
    changed = [replace(sources[0], weight=5.0), sources[1]]
    assert rows_of(combine_sources(store, changed)[0]) == [(b"a", 19, 0)]


def test_a_source_of_weight_0_is_not_there(store: WordCountStore) -> None:
    sources = placed(store, [([{b"a": 3}], 0.0), ([{b"b": 4}], 1.0), ([{b"c": 1}], 1.0)])
    handle, sums = combine_sources(store, sources)
    plain = store.combine([ref for source in sources[1:] for ref in source.refs])
    assert handle.key == plain.key
    assert [(one.total, one.weighted_total) for one in sums] == [(3, 0), (4, 4), (1, 1)]
    with pytest.raises(EmptyCorpus):
        combine_sources(store, sources[:1])


def test_counts_are_exact_beyond_53_bits(store: WordCountStore) -> None:
    large = {b"a": 2**62, b"b": 2**31, b"c": 2**53 + 3}
    handle, _ = combine_sources(store, placed(store, [([large], 1.0), ([large], 0.5)]))
    assert [count for _, count, _ in rows_of(handle)] == [
        2**62 + 2**61, 2**31 + 2**30, 2**53 + 3 + 2**52 + 2,
    ]  # fmt: skip
    with pytest.raises(InvalidOption, match="64-bit"):
        combine_sources(store, placed(store, [([large], 1.0), ([large], 1.5)]))
    with pytest.raises(InvalidOption, match="64-bit"):
        combine_sources(store, placed(store, [([large], 2.0)]))


def test_what_duckdb_loses_is_noticed(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = placed(store, [([{b"a": 3, b"b": 1}], 2.0)])
    combine_sources(store, placed(store, [([{b"a": 3, b"b": 1}], 1.0)]))  # before that is broken
    fewer = word_count_tables._ADDED_UP.replace("FROM rows", "FROM rows WHERE word <> 'b'::BLOB")
    monkeypatch.setattr(word_count_tables, "_ADDED_UP", fewer)
    with pytest.raises(StorageError):
        combine_sources(store, sources)


def test_an_error_of_a_source_is_told_and_not_that_of_duckdbs_stream(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = placed(store, [([{b"a": 3}], 2.0), ([{b"b": 3}], 1.5)])

    def refuse(*_: Any) -> None:
        raise InvalidOption("not this weight")

    monkeypatch.setattr(mixtures, "weighted", refuse)
    with pytest.raises(InvalidOption, match="weight"):
        combine_sources(store, sources)


@pytest.mark.night
@pytest.mark.parametrize("harm", ["record", "source", "sums"])
def test_damage_is_noticed_and_mended(store: WordCountStore, harm: str) -> None:
    sources = placed(store, [([{b"a": 3, b"b": 1}], 2.0), ([TEMPTING], 1.0)])
    handle, sums = combine_sources(store, sources)
    if harm == "source":
        store.forget_table(handle.key)
        store.workspace.table(sums[1].table_key).write_bytes(b"")
        with pytest.raises(CorruptFile):
            combine_sources(store, sources)
    else:
        damaged = handle.key if harm == "record" else sums[0].table_key
        flip(store.workspace.table_manifest(damaged), 0.5)
    again, same = combine_sources(store, sources)
    assert (again.key, again.counts_digest, same) == (handle.key, handle.counts_digest, sums)
