"""Finished files that machines share: fetched, verified, made anew where they are damaged."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from counted_chunks import READING, counted, rows_of
from small_publications import small_tokenizer

from bpeline.registry import environment, load_tokenizer
from bpeline.registry.aliases.moves import remove_alias
from bpeline.registry.catalogue import ChunkRecord, FileReading
from bpeline.registry.loading.version_files import holds_version, keep_files, load_verified
from bpeline.registry.opening import Registry, locate, open_registry, tracking_settings
from bpeline.registry.publishing.publish import publish_version
from bpeline.registry.records.publication import Publication
from bpeline.registry.upkeep.deletion import delete_versions
from bpeline.registry.upkeep.repairs import repair, unregistered
from bpeline.registry.upkeep.retention import find_leftovers
from bpeline.registry.word_counts import ShardRef, WordCountStore
from bpeline.registry.word_counts.corpus_records import corpus_record, keep_corpus_record
from bpeline.registry.workspace import shared_copies
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption, StorageError
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.remote_files import RemoteFailure

pytestmark = pytest.mark.fake_mlflow

fsspec = pytest.importorskip("fsspec")

TEXTS = ("a a b", "b c c c", "a c d")
Machine = Callable[[], Workspace]


@pytest.fixture
def url() -> Iterator[str]:
    place = f"/store-{secrets.token_hex(4)}"
    yield f"memory:/{place}"
    memory = fsspec.filesystem("memory")
    if memory.exists(place):
        memory.rm(place, recursive=True)


@pytest.fixture
def machine(tmp_path: Path, url: str) -> Machine:
    """A workspace of another machine each time, with the same store."""

    def make() -> Workspace:
        return Workspace.open(tmp_path / secrets.token_hex(4), store=url)

    return make


def refs_of(store: WordCountStore) -> list[ShardRef]:
    parts = [counted({w.encode(): 1 for w in text.split()}, held_out=[b"x"]) for text in TEXTS]
    return [ShardRef(store.put(part, READING), position_base=i) for i, part in enumerate(parts)]


def chunk_digests() -> list[str]:
    return [counted({w.encode(): 1 for w in text.split()}).chunk.digest for text in TEXTS]


def objects(url: str) -> dict[str, bytes]:
    memory = fsspec.filesystem("memory")
    place = url.removeprefix("memory:/")
    return {name: memory.cat_file(name) for name in memory.find(place)}


def test_another_machine_finds_shards_and_tables(machine: Machine, url: str) -> None:
    here = WordCountStore(machine(), threads=1)
    refs = refs_of(here)
    table = here.combine(refs)
    workspace = machine()
    there = WordCountStore(workspace, threads=1)
    assert all(there.has(digest, READING) for digest in chunk_digests())
    assert list(workspace.shards.rglob("*.arrow")) == []  # not needed yet
    found = there.combine(refs)
    assert found.reused
    assert not found.path.exists()  # nor this
    assert there.open_table(found).digest == table.counts_digest
    assert rows_of(found) == rows_of(table)
    assert there.shards_of(found.key) == tuple(ref.key for ref in refs)
    keys = [ref.key for ref in refs]
    assert there.held_out_documents(keys, 100) == here.held_out_documents(keys, 100)
    assert there.statistics(keys) == here.statistics(keys)


def test_a_workspace_without_a_store_asks_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("asked a store")

    for name in ("write_file", "read_file", "remove_file", "names_below"):
        monkeypatch.setattr(remote_files, name, refuse)
    store = WordCountStore(Workspace.open(tmp_path / "alone"), threads=1)
    refs = refs_of(store)
    store.open_table(store.combine(refs))
    store._shards.forget(refs[0].key)
    assert not store.has(chunk_digests()[0], READING)


@pytest.mark.parametrize("damage", ["truncated", "altered", "gone"])
@pytest.mark.parametrize("kind", [".arrow", ".held-out.arrow", ".json", ".duckdb"])
def test_damaged_objects_are_noticed_and_made_anew(
    machine: Machine, url: str, kind: str, damage: str
) -> None:
    here = WordCountStore(machine(), threads=1)
    refs = refs_of(here)
    table = here.combine(refs)
    memory = fsspec.filesystem("memory")
    folder = "tables" if kind == ".duckdb" else "shards"
    for name, content in objects(url).items():
        if f"/{folder}/" in name and name.endswith(kind):
            if damage == "gone":
                memory.rm_file(name)
            else:
                middle = len(content) // 2
                altered = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
                memory.pipe_file(name, content[:middle] if damage == "truncated" else altered)
    there = WordCountStore(machine(), threads=1)
    for _ in range(3):  # as a run does
        for ref, text in zip(refs, TEXTS, strict=True):
            part = counted({w.encode(): 1 for w in text.split()}, held_out=[b"x"])
            if not there.has(part.chunk.digest, READING):
                assert there.put(part, READING) == ref.key
        try:
            found = there.combine(refs)
            assert there.open_table(found).digest == table.counts_digest
            assert there.held_out_documents([ref.key for ref in refs], 10) == [b"x"] * 3
            break
        except CorruptFile:
            continue
    else:
        raise AssertionError("never made anew")
    again = WordCountStore(machine(), threads=1)
    assert again.open_table(again.combine(refs)).digest == table.counts_digest


class FailingWrite:
    """Writes into stores, but for one time."""

    def __init__(self, failing: int) -> None:
        self.plain = remote_files.write_file
        self.failing = failing
        self.writes = 0

    def __call__(self, url: str, content: Path | bytes) -> None:
        self.writes += 1
        if self.writes == self.failing + 1:
            raise RemoteFailure("no answer")
        self.plain(url, content)


@pytest.mark.night
def test_a_store_that_fails_at_any_request_loses_nothing(
    machine: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is here is in the store as well, whenever it failed."""
    for failing in range(20):
        failing_write = FailingWrite(failing)
        memory = fsspec.filesystem("memory")
        if memory.exists(url.removeprefix("memory:/")):
            memory.rm(url.removeprefix("memory:/"), recursive=True)
        workspace = machine()
        store = WordCountStore(workspace, threads=1)
        monkeypatch.setattr(remote_files, "write_file", failing_write)
        failed = ""
        try:
            store.combine(refs_of(store))
        except StorageError as error:
            failed = error.happened
        monkeypatch.setattr(remote_files, "write_file", failing_write.plain)
        assert (url in failed) == bool(failed)
        for name in workspace.root.rglob("*"):
            if name.is_file() and name.parent.name != workspace.root.name:
                assert any(one.endswith(f"/{name.name}") for one in objects(url)), name
        again = WordCountStore(workspace, threads=1)
        refs = [
            ShardRef(again.put(part, READING), position_base=i)
            for i, part in enumerate(
                counted({w.encode(): 1 for w in text.split()}, held_out=[b"x"]) for text in TEXTS
            )
        ]
        table = again.combine(refs)
        there = WordCountStore(machine(), threads=1)
        assert there.open_table(there.combine(refs)).digest == table.counts_digest
        if not failed:
            assert failing == failing_write.writes == 11
            return
    raise AssertionError("there are more writes than expected")


