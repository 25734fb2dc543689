"""Versions that are deleted: gone wherever they were, remembered as deleted, never in the way."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kept_registry import KeptRegistry
from mlflow_proxy import running_server
from mlflow_tables import copy_database
from small_publications import publication_of

from bpeline.registry import configure, load_tokenizer, promote, publish_version, rollback
from bpeline.registry.aliases.moves import remove_alias
from bpeline.registry.loading import tombstones
from bpeline.registry.loading.version_files import holds_version, keep_files
from bpeline.registry.opening import Place, Registry, open_registry
from bpeline.registry.publishing import keep_in_outbox, waiting_records
from bpeline.registry.records import Tombstone
from bpeline.registry.records.publication import Publication
from bpeline.registry.records.references import ByAlias, ByNumber
from bpeline.registry.upkeep import damaged_notes, deletion_notes, noted_deletions
from bpeline.registry.upkeep.deletion import (
    VersionInUse,
    delete_versions,
    find_deletable,
    finish_deletions,
    parse_deletable,
)
from bpeline.registry.upkeep.repairs import disagreements, repair
from bpeline.registry.upkeep.retention import find_leftovers, remove_leftovers
from bpeline.registry.versions.listing import deleted_versions, list_versions
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.errors import (
    AliasLocked,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
    UnknownVersion,
)
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer

Made = Callable[..., Publication]

pytestmark = pytest.mark.night

SECRET = b"ada@example.org"
FIRST = ByNumber("news", 1)


def publish_both(registry: Registry, made: Made) -> None:
    """news/1, which knows the secret, and news/2, to which ``candidate`` points."""
    publish_version(registry, replace(made(SECRET), report=f"found {SECRET.decode()}"))
    publish_version(registry, made(b"the"))
    registry.catalogue.add_metrics("news", registry.tracker.versions()[0].digest, {"x": 1.0})


@pytest.fixture(scope="module")
def kept_both(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    root = tmp_path_factory.mktemp("kept")
    made = partial(publication_of, root / "made")
    return KeptRegistry(root, empty_mlflow, lambda registry: publish_both(registry, made))


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> KeptRegistry | None:
    """What tests begin with that ask for `both`; others begin with an empty registry."""
    if "both" not in request.fixturenames:
        return None
    found: KeptRegistry = request.getfixturevalue("kept_both")
    return found


@pytest.fixture
def both(registry: Registry) -> None:
    """news/1 and news/2 of `publish_both`."""


def files_with(secret: bytes, *roots: Path) -> list[Path]:
    """All files in which somebody can read it, MLflow's database among them."""
    return [
        path
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and secret in path.read_bytes()
    ]


def artifacts_of(registry: Registry) -> list[Path]:
    return [path for path in registry.workspace.mlflow_artifacts.rglob("*") if path.is_file()]


def require_gone(registry: Registry, digest: str) -> None:
    assert [one.number for one in registry.tracker.versions("news")] == [2]
    assert registry.tracker.models.traces("news", digest, ()).runs == ()
    assert registry.tracker.models.traces("news", digest, ()).models == ()
    assert not registry.workspace.version_directory(digest).exists()
    assert registry.catalogue.find_version("news", digest) is None
    assert [one.number for one in registry.catalogue.registrations("news")] == [2]
    assert noted_deletions(registry.workspace) == []
    assert disagreements(registry, registry.tracker.versions()) == []


