"""Finished tables: they stand alone, are found again, and are never believed when damaged."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from counted_chunks import READING, TEMPTING, counted, flip, rows_of

from bpeline.registry import closed_duckdb
from bpeline.registry.word_counts import ShardRef, WordCountStore, evict
from bpeline.registry.word_counts import store as word_count_store
from bpeline.registry.word_counts import tables as word_count_tables
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.errors import CorruptFile, StorageError

ROOT = Path(__file__).parents[2]


def test_a_finished_table_stands_alone(store: WordCountStore, workspace: Workspace) -> None:
    handle = store.combine([ShardRef(store.put(counted(TEMPTING), READING))])
    names = sorted(path.name for path in workspace.tables.iterdir())
    assert names == [f"{handle.key}.duckdb", f"{handle.key}.json"]  # above all, no .wal
    assert list(workspace.temporary.iterdir()) == []
    store.open_table(replace(handle, reused=True))
    assert sorted(path.name for path in workspace.tables.iterdir()) == names


def test_a_second_run_reuses_the_table_whatever_the_order_of_its_shards(
    store: WordCountStore,
) -> None:
    refs = [ShardRef(store.put(counted({b"a": k}), READING), k) for k in (1, 2)]
    first, second = store.combine(refs), store.combine(refs[::-1])
    assert (first.reused, second.reused) == (False, True)
    assert (first.key, first.counts_digest) == (second.key, second.counts_digest)
    changed = [
        [ShardRef(refs[0].key, 7), refs[1]],
        [refs[0]],
        [*refs, refs[0]],
    ]
    assert len({store.combine(one).key for one in changed} | {first.key}) == 4


def test_the_process_that_made_a_table_does_not_read_it_again(store: WordCountStore) -> None:
    ref = ShardRef(store.put(counted(TEMPTING), READING))
    made, found = store.combine([ref]), store.combine([ref])
    counts = store.open_table(made)
    assert counts is store.open_table(made)
    assert made == replace(found, reused=False)
    read = store.open_table(found)
    assert read is not counts
    assert list(read.items()) == list(counts.items())
    evict([made.path])
    assert store.open_table(made) is not counts


CLOSED = (
    "enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions",
    "allow_community_extensions", "python_enable_replacements", "enable_progress_bar",
)  # fmt: skip
# A query that tells how it found the settings, as rows of a table.
SETTINGS = (
    "SELECT (name || '=' || value)::BLOB AS word, {}::BIGINT AS count, 0::BIGINT AS first_position "
    f"FROM duckdb_settings() WHERE name IN {(*CLOSED, 'lock_configuration', 'threads')}"
)
FOUND = {name.encode(): b"false" for name in CLOSED} | {
    b"lock_configuration": b"true",
    b"threads": b"2",
}


def test_a_table_is_made_with_nothing_open_to_the_outside(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        word_count_tables,
        "_ADDED_UP",
        f"CREATE TABLE word_counts AS {SETTINGS.format(1)} AND (SELECT count(*) FROM rows) > 0",
    )
    # What is in the table then is not what was given, which is noticed elsewhere.
    monkeypatch.setattr(word_count_store, "_occurrences", lambda *_: 0)
    key = store.put(counted({b"%d" % k: 1 for k in range(len(FOUND))}), READING)
    handle = store.combine([ShardRef(key)])
    assert dict(word.split(b"=") for word, _, _ in rows_of(handle)) == FOUND


def test_a_table_is_read_with_nothing_open_to_the_outside(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without the progress bar that DuckDB draws into standard output after two seconds."""
    handle = store.combine([ShardRef(store.put(counted(TEMPTING), READING))])
    rows = SETTINGS.format(1)
    sizes = f"SELECT count(*), sum(octet_length(word))::BIGINT FROM ({rows})"
    monkeypatch.setattr(word_count_tables, "_ROWS", rows)
    monkeypatch.setattr(word_count_tables, "_SIZES", sizes)
    pattern = counted(TEMPTING).counts.pattern
    read = word_count_tables.read_table(handle.path, pattern, threads=2)
    assert dict(word.split(b"=") for word in read.words()) == FOUND


FEWER = "SELECT * FROM ({}) WHERE word <> 'b'::BLOB"
OTHER_COUNTS = "SELECT word, count + 1 AS count, first_position FROM ({})"
OTHER_WORDS = "SELECT word || 'x'::BLOB AS word, count, first_position FROM ({})"
SWAPPED_COUNTS = "SELECT word, 11 - count AS count, first_position FROM ({})"  # of 5 and 6
OTHER_ORDER = "SELECT * FROM ({}) ORDER BY word DESC"


@pytest.mark.parametrize("changed", [FEWER, OTHER_COUNTS, OTHER_WORDS, SWAPPED_COUNTS, OTHER_ORDER])
def test_what_duckdb_loses_is_noticed(
    store: WordCountStore, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    head, query = word_count_tables._ADDED_UP.split("AS", 1)
    key = store.put(counted({b"a": 5, b"b": 6}), READING)
    with monkeypatch.context() as patch:
        patch.setattr(word_count_tables, "_ADDED_UP", f"{head} AS {changed.format(query)}")
        with pytest.raises(StorageError):
            store.combine([ShardRef(key)])
    assert not store.combine([ShardRef(key)]).reused


@pytest.mark.parametrize("place", [k / 16 for k in range(16)])
def test_a_damaged_table_is_never_believed(
    store: WordCountStore, tmp_path: Path, place: float
) -> None:
    words = {b"%d" % k: 1 + k * k for k in range(3000)}
    refs = [ShardRef(store.put(counted(words), READING))]
    expected = store.combine(refs).counts_digest
    handle = store.combine(refs)
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
    handle = replace(store.combine(refs), reused=True)
    if harm == "truncated":
        handle.path.write_bytes(handle.path.read_bytes()[:-4096])
    elif harm == "missing":
        handle.path.unlink()
    elif harm == "manifest":
        flip(workspace.table_manifest(handle.key), 0.5)
    elif harm == "log":
        closed_duckdb.log_of(handle.path).write_bytes(b"")
    else:
        handle.path.write_bytes(other.path.read_bytes())
    with pytest.raises(CorruptFile):
        store.open_table(handle)
    again = store.combine(refs)
    assert not again.reused
    assert (
        store.open_table(replace(again, reused=True)).digest
        == again.counts_digest
        == handle.counts_digest
    )


KILLED_WHILE_STORING = """
import os, sys
from pathlib import Path
from bpeline.registry.word_counts.mixtures import WeighedShards, combine_sources
from bpeline.registry.word_counts import ShardRef, WordCountStore
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.durable_files import Disk
workspace = Workspace(Path(sys.argv[1]))
Disk.replace = lambda *_: os._exit(137)
WordCountStore(workspace, threads=1).combine([ShardRef(sys.argv[2])])
"""


@pytest.mark.night
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


def test_an_interruption_while_duckdb_reads_is_one(
    store: WordCountStore, workspace: Workspace
) -> None:
    """DuckDB answers it with a plain RuntimeError, whoever reads."""
    handle = store.combine([ShardRef(store.put(counted(TEMPTING), READING))])
    with pytest.raises(KeyboardInterrupt), word_count_tables._reading(handle.path, {"threads": 1}):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError), word_count_tables._reading(handle.path, {"threads": 1}):
        raise RuntimeError("a mistake of ours")