def test_records_of_corpora_and_versions_are_found(
    machine: Machine, made: Callable[..., Publication]
) -> None:
    here, there = machine(), machine()
    reading = FileReading("s3://b/a.txt", 1, 0, 0, 5, 64, "d", (ChunkRecord("e" * 64, 0, 1, 0),))
    digest = keep_corpus_record(here, [reading])
    found = corpus_record(there, digest)
    assert found is not None
    assert [one.path for one in found] == ["s3://b/a.txt"]
    assert corpus_record(there, "0" * 64) is None
    publication = made(b"word", b"other")
    kept = keep_files(here, publication)
    assert holds_version(there, publication.digest)
    directory = there.version_directory(publication.digest)
    assert load_verified(directory, publication.digest).digest == publication.digest
    names = {path.name for path in kept.tokenizer_directory.iterdir()}
    assert {path.name for path in directory.iterdir()} == names
    assert not holds_version(there, "0" * 64)


def test_what_the_guide_lets_expire_is_made_again_and_versions_stay(
    machine: Machine, url: str, made: Callable[..., Publication]
) -> None:
    workspace, publication = machine(), made(b"word")
    store = WordCountStore(workspace, threads=1)
    counts = store.combine(refs_of(store)).counts_digest
    keep_files(workspace, publication)
    page = (Path(__file__).parents[2] / "docs/guides/share-a-workspace.md").read_text("utf-8")
    aging = re.findall(r"^\| `(\S+)/` \| yes \|", page, re.MULTILINE)
    for name in objects(url):
        if name.removeprefix(url.removeprefix("memory:/")).split("/")[1] in aging:
            fsspec.filesystem("memory").rm_file(name)
    there = WordCountStore(machine(), threads=1)
    assert not there.has(chunk_digests()[0], READING)
    assert there.combine(refs_of(there)).counts_digest == counts
    assert holds_version(there.workspace, publication.digest)


