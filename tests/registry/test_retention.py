"""What no version needs is found and removed; what an alias can reach never is."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from counted_chunks import READING, counted

from bpeline.registry.catalogue import CountTable
from bpeline.registry.opening import Registry
from bpeline.registry.publishing.publish import publish_version
from bpeline.registry.records.publication import Publication
from bpeline.registry.upkeep import retention
from bpeline.registry.upkeep.retention import Leftover, find_leftovers, remove_leftovers
from bpeline.registry.word_counts import (
    ShardFiles,
    ShardRef,
    TableHandle,
    WordCountStore,
    shard_key,
)
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    RegistryUnreachable,
    WorkspaceLocked,
)

pytestmark = pytest.mark.fake_mlflow


def table_of(registry: Registry, *texts: str, run_id: str = "") -> tuple[TableHandle, list[str]]:
    """Count texts, a chunk each, and combine them, as a run does."""
    store = WordCountStore(registry.workspace, threads=1)
    keys = [
        store.put(counted({word.encode(): 3 for word in text.split()}), READING) for text in texts
    ]
    handle = store.combine([ShardRef(key, position_base=i << 20) for i, key in enumerate(keys)])
    run_id = run_id or registry.catalogue.start_run("news", {}).id
    registry.catalogue.remember_count_table(
        CountTable(handle.key, handle.counts_digest, "c" * 64, handle.rows, handle.total, run_id)
    )
    return handle, keys


def published(
    registry: Registry, publication: Publication, counts_digest: str, alias: str = "candidate"
) -> None:
    publish_version(registry, replace(publication, counts_digest=counts_digest), alias)


def keys_of(found: tuple[Leftover, ...], kind: str) -> set[str]:
    return {one.key for one in found if one.kind == kind}


def make_old(root: Path, days: float) -> None:
    then = time.time() - days * 86_400
    for directory, names, files in os.walk(root):
        for name in names + files:
            os.utime(Path(directory) / name, (then, then))


@pytest.mark.night
def test_counts_stay_as_long_as_a_version_was_trained_on_them(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    needed, needed_shards = table_of(registry, "low lower", "newest")
    other, other_shards = table_of(registry, "newest", "widest")
    published(registry, made(b"low"), needed.counts_digest)
    for run in registry.catalogue.unfinished_runs():
        registry.catalogue.end_run(run.id, "finished")

    found = find_leftovers(registry, days=0)
    assert keys_of(found.old, "table") == {other.key}
    assert keys_of(found.old, "shard") == {other_shards[1]}  # the other is part of both
    assert needed.path.exists()
    assert other.path.exists()

    removed = remove_leftovers(registry, days=0)
    assert [one.paths for one in removed.old] == [one.paths for one in found.old]
    assert needed.path.exists()
    assert not other.path.exists()
    store = WordCountStore(registry.workspace)
    assert store.open_table(replace(needed, reused=True)).digest == needed.counts_digest
    assert store.statistics(needed_shards).shards == 2
    assert not list(registry.workspace.shards.glob(f"*/{other_shards[1]}*"))
    assert not find_leftovers(registry, days=0).old


def test_a_pack_stays_as_long_as_one_of_its_chunks_is_needed(registry: Registry) -> None:
    store, catalogue = WordCountStore(registry.workspace, threads=1), registry.catalogue
    keys = []
    for text in ("one", "two"):
        parts = [counted({text.encode(): n}, f"{text}{n}") for n in (1, 2, 3)]
        with store.putting() as chunks:
            for part in parts:
                chunks.put(part, READING)
        keys.append([shard_key(part.chunk.digest, READING) for part in parts])
    handle = store.combine([ShardRef(keys[0][1])])
    run = catalogue.start_run("news", {})
    catalogue.remember_count_table(
        CountTable(handle.key, handle.counts_digest, "c" * 64, handle.rows, handle.total, run.id)
    )
    catalogue.step_reached(run.id, "combine", "c" * 64, handle.counts_digest)
    needless = Path(ShardFiles(registry.workspace).read(keys[1][0]).file).name
    assert keys_of(find_leftovers(registry, days=0).old, "pack") == {needless}
    remove_leftovers(registry, days=0)
    fresh = WordCountStore(registry.workspace)
    assert fresh.statistics(keys[0]).shards == 3
    assert len(list(registry.workspace.packs.glob("*"))) == 2
    catalogue.end_run(run.id, "finished")
    assert len(keys_of(find_leftovers(registry, days=0).old, "pack")) == 1


def test_what_is_young_stays(registry: Registry) -> None:
    table_of(registry, "low lower")
    registry.catalogue.end_run(registry.catalogue.runs()[0].id, "finished")
    assert find_leftovers(registry).old == ()
    assert {one.kind for one in find_leftovers(registry).young} == {"table", "shard"}
    make_old(registry.workspace.root, 31)
    assert {one.kind for one in find_leftovers(registry).old} == {"table", "shard"}
    assert find_leftovers(registry, days=32).old == ()


@pytest.mark.night
def test_counts_of_old_versions_go_when_asked_but_not_of_those_with_an_alias(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    tables = []
    for word, alias in (
        (b"one", "champion"),
        (b"two", "candidate"),
        (b"three", "candidate"),
        (b"four", "candidate"),
    ):
        handle, _ = table_of(registry, word.decode())
        published(registry, made(word), handle.counts_digest, alias)
        tables.append(handle.key)
    for run in registry.catalogue.unfinished_runs():
        registry.catalogue.end_run(run.id, "finished")
    versions = {path.name for path in registry.workspace.versions.glob("*")}
    assert len(versions) == 4

    assert not find_leftovers(registry, days=0).old
    assert keys_of(find_leftovers(registry, days=0, counts_of=2).old, "table") == {tables[1]}
    assert keys_of(find_leftovers(registry, days=0, counts_of=0).old, "table") == set(tables[1:3])
    remove_leftovers(registry, days=0, counts_of=0)
    assert {path.name for path in registry.workspace.versions.glob("*")} == versions
    left = {path.stem for path in registry.workspace.tables.glob("*.duckdb")}
    assert left == {tables[0], tables[3]}


def test_an_alias_that_was_moved_in_mlflow_counts(
    registry: Registry, disconnected: Registry, made: Callable[..., Publication]
) -> None:
    tables = []
    for word in (b"one", b"two"):
        handle, _ = table_of(registry, word.decode())
        published(registry, made(word), handle.counts_digest)
        tables.append(handle.key)
    for run in registry.catalogue.unfinished_runs():
        registry.catalogue.end_run(run.id, "finished")
    assert keys_of(find_leftovers(registry, days=0, counts_of=0).old, "table") == {tables[0]}
    with pytest.raises(RegistryUnreachable):  # then nobody knows
        find_leftovers(disconnected, days=0, counts_of=0)
    registry.tracker.move_alias("news", "mine", 1)
    assert not find_leftovers(registry, days=0, counts_of=0).old


def test_runs_that_may_be_continued_keep_their_checkpoint_and_counts(registry: Registry) -> None:
    run = registry.catalogue.start_run("news", {})
    handle, _ = table_of(registry, "low lower", run_id=run.id)
    registry.catalogue.step_reached(run.id, "combine counts", counts_digest=handle.counts_digest)
    checkpoint = registry.workspace.checkpoint(handle.counts_digest, "settings")
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"merges")
    registry.catalogue.end_run(run.id, "failed", "no space left")
    assert not find_leftovers(registry, days=0).old

    registry.catalogue.end_run(run.id, "finished")
    learned = checkpoint.parent.name
    assert keys_of(find_leftovers(registry, days=0).old, "run") == {learned}
    remove_leftovers(registry, days=0)
    assert not checkpoint.exists()
    assert not handle.path.exists()


def test_what_waits_to_be_published_stays(
    registry: Registry, disconnected: Registry, made: Callable[..., Publication]
) -> None:
    handle, _ = table_of(disconnected, "low lower")
    with pytest.raises(RegistryUnreachable):
        published(disconnected, made(b"low"), handle.counts_digest)
    disconnected.catalogue.end_run(disconnected.catalogue.runs()[0].id, "finished")
    with pytest.raises(RegistryUnreachable):  # only MLflow knows what it still needs
        find_leftovers(disconnected, days=0)
    assert not find_leftovers(registry, days=0).old


def test_what_is_published_while_leftovers_are_looked_for_is_passed_over(
    registry: Registry, made: Callable[..., Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    published(registry, made(b"low"), "d" * 64)
    gone = registry.workspace.outbox_record("news.published-meanwhile")
    monkeypatch.setattr(retention, "waiting_records", lambda workspace: [gone])
    assert not find_leftovers(registry, days=0).old
    gone.write_text("damaged")
    with pytest.raises(CorruptFile):
        find_leftovers(registry, days=0)


def test_files_of_an_unregistered_tokenizer_go(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    stray = registry.workspace.version_directory("f" * 64)
    stray.mkdir()
    (stray / "vocab.json").write_text("{}")
    published(registry, made(b"low"), "d" * 64)
    remove_leftovers(registry, days=0)
    assert len(list(registry.workspace.versions.glob("*"))) == 1
    assert not stray.exists()


@pytest.mark.night
def test_without_its_record_nobody_knows_what_a_table_needs(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    handle, shards = table_of(registry, "low lower")
    table_of(registry, "another corpus")
    published(registry, made(b"low"), handle.counts_digest)
    for run in registry.catalogue.unfinished_runs():
        registry.catalogue.end_run(run.id, "finished")
    registry.workspace.table_manifest(handle.key).unlink()
    found = find_leftovers(registry, days=0)
    assert handle.key in found.unsure
    assert not keys_of(found.old, "shard")
    remove_leftovers(registry, days=0)
    assert WordCountStore(registry.workspace).statistics(shards).shards == 1


def test_the_record_of_a_corpus_stays_with_its_versions(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    published(registry, made(b"low"), "d" * 64)
    kept, stray = (registry.workspace.corpus_record(digest * 64) for digest in "cf")
    for path in (kept, stray):
        path.write_text("{}")
    remove_leftovers(registry, days=0, counts_of=0)
    assert kept.exists()
    assert not stray.exists()


def test_links_are_removed_and_not_followed(registry: Registry, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("dear to me")
    (registry.workspace.runs / "link").symlink_to(elsewhere)
    remove_leftovers(registry, days=0)
    assert (elsewhere / "mine").exists()
    assert not (registry.workspace.runs / "link").is_symlink()


def test_nothing_is_removed_while_somebody_works(registry: Registry) -> None:
    table_of(registry, "low lower")
    with registry.workspace.lock("counting words"), pytest.raises(WorkspaceLocked):
        remove_leftovers(registry, days=0)


@pytest.mark.parametrize("wrong", [{"days": -1}, {"counts_of": -1}])
def test_negative_numbers_are_refused(registry: Registry, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        find_leftovers(registry, **wrong)


@pytest.mark.night
def test_looking_for_leftovers_passes_over_what_others_rename_meanwhile(registry: Registry) -> None:
    """Looking takes no lock: somebody may keep a version or count a chunk at the same time."""
    kept = registry.workspace.versions / ("a" * 64)
    ended = threading.Event()

    def keep_again_and_again() -> None:
        while not ended.is_set():
            DURABLE.write(kept / "below" / "vocab.json", b"{}")
            shutil.rmtree(kept)

    other = threading.Thread(target=keep_again_and_again)
    other.start()
    try:
        for _ in range(100):
            assert keys_of(find_leftovers(registry, days=0).old, "version") <= {kept.name}
    finally:
        ended.set()
        other.join()


def test_what_mlflow_shows_in_pages_is_found(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    """MLflow shows 100 stored models at once."""
    published(registry, made(b"low"), "d" * 64)
    client, owner = registry.tracker._client, registry.tracker.settings.owner
    experiment = client.get_experiment_by_name("news").experiment_id
    tags = {"digest": "d", "bpeline.workspace": owner}
    for number in range(101):
        client.create_logged_model(experiment, name=f"m{number}", tags=tags)
    assert len(registry.tracker.models.unregistered_models()) == 101
    assert len(registry.tracker.models.traces("news", "d", ()).models) == 101