@pytest.mark.usefixtures("both")
def test_a_deleted_version_is_nowhere_and_is_remembered(registry: Registry, made: Made) -> None:
    digest = load_tokenizer("news/1").digest  # and what the number means is remembered
    before = len(artifacts_of(registry))
    (seen,) = find_deletable(registry, FIRST)
    assert not seen.removed
    assert len(artifacts_of(registry)) == before
    (gone,) = delete_versions(registry, FIRST, by="ada", reason="holds an address")
    assert (gone.reference, gone.removed, gone.goes) == ("news/1", True, seen.goes)
    require_gone(registry, digest)
    assert 0 < len(artifacts_of(registry)) < before
    root = registry.workspace.root
    assert files_with(SECRET, root) == []
    assert not registry.workspace.resolved("news/1").exists()
    for reference in ("news/1", digest[:12], digest):
        with pytest.raises(UnknownVersion, match=r"news/1.*ada.*holds an address"):
            load_tokenizer(reference)
    with pytest.raises(UnknownVersion, match="ada"):
        delete_versions(registry, FIRST)
    (one,) = deleted_versions("news")
    assert (one.number, one.digest, one.reason) == (1, digest, "holds an address")
    assert {row.kind for row in find_leftovers(registry, days=0).old} == set()


@pytest.mark.usefixtures("both")
def test_the_database_of_mlflow_holds_no_tokens_of_it_after_its_own_gc(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    """The command that is printed is one that MLflow has, and does what is said."""
    (gone,) = delete_versions(registry, FIRST)
    (said,) = [one for one in gone.stays if "mlflow gc" in one]
    command = said.split("`")[1].split()
    client = registry.tracker._client
    experiment = client.get_experiment_by_name("news").experiment_id
    hidden = client.search_runs([experiment], run_view_type=2)  # deleted ones alone
    assert [run.info.run_id for run in hidden] == [command[command.index("--run-ids") + 1]]
    assert "mlflow.note.content" not in hidden[0].data.tags
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True, timeout=120)
    assert client.search_runs([experiment], run_view_type=2) == []
    assert [one.number for one in registry.tracker.versions()] == [2]
    assert load_tokenizer("news@candidate").digest


@pytest.mark.usefixtures("both")
def test_what_an_alias_points_to_is_refused_and_aliases_can_be_removed(
    registry: Registry, made: Made
) -> None:
    promote("news/1", alias="old")
    for wanted, said in ((FIRST, "news@old.*news/1"), ("news", "news@candidate.*news/2")):
        with pytest.raises(VersionInUse, match=said) as refused:
            delete_versions(registry, wanted)
        assert "--yes`" in refused.value.next_step
        with pytest.raises(VersionInUse):
            find_deletable(registry, wanted)
    assert len(registry.tracker.versions()) == 2
    assert noted_deletions(registry.workspace) == []
    move = remove_alias(registry, "news", "old", by="ada", reason="not used")
    assert (move.from_number, move.to_number, move.kind) == (1, None, "remove")
    assert registry.tracker.version_of_alias("news", "old") is None
    again = remove_alias(registry, "news", "old")
    assert (again.from_number, again.to_number) == (None, None)
    assert len(registry.catalogue.alias_history("news", "old")) == 2
    with pytest.raises(UnknownVersion, match="never"):
        remove_alias(registry, "news", "never")
    rollback("news", alias="old")
    assert registry.tracker.version_of_alias("news", "old").number == 1


@pytest.mark.usefixtures("both")
def test_a_locked_alias_is_not_removed(registry: Registry) -> None:
    promote("news/1", alias="old", lock=True, reason="model 7 learns with it")
    with pytest.raises(AliasLocked, match="model 7") as refused:
        remove_alias(registry, "news", "old")
    assert "`bpeline promote news@old --to old --force`" in refused.value.next_step
    assert len(registry.catalogue.alias_history("news", "old")) == 1
    promote("news@old", alias="old", force=True)
    assert remove_alias(registry, "news", "old").to_number is None


@pytest.mark.usefixtures("both")
def test_all_versions_of_a_name_and_numbers_that_are_never_used_again(
    registry: Registry, made: Made
) -> None:
    remove_alias(registry, "news", "candidate")
    gone = delete_versions(registry, "news")
    assert [one.reference for one in gone] == ["news/1", "news/2"]
    assert list_versions("news") == []
    published = publish_version(registry, made(SECRET, run_id="once-more"))
    assert (published.number, published.newly_registered) == (3, True)
    assert any("news/1" in one for one in published.remarks)
    assert load_tokenizer("news/3").digest == published.digest
    assert [one.number for one in tombstones(registry)] == [1, 2]
    with pytest.raises(UnknownVersion, match="blog"):
        delete_versions(registry, "blog")