def test_a_version_that_was_altered_in_the_store_is_refused(
    machine: Machine, url: str, made: Callable[..., Publication]
) -> None:
    publication = made(b"word")
    keep_files(machine(), publication)
    (columns,) = (name for name in objects(url) if name.endswith("tokenizer.bin"))
    fsspec.filesystem("memory").pipe_file(columns, objects(url)[columns].replace(b"w", b"v"))
    there = machine()
    assert holds_version(there, publication.digest)
    with pytest.raises(CorruptFile):
        load_verified(there.version_directory(publication.digest), publication.digest)


def test_no_name_in_a_store_leads_out_of_the_workspace(
    machine: Machine, url: str, made: Callable[..., Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = made(b"word")
    keep_files(machine(), publication)
    plain = remote_files.names_below
    evil = ["../../../evil.txt", "/evil.txt", "figures/../../evil.txt"]
    monkeypatch.setattr(remote_files, "names_below", lambda url: [*plain(url), *evil])
    there = machine()
    assert holds_version(there, publication.digest)
    assert list(there.root.parent.rglob("evil*")) == []


def test_a_checkpoint_is_copied_whenever_it_was_written(machine: Machine, url: str) -> None:
    workspace = machine()
    checkpoint = workspace.checkpoint("abc", "def")
    heard = []
    listen = shared_copies.sharing(workspace, checkpoint, heard.append)
    listen(1)
    assert objects(url) == {}
    checkpoint.parent.mkdir(parents=True)
    for number in range(3):
        checkpoint.write_bytes(b"%d" % number)
        listen(2)
        assert list(objects(url).values()) == [b"%d" % number]
    assert heard == [1, 2, 2, 2]
    there = machine()
    assert shared_copies.fetch(there, there.checkpoint("abc", "def"))
    assert there.checkpoint("abc", "def").read_bytes() == b"2"
    # Whose checkpoint is shorter overwrites none.
    there.checkpoint("abc", "def").write_bytes(b"longer")
    shared_copies.share_grown(there, there.checkpoint("abc", "def"))
    shared_copies.share_grown(workspace, checkpoint)
    assert list(objects(url).values()) == [b"longer"]


# ---- what a store asks for -----------------------------------------------------------------------


def test_a_store_needs_a_catalogue_that_all_machines_reach(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_configured", None)
    monkeypatch.setenv(environment.STORE_VARIABLE, url)
    for catalogue in ("", f"sqlite:///{tmp_path}/shared.sqlite"):
        monkeypatch.setenv(environment.CATALOGUE_VARIABLE, catalogue)
        with pytest.raises(InvalidOption, match="catalogue") as refused:
            open_registry(tmp_path / "home")
        assert "postgresql" in refused.value.next_step
    monkeypatch.setenv(environment.STORE_VARIABLE, "/a/path")
    with pytest.raises(InvalidOption, match="BPELINE_STORE"):
        open_registry(tmp_path / "home")


def test_loading_first_leaves_a_workspace_that_can_train(
    tmp_path: Path,
    url: str,
    registry: Registry,
    made: Callable[..., Publication],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publication = made(b"word")
    keep_files(Workspace.open(tmp_path / "first", store=url), publication)
    monkeypatch.setattr("bpeline.registry.opening.require_a_server", lambda *_: None)
    environment.configure(workspace=tmp_path / "second", catalogue_url=registry.catalogue.url)
    monkeypatch.setattr(environment, "_configured", replace(environment.addresses(), store=url))
    assert load_tokenizer(publication.digest).digest == publication.digest
    assert Workspace.open(tmp_path / "second").id


def test_a_workspace_may_be_named_by_its_store(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_configured", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(environment.CATALOGUE_VARIABLE, "postgresql+psycopg://nowhere/x")
    monkeypatch.setenv(environment.HOME_VARIABLE, url)
    workspace = locate().workspace
    assert workspace.store == url
    assert workspace.root.parent == tmp_path / "cache" / "bpeline" / "workspaces"
    assert environment.addresses().workspace == url
    monkeypatch.delenv(environment.HOME_VARIABLE)
    assert locate(url).workspace == workspace
    environment.configure(workspace=url)
    assert locate().workspace == workspace
    assert (
        tracking_settings("sqlite:///x", workspace).artifact_location == f"{url}/mlflow-artifacts"
    )
    monkeypatch.setenv(environment.HOME_VARIABLE, "s3://user:hunter2@bucket/x")
    with pytest.raises(InvalidOption) as refused:
        environment.read_environment()
    assert "hunter2" not in str(refused.value)


def test_gc_does_not_touch_what_is_shared(registry: Registry, machine: Machine) -> None:
    shared = Registry(replace(registry.place, workspace=machine()), registry.tracker)
    with pytest.raises(InvalidOption, match="shared in memory") as refused:
        find_leftovers(shared)
    step = refused.value.next_step
    assert f"rm -r {shared.workspace.shards} {shared.workspace.tables}`" in step


@pytest.mark.night
@pytest.mark.parametrize("run", ["unpublished", "of no catalogue", "dismissed", "running"])
def test_versions_that_a_store_holds_and_nobody_names_are_registered(
    registry: Registry, machine: Machine, made: Callable[..., Publication], run: str
) -> None:
    row = registry.catalogue.start_run("news", {})
    if run == "unpublished":
        registry.catalogue.end_run(row.id, "unpublished", "MLflow does not answer")
    elif run == "dismissed":
        registry.catalogue.end_run(row.id, "failed", "")
        registry.catalogue.dismiss_run(row.id)
    run_id = "lost" if run == "of no catalogue" else row.id
    left, known = made(b"the", run_id=run_id), made(b"and")
    bpeline.save(small_tokenizer(b"the"), left.tokenizer_directory, {"name": "news", "run": run_id})
    gone, here = (
        Registry(replace(registry.place, workspace=machine()), registry.tracker) for _ in range(2)
    )
    publish_version(gone, known)
    keep_files(gone.workspace, left)  # its outbox record is gone with the machine
    expected = [left.digest] if run in ("unpublished", "of no catalogue") else []
    assert [one.digest for one in unregistered(here, here.tracker.versions())] == expected
    assert len(repair(here).done) == len(expected)
    assert [one.digest for one in here.tracker.versions("news")] == [known.digest]
    assert len(repair(here, write=True).done) == len(expected)
    digests = [one.digest for one in here.tracker.versions("news")]
    assert digests == [known.digest, *expected]
    assert repair(here).found == []
    remove_alias(here, "news", "candidate")
    delete_versions(here, "news")
    assert repair(here).found == [], "what is deleted stays deleted"
