"""Stores that are lost, emptied, exchanged or put back from a backup: told, and never believed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow_tables import copy_database

from bpeline.registry import (
    alias_history,
    configure,
    list_versions,
    load_tokenizer,
    promote,
    publish_outbox,
    publish_version,
)
from bpeline.registry.aliases.moves import AliasMovedMeanwhile, move_alias
from bpeline.registry.loading.version_files import keep_files
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.publishing import keep_in_outbox, waiting_records
from bpeline.registry.records.publication import Publication
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.upkeep.repairs import repair
from bpeline.registry.upkeep.retention import find_leftovers, remove_leftovers
from bpeline.registry.versions.listing import OtherStore
from bpeline.registry.workspace import remember_place
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    NotTrusted,
    RegistryError,
    StorageError,
    UnknownVersion,
)

pytestmark = pytest.mark.fake_mlflow

Made = Callable[..., Publication]


@pytest.fixture
def other_mlflow(empty_mlflow: Path, tmp_path: Path) -> str:
    """The address of another MLflow, in which nothing was ever registered."""
    path = tmp_path / "other.sqlite"
    copy_database(empty_mlflow, path)
    return f"sqlite:///{path}"


def file_of(registry: Registry) -> Path:
    return Path(registry.tracker.settings.uri.removeprefix("sqlite:///"))


# ---- stores that end with the process ------------------------------------------------------------


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"])
@pytest.mark.parametrize("variable", ["MLFLOW_TRACKING_URI", "BPELINE_CATALOGUE_URL"])
def test_a_database_in_memory_is_refused_before_anything_is_written(
    variable: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, url)
    with pytest.raises(InvalidOption, match="memory") as refused:
        open_registry(tmp_path / "home")
    assert variable in refused.value.next_step


@pytest.mark.parametrize(
    ("variable", "value", "match"),
    [
        ("BPELINE_ARTIFACTS_URL", "memory://files", "memory"),
        ("MLFLOW_ENABLE_WORKSPACES", "true", "server"),
    ],
)
def test_what_could_not_be_published_there_is_refused_too(
    variable: str, value: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidOption, match=match) as refused:
        open_registry(tmp_path / "home")
    assert variable in refused.value.next_step


# ---- another MLflow ------------------------------------------------------------------------------


def test_a_number_is_never_used_in_another_mlflow(
    registry: Registry, made: Made, other_mlflow: str
) -> None:
    """`promote news/1` pointed to what another MLflow calls 1, and said that it had succeeded."""
    first = [made(word) for word in (b"the", b"and")]
    for publication in first:
        publish_version(registry, publication)
    configure(tracking_uri=other_mlflow)
    there = open_registry()
    third = made(b"of")
    version = publish_version(there, third)
    assert version.reference == "news/1"
    assert load_tokenizer("news@candidate").digest == third.digest
    with pytest.warns(OtherStore, match=r"\b2\b"):
        assert [one.digest for one in list_versions("news")] == [third.digest]
    promote("news/1")
    assert load_tokenizer("news@champion").digest == third.digest
    with pytest.raises(UnknownVersion, match=r"news/1.*news/2"):
        promote("news/2")
    with pytest.raises(RegistryError, match=third.digest[:12]):
        move_alias(there, "news", "champion", 1, first[0].digest, kind="promote")
    assert load_tokenizer("news@champion").digest == third.digest
    # What was registered elsewhere is still there, by its digest.
    assert load_tokenizer(first[0].digest).digest == first[0].digest
    configure(tracking_uri=registry.tracker.settings.uri)
    with pytest.warns(OtherStore, match=r"\b1\b"):
        assert [one.number for one in list_versions("news")] == [1, 2]
    assert [one.alias for one in alias_history("news")] == ["champion"] + ["candidate"] * 3


def test_another_mlflow_at_the_same_address_is_refused(
    registry: Registry, made: Made, empty_mlflow: Path
) -> None:
    publish_version(registry, made(b"the"))
    copy_database(empty_mlflow, file_of(registry))
    again = open_registry()
    for ask in (
        lambda: load_tokenizer("news@candidate"),
        lambda: list_versions(),
        lambda: promote("news/1"),
        lambda: publish_version(again, made(b"and")),
        lambda: remove_leftovers(again, days=0),
    ):
        with pytest.raises(StorageError, match="sqlite"):
            ask()
    again.tracker.ensure_identity()  # somebody else's now
    with pytest.raises(StorageError):
        load_tokenizer("news@candidate")


def test_a_missing_mlflow_is_no_empty_one(registry: Registry, made: Made, tmp_path: Path) -> None:
    own = f"sqlite:///{tmp_path / 'own.sqlite'}"
    copy_database(file_of(registry), tmp_path / "own.sqlite")
    configure(tracking_uri=own)
    publish_version(open_registry(), made(b"the"))
    (tmp_path / "own.sqlite").unlink()
    with pytest.raises(StorageError):
        publish_version(open_registry(), made(b"and"))
    assert not (tmp_path / "own.sqlite").exists()


def test_a_backup_that_was_put_back_is_noticed(registry: Registry, made: Made) -> None:
    publish_version(registry, made(b"the"))
    backup = file_of(registry).with_name("backup.sqlite")
    copy_database(file_of(registry), backup)
    second = made(b"and")
    publish_version(registry, second)
    assert load_tokenizer("news/2").digest == second.digest
    copy_database(backup, file_of(registry))
    with pytest.raises(StorageError, match="news/2"):
        find_leftovers(open_registry(), days=0)
    third = made(b"of")
    version = publish_version(open_registry(), third)
    assert version.number == 2
    assert [remark for remark in version.remarks if "backup" in remark]
    with pytest.raises(RegistryError, match=second.digest[:12]):
        load_tokenizer("news/2")
    repair(open_registry(), write=True)


def test_readers_write_nothing_into_mlflow(registry: Registry, made: Made, tmp_path: Path) -> None:
    publication = made(b"the")
    publish_version(registry, publication)
    configure(workspace=tmp_path / "reader")
    database = file_of(registry)
    before = database.read_bytes()
    database.chmod(0o400)
    try:
        assert load_tokenizer("news@candidate").digest == publication.digest
        assert load_tokenizer("news/1").digest == publication.digest
        assert [one.reference for one in list_versions()] == ["news/1"]
    finally:
        database.chmod(0o600)
    assert database.read_bytes() == before


def test_who_only_reads_leaves_no_half_of_a_workspace(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    """A list of versions left a directory that was no workspace, in which nobody could work."""
    publish_version(registry, made(b"the"))
    reader = tmp_path / "reader"
    configure(workspace=reader, catalogue_url=registry.place.catalogue_url)
    assert [one.reference for one in list_versions()] == ["news/1"]
    assert not reader.exists()
    assert promote("news/1").number == 1


# ---- a lost catalogue ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["emptied", "missing", "remembered by nobody"])
def test_a_lost_catalogue_is_no_empty_one(
    registry: Registry, made: Made, how: str, home: Path
) -> None:
    """`gc` took it for one and removed registered tokenizers."""
    publication = made(b"the")
    publish_version(registry, publication)
    catalogue = home / "catalogue.sqlite"
    registry.catalogue.close()
    if how == "emptied":
        catalogue.write_bytes(b"")
    else:
        catalogue.unlink()
    if how == "remembered by nobody":  # a workspace of before stores were remembered
        (home / "stores.json").unlink()
        (home / "runs" / "0123456789abcdef").mkdir()
    for ask in (
        lambda: remove_leftovers(open_registry(), days=0),
        lambda: list_versions(),
        lambda: publish_version(open_registry(), made(b"and")),
    ):
        with pytest.raises(StorageError, match="catalogue"):
            ask()
    assert catalogue.exists() == (how == "emptied")
    assert load_tokenizer("news@candidate").digest == publication.digest, "MLflow has it"

    told = repair(open_registry())
    assert told.found
    assert told.lost
    with pytest.raises(StorageError):
        _ = open_registry().catalogue
    repair(open_registry(), write=True)
    assert not repair(open_registry()).found
    (version,) = list_versions()
    assert (version.reference, version.aliases) == ("news/1", ("candidate",))
    assert version.vocab_size == publication.vocab_size
    left = remove_leftovers(open_registry(), days=0)
    assert [one for one in left.old if one.kind == "version"] == []
    assert load_tokenizer("news/1").digest == publication.digest
    assert publish_version(open_registry(), made(b"and")).number == 2


def test_a_catalogue_put_back_from_before_the_last_version_disagrees(
    registry: Registry, made: Made, home: Path
) -> None:
    publish_version(registry, made(b"the"))
    registry.catalogue.close()
    shutil.copy(home / "catalogue.sqlite", home.parent / "kept.sqlite")
    second = made(b"and")
    (second.tokenizer_directory / "evaluation.json").write_bytes(b"{}")  # only publishers have it
    publish_version(registry, second)
    registry.catalogue.close()
    shutil.copy(home.parent / "kept.sqlite", home / "catalogue.sqlite")
    with pytest.raises(StorageError, match="news/2"):
        remove_leftovers(open_registry(), days=0)
    repair(open_registry(), write=True)
    assert remove_leftovers(open_registry(), days=0).old == ()
    assert len(open_registry().catalogue.versions()) == 2


def test_a_size_that_somebody_edited_in_mlflow_ends_no_command(
    registry: Registry, made: Made, home: Path
) -> None:
    publish_version(registry, made(b"the"))
    tag = registry.tracker._client.set_model_version_tag
    configure(workspace=home.parent / "another")  # whose catalogue does not know it
    open_registry()
    for edited, shown in (("about 258", 0), ("", 0), ("9" * 30, 0), ("258", 258)):
        tag("news", "1", "vocab_size", edited)
        assert [one.vocab_size for one in list_versions("news")] == [shown], edited
    tag("news", "1", "vocab_size", "about 258")
    configure(workspace=home)
    registry.catalogue.close()
    (home / "catalogue.sqlite").unlink()
    repair(open_registry(), write=True)
    assert [one.vocab_size for one in list_versions("news")] == [0]


def test_versions_of_an_mlflow_that_is_gone_are_registered_again(
    registry: Registry, made: Made, empty_mlflow: Path
) -> None:
    publications = [made(word) for word in (b"the", b"and")]
    for publication in publications:
        publish_version(registry, publication)
    copy_database(empty_mlflow, file_of(registry))
    assert repair(open_registry()).done  # which writes nothing yet
    told = repair(open_registry(), write=True)
    assert any(f"sqlite:///{file_of(registry)}" in one for one in told.found)
    assert any("aliases" in one for one in told.lost)
    # These were published without a flow: their manifests do not say how they came to be.
    assert waiting_records(registry.workspace) == []
    for publication in publications:
        keep_in_outbox(registry.workspace, keep_files(registry.workspace, publication))
    assert sorted(one.number for one in publish_outbox(open_registry())) == [1, 2]
    assert {one.digest for one in list_versions()} == {one.digest for one in publications}


# ---- aliases -------------------------------------------------------------------------------------


def test_candidate_never_moves_back_to_an_older_training(
    registry: Registry, disconnected: Registry, made: Made
) -> None:
    monday, tuesday = made(b"the", run_id="monday"), made(b"and", run_id="tuesday")
    with pytest.raises(RegistryError):
        publish_version(disconnected, monday)
    configure(tracking_uri=registry.tracker.settings.uri)
    publish_version(registry, tuesday)
    (late,) = publish_outbox(registry)
    assert late.digest == monday.digest
    (remark,) = late.remarks
    assert re.match(r"news@candidate\b.*\bnews/1\b", remark)
    assert load_tokenizer("news@candidate").digest == tuesday.digest


def test_of_two_promotions_at_once_one_is_told(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in (b"the", b"and", b"of"):
        publish_version(registry, made(word))
    promote("news/1")
    ours = open_registry()
    move = ours.tracker.version_of_alias("news", "champion")
    assert move is not None
    promote("news/2", by="somebody else")
    third = ours.tracker.version("news", 3)
    assert third is not None
    with pytest.raises(AliasMovedMeanwhile, match="news/2"):
        move_alias(ours, "news", "champion", 3, third.digest, kind="promote", expected=move.number)
    assert registry.tracker.aliases("news")["news"]["champion"] == 2


class Pretending(MlflowTracker):
    """An MLflow that says yes and does nothing."""

    def move_alias(self, name: str, alias: str, number: int) -> None:
        return


def test_an_alias_that_does_not_move_is_not_said_to_have_moved(
    registry: Registry, made: Made
) -> None:
    publish_version(registry, made(b"the"))
    (version,) = registry.tracker.versions("news")
    pretending = Registry(registry.place, Pretending(registry.tracker.settings))
    with pytest.raises(AliasMovedMeanwhile, match="MLflow"):
        move_alias(pretending, "news", "champion", 1, version.digest, kind="promote")
    assert registry.catalogue.alias_history("news", "champion") == []


# ---- what gc keeps -------------------------------------------------------------------------------


def test_gc_keeps_the_checkpoint_that_an_unfinished_run_continues(registry: Registry) -> None:
    run = registry.catalogue.start_run("news", {})
    registry.catalogue.step_reached(run.id, "learn merges", counts_digest="c" * 64)
    needed = registry.workspace.checkpoint("c" * 64, "a" * 64)
    other = registry.workspace.checkpoint("d" * 64, "a" * 64)
    for path in (needed, other):
        path.parent.mkdir()
        path.write_bytes(b"merges")
    registry.workspace.resolved("news/1").parent.mkdir()
    registry.workspace.resolved("news/1").write_bytes(b"{}")
    removed = remove_leftovers(registry, days=0).old
    assert [one.paths[0] for one in removed] == [other.parent]
    registry.catalogue.end_run(run.id, "finished")
    removed = remove_leftovers(registry, days=0).old
    assert [one.paths[0] for one in removed] == [needed.parent]
    assert registry.workspace.resolved("news/1").exists()


# ---- a workspace that was moved ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["moved", "linked", "of an earlier release"])
def test_that_mlflow_looks_for_files_where_the_workspace_was_is_said_once(
    how: str, made: Made, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    former, here = tmp_path / "former", tmp_path / "here"
    publish_version(open_registry(former), made(b"the"))
    if how == "of an earlier release":
        (former / "mlflow-places.json").unlink()
    former.rename(here)
    if how == "linked":
        former.symlink_to(here)
    for _ in range(2):
        assert load_tokenizer("news@candidate", workspace=here)
        list_versions(workspace=here)
    said = [str(one.message) for one in recwarn if "looks for its files there" in str(one.message)]
    assert len(said) == (how == "moved")
    assert all(repr(str(former)) in one and "`bpeline doctor`" in one for one in said)


@pytest.mark.parametrize("damage", [b"{", b"[1]", b'{"places": 1}', b'{"places": [1]}'])
def test_a_damaged_record_of_places_moves_nothing(damage: bytes, tmp_path: Path) -> None:
    file = tmp_path / "places.json"
    file.write_bytes(damage)
    assert remember_place(file, tmp_path) is None
    DURABLE.keep_unchanged(tmp_path, NotTrusted("it belongs to another user", "", ""))
    assert remember_place(file, tmp_path / "other") is None, "nothing can be remembered"
    DURABLE.keep_unchanged(tmp_path, None)
    assert remember_place(file, tmp_path / "other") == tmp_path
    assert remember_place(file, tmp_path) is None, "it was there before"