@pytest.mark.parametrize("text", ["./news/3", "0123456789abcdef/", "/tmp/x", "News", "a b"])
def test_only_versions_aliases_and_names_can_be_deleted(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_deletable(text)
    assert parse_deletable("news/3") == ByNumber("news", 3)
    assert parse_deletable("news@old") == ByAlias("news", "old")
    assert parse_deletable("deadbeef") == "deadbeef"  # a name, though it looks like a digest


@pytest.mark.usefixtures("both")
def test_what_another_name_needs_stays(registry: Registry, made: Made) -> None:
    publish_version(registry, made(SECRET, name="blog"))
    (gone,) = delete_versions(registry, FIRST)
    assert any("blog/1" in one for one in gone.stays)
    assert holds_version(registry.workspace, gone.digest)
    shutil.rmtree(registry.workspace.version_directory(gone.digest))
    assert load_tokenizer("blog/1").digest == gone.digest  # from MLflow
    remove_alias(registry, "blog", "candidate")
    delete_versions(registry, "blog")
    assert not holds_version(registry.workspace, gone.digest)
    assert files_with(SECRET, registry.workspace.root) == []


@pytest.mark.usefixtures("both")
def test_a_copy_that_mlflow_made_of_a_version_keeps_its_files(
    registry: Registry, made: Made
) -> None:
    client = registry.tracker._client
    client.copy_model_version("models:/news/1", "copied")
    (gone,) = delete_versions(registry, FIRST)
    shutil.rmtree(registry.workspace.version_directory(gone.digest))
    assert load_tokenizer("copied/1").digest == gone.digest


@pytest.mark.usefixtures("both")
def test_another_mlflow_keeps_its_version_and_that_is_said(
    registry: Registry, made: Made, empty_mlflow: Path, tmp_path: Path
) -> None:
    copy_database(empty_mlflow, tmp_path / "other.sqlite")
    configure(tracking_uri=f"sqlite:///{tmp_path / 'other.sqlite'}")
    other = open_registry()
    publish_version(other, made(SECRET, run_id="elsewhere"))
    (gone,) = delete_versions(registry, FIRST)
    assert any(str(other.store) in one for one in gone.stays)
    assert [one.number for one in other.tracker.versions()] == [1]
    assert load_tokenizer("news/1").digest == gone.digest
    assert tombstones(other) == []
    assert disagreements(other, other.tracker.versions()) == []


@pytest.mark.usefixtures("both")
def test_while_mlflow_is_down_it_is_noted_and_done_later(
    registry: Registry, made: Made, disconnected: Registry
) -> None:
    known = registry.catalogue.registrations("news")
    with pytest.raises(RegistryUnreachable):
        delete_versions(disconnected, ByNumber("news", 9))
    with pytest.raises(VersionInUse):
        delete_versions(disconnected, ByNumber("news", 2))
    with pytest.raises(RegistryUnreachable, match="news/1") as told:
        delete_versions(disconnected, FIRST, by="ada", reason="holds an address")
    assert "bpeline resume" in told.value.next_step
    assert registry.catalogue.registrations("news") == known
    assert holds_version(registry.workspace, known[0].digest)
    assert disagreements(registry, registry.tracker.versions()) == []
    with pytest.raises(RegistryUnreachable):
        finish_deletions(disconnected)
    assert [one.reference for one in finish_deletions(registry)] == ["news/1"]
    require_gone(registry, known[0].digest)
    assert str(tombstones(registry)[0]).endswith("holds an address")
    assert finish_deletions(registry) == []
    configure(tracking_uri=registry.tracker.settings.uri)
    with pytest.raises(UnknownVersion, match="ada"):
        load_tokenizer("news/1")


@pytest.mark.usefixtures("both")
def test_an_alias_that_was_moved_there_meanwhile_keeps_the_version(
    registry: Registry, made: Made, disconnected: Registry
) -> None:
    with pytest.raises(RegistryUnreachable):
        delete_versions(disconnected, FIRST)
    configure(tracking_uri=registry.tracker.settings.uri)
    promote("news/1")
    with pytest.raises(VersionInUse):
        finish_deletions(registry)
    assert finish_deletions(registry) == []
    assert load_tokenizer("news@champion").digest == registry.tracker.versions()[0].digest


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("noted", [False, True])
def test_versions_after_a_refused_one_are_noted_no_more(
    noted: bool, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they were before."""
    remove_alias(registry, "news", "candidate")
    second = registry.tracker.versions("news")[1]
    if noted:
        begun = Tombstone("news", 2, second.digest, "ada", "yesterday", "2026-01-01T00:00:00Z")
        deletion_notes.write(registry.workspace, registry.store, [begun])
    write = deletion_notes.write

    def write_and_promote(workspace: Workspace, store: str, chosen: list[Tombstone]) -> None:
        write(workspace, store, chosen)
        promote("news/1")

    monkeypatch.setattr(deletion_notes, "write", write_and_promote)
    with pytest.raises(VersionInUse, match="news@champion to news/1"):
        delete_versions(registry, "news")
    assert [one.number for _, one in noted_deletions(registry.workspace)] == [2] * noted
    assert len(registry.tracker.versions("news")) == 2


@pytest.mark.usefixtures("both")
def test_a_lost_catalogue_does_not_bring_it_back(registry: Registry, made: Made) -> None:
    publish_version(registry, made(SECRET, name="blog"))
    (gone,) = delete_versions(registry, FIRST, reason="holds an address")
    registry.catalogue.close()
    (registry.workspace.root / "catalogue.sqlite").unlink()
    repair(open_registry(), write=True)
    fresh = open_registry()
    assert [(one.name, one.digest == gone.digest) for one in fresh.catalogue.versions()] == [
        ("blog", True), ("news", False),
    ]  # fmt: skip
    (one,) = tombstones(fresh)
    assert (one.number, one.reason) == (1, "holds an address")
    assert disagreements(fresh, fresh.tracker.versions()) == []
    assert repair(fresh).found == []
    with pytest.raises(UnknownVersion, match="holds an address"):
        load_tokenizer("news/1")


def test_a_lost_mlflow_does_not_bring_it_back(
    registry: Registry, made: Made, empty_mlflow: Path
) -> None:
    publish_version(registry, made(SECRET, name="blog"))
    for word in (SECRET, b"the"):
        publication = made(word)
        tokenizer = Tokenizer.load(publication.tokenizer_directory, format="bpeline")
        told = {"name": "news", "run": publication.run_id}
        bpeline.save(tokenizer, publication.tokenizer_directory, told)
        # As a training's has, and no version that was only loaded.
        (publication.tokenizer_directory / "evaluation.json").write_text("{}")
        publish_version(registry, publication)
    delete_versions(registry, FIRST)
    copy_database(empty_mlflow, Path(registry.tracker.settings.uri.removeprefix("sqlite:///")))
    fresh = open_registry()
    repair(fresh, write=True)
    # The second news; the files that blog needs say that they are of news, too.
    assert [(one.name, one.number) for one in fresh.tracker.versions()] == [("news", 1)]


@pytest.mark.usefixtures("both")
def test_what_waits_of_a_deleted_version_is_not_published(registry: Registry, made: Made) -> None:
    keep_in_outbox(registry.workspace, keep_files(registry.workspace, made(SECRET, run_id="again")))
    delete_versions(registry, FIRST)
    assert waiting_records(registry.workspace) == []


@pytest.mark.usefixtures("both")
def test_another_workspace_is_told_and_takes_it_over(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    """With a catalogue of its own, over the same MLflow."""
    configure(workspace=tmp_path / "another")
    other = open_registry()
    publish_version(other, made(SECRET, run_id="other"))
    promote("news/2", alias="candidate")
    (gone,) = delete_versions(registry, FIRST, by="ada")
    (said,) = disagreements(other, other.tracker.versions())
    assert "news/1" in said
    repair(other, write=True)
    assert disagreements(other, other.tracker.versions()) == []
    with pytest.raises(UnknownVersion, match="ada"):
        load_tokenizer("news/1")
    remove_leftovers(other, days=0)
    assert not holds_version(other.workspace, gone.digest)


@pytest.mark.usefixtures("both")
def test_a_note_that_cannot_be_read_is_named_and_written_again(
    registry: Registry, disconnected: Registry
) -> None:
    with pytest.raises(RegistryUnreachable):
        delete_versions(disconnected, FIRST)
    configure(tracking_uri=registry.tracker.settings.uri)
    note = registry.workspace.deletion_note("news", 1)
    note.write_bytes(note.read_bytes()[:-9])
    assert damaged_notes(registry.workspace) == ["news/1"]
    with pytest.raises(RegistryError, match="news/1") as told:
        finish_deletions(registry)
    assert "bpeline delete news/1 --yes" in told.value.next_step
    assert len(registry.tracker.versions()) == 2
    delete_versions(registry, FIRST)
    assert damaged_notes(registry.workspace) == []


def test_copies_in_the_store_go_too(registry: Registry, made: Made, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    url = f"memory://store-{tmp_path.name}"
    shared = Workspace.open(tmp_path / "shared", store=url)
    place = Place(shared, registry.place.tracking_uri, f"sqlite:///{tmp_path / 'cat.sqlite'}")
    sharing = Registry(place, registry.tracker)
    publish_both(sharing, made)
    digest = sharing.tracker.versions()[0].digest
    memory = fsspec.filesystem("memory")
    assert [one for one in memory.find(f"/store-{tmp_path.name}") if digest in one]
    delete_versions(sharing, FIRST)
    assert [one for one in memory.find(f"/store-{tmp_path.name}") if digest in one] == []
    assert not holds_version(shared, digest)


def test_an_mlflow_server_gives_up_all_of_it(
    home: Path, made: Made, empty_mlflow: Path, tmp_path: Path
) -> None:
    copy_database(empty_mlflow, tmp_path / "mlflow.sqlite")
    with running_server(tmp_path) as server:
        configure(tracking_uri=f"http://127.0.0.1:{server.port}")
        registry = open_registry()
        publish_both(registry, made)
        digest = registry.tracker.versions()[0].digest
        (gone,) = delete_versions(registry, FIRST, by="ada", reason="holds an address")
        require_gone(registry, digest)
        assert any("THE_DATABASE_OF_THE_SERVER" in one for one in gone.stays)
        assert [one.number for one in open_registry().tracker.tombstones()] == [1]
        with pytest.raises(UnknownVersion, match=r"ada.*holds an address"):
            load_tokenizer("news/1")
        assert publish_version(registry, made(b"more")).number == 3
    artifacts = [path for path in tmp_path.rglob("*") if "artifacts" in path.parts]
    assert artifacts
    assert [path for path in artifacts if path.is_file() and SECRET in path.read_bytes()] == []


@pytest.mark.usefixtures("both")
def test_a_number_that_means_another_tokenizer_now_is_not_deleted(
    registry: Registry, made: Made, disconnected: Registry, empty_mlflow: Path
) -> None:
    """MLflow was put back from a backup between the note and the deletion."""
    with pytest.raises(RegistryUnreachable):
        delete_versions(disconnected, FIRST)
    ((store, noted),) = noted_deletions(registry.workspace)
    deletion_notes.write(registry.workspace, store, [replace(noted, digest="f" * 64)])
    with pytest.raises(RegistryError, match="MLflow"):
        finish_deletions(registry)
    assert len(registry.tracker.versions()) == 2
