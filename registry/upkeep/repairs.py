"""What catalogue, disk and MLflow say differently of the versions there are, and `doctor --fix`.

Looks first and says what it would do; trains nothing and asks nobody but this workspace's stores.
MLflow is right about numbers and aliases, the files are what the versions are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.aliases import move_alias
from bpeline.registry.catalogue import CountTable, Registration, Version
from bpeline.registry.environment import this_user
from bpeline.registry.loading import (
    FIGURES,
    MANIFEST,
    PAGES,
    holds_version,
    is_published_here,
    remembered_numbers,
    tombstones,
)
from bpeline.registry.publishing import (
    keep_in_outbox,
    publish_outbox,
    remember_version,
    waiting_publications,
)
from bpeline.registry.records import Publication
from bpeline.registry.upkeep.deletion_notes import noted_deletions
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import names_in_store
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, StorageError, StoreLost
from bpeline.tokenizer_core.formats import read_manifest

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.tracking import TrackedVersion

_LISTED = 5
_LOST_WITH_A_CATALOGUE = (
    "who moved aliases, when and why: history begins with where they point now",
    "runs that were not finished: type the same training again, it finds what was counted",
    "which chunks files held: they are read again, and what was counted of them is found",
)


# States of runs that have registered their version, or may leave one that nobody registers.
_REGISTERED, _LEFT = ("finished",), ("unpublished", "failed", "interrupted")


@dataclass(slots=True)
class Repair:
    """What is wrong, what is done about it, and what nobody knows any more.

    Attributes:
        found: what is wrong, in sentences; empty when all stores agree.
        done: what was or would be done.
        lost: what cannot be known again.
    """

    found: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def repair(registry: Registry, *, write: bool = False) -> Repair:
    """Look for lost and disagreeing stores, and make them good.

    A lost catalogue is made anew from the files of versions, from MLflow and from the records of
    word-count tables. For a lost MLflow, versions whose files are kept wait to be registered in the
    one that is there now. Where catalogue and MLflow disagree, MLflow is right. Versions that a
    shared store holds and that were not published are registered.

    Args:
        registry: of the workspace.
        write: do it; otherwise only say what would be done.

    Raises:
        RegistryUnreachable: MLflow does not answer.
        WorkspaceLocked: somebody works in the workspace, and something was to be written.
    """
    if not write:
        return _repair(registry, write=False)
    with registry.workspace.lock("repairing the stores"):
        return _repair(registry, write=True)


def _repair(registry: Registry, write: bool) -> Repair:
    told = Repair()
    kept = _without_deleted(registry, _kept_versions(registry, _directories(registry)))
    catalogue_is_lost = False
    try:
        _ = registry.catalogue
    except StoreLost as error:
        catalogue_is_lost = True
        told.found.append(error.happened)
        told.lost += _LOST_WITH_A_CATALOGUE
        tables = sum(1 for _ in registry.workspace.tables.glob("*.duckdb"))
        told.done.append(
            f"a new catalogue gets {len(kept)} versions from their files, what MLflow says of "
            f"their numbers, and {tables} word-count tables"
        )
        if not write:
            return told
        registry.adopt_catalogue()
    store = registry.known_store
    try:
        _ = registry.store
        tracked = registry.tracker.versions()
    except StoreLost as error:
        told.found.append(error.happened)
        told.lost.append("numbers in the MLflow that is gone, and who moved aliases there")
        told.done.append("the MLflow that is there now, or that will be made, is taken instead")
        if not catalogue_is_lost:  # which forgets deleted versions, as the MLflow that is gone knew
            find = registry.catalogue.find_version
            kept = [one for one in kept if find(one.name, one.digest) is not None]
        if write:
            registry.catalogue.forget_registrations(store)
            registry.forget_mlflow()
            registry.tracker.ensure_identity()
        tracked = registry.tracker.versions()
    else:
        differing = disagreements(registry, tracked)
        told.found += [one for one in differing if one not in told.found]
        if told.found:
            told.done.append("the catalogue takes over what MLflow says of numbers")
    if write and told.found:
        for one in kept:
            if registry.catalogue.find_version(one.name, one.digest) is None:
                remember_version(registry, one)
                registry.catalogue.training_ended(one.name, one.digest)
        _remember_tables(registry, kept)
        _take_over(registry, tracked)
    lacking = [*_lacking(registry, kept, tracked), *unregistered(registry, tracked)]
    for one in lacking:
        called = f"{one.name} ({one.digest[:12]})"
        if all(one.digest[:12] not in said for said in told.found):
            told.found.append(f"MLflow has no {called}, whose files are kept")
        told.done.append(f"{called} is registered, under a new number, with its aliases")
    if write and lacking:
        _register(registry, lacking, store)
    if write and told.found:  # what numbers meant before is asked again
        for remembered in registry.workspace.resolved_references.glob("*.json"):
            DURABLE.remove(remembered)
    return told


def _register(registry: Registry, lacking: Sequence[Publication], store: str) -> None:
    aliases = list(_aliases_of(registry, lacking, store))
    for one in lacking:
        keep_in_outbox(registry.workspace, one)
    published = {(one.name, one.digest): one for one in publish_outbox(registry)}
    for name, alias, digest in aliases:
        if (again := published.get((name, digest))) is not None:
            move_alias(
                registry, name, alias, again.number, digest, kind="rollback", by=this_user(),
                reason="MLflow had lost the version that it pointed to", force=True,
            )  # fmt: skip


def disagreements(registry: Registry, tracked: Sequence[TrackedVersion]) -> list[str]:
    """What the three stores say differently, in sentences; nothing where they agree.

    Versions that MLflow has from other workspaces are no disagreement.

    Args:
        registry: whose stores.
        tracked: all versions that its MLflow has.
    """
    there = {(one.name, one.number): one.digest for one in tracked}
    rows = registry.catalogue.versions()
    known = {(row.name, row.digest) for row in rows}
    found = [
        f"the catalogue does not know {one.name}/{one.number} ({one.digest[:12]}), which was "
        "published from this workspace"
        for one in tracked
        if (one.name, one.digest) not in known and is_published_here(registry.workspace, one.digest)
    ]
    seen = [one for row in rows for one in row.registrations if one.store == registry.store]
    differing = [one for one in seen if there.get((one.name, one.number)) != one.digest]
    if differing:
        begun = {(one.name, one.number) for _, one in noted_deletions(registry.workspace)}
        deleted = {(one.name, one.number): one for one in tombstones(registry)}
        for one in differing:
            key, what = (one.name, one.number), f"{one.name}/{one.number}"
            if key in there:
                found.append(f"{what} was {one.digest[:12]} and is {there[key][:12]} in MLflow")
            elif key not in begun:  # else `bpeline resume` goes on with it
                said = f", it was {deleted[key]}" if key in deleted else ""
                found.append(f"MLflow has no {what} ({one.digest[:12]}) any more{said}")
    for loaded in remembered_numbers(registry.place, registry.store):
        digest = there.get((loaded.name, loaded.number), loaded.digest)
        if digest != loaded.digest and not any(said.startswith(f"{loaded} was ") for said in found):
            found.append(
                f"{loaded} was {loaded.digest[:12]} when it was loaded here, and is {digest[:12]}"
            )
    return found


def require_agreement(registry: Registry, tracked: Sequence[TrackedVersion], doing: str) -> None:
    """Refuse to go on while the stores disagree.

    Raises:
        StorageError: they do.
    """
    found = disagreements(registry, tracked)
    if found:
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise StorageError(
            f"{doing} would go by stores that disagree: {'; '.join(found[:_LISTED])}{more}",
            "accepted are a catalogue, files and an MLflow that know the same versions",
            "type `bpeline doctor`, which says what differs and what `--fix` would do",
        )


def _lacking(
    registry: Registry, kept: Sequence[Publication], tracked: Collection[TrackedVersion]
) -> list[Publication]:
    """Versions that were registered, whose files are kept, and that MLflow has no more."""
    there = {(one.name, one.digest) for one in tracked}
    there |= {(one.name, one.digest) for _, one in waiting_publications(registry.workspace)}
    return [
        one
        for one in kept
        if (one.name, one.digest) not in there
        and is_published_here(registry.workspace, one.digest)
        and _ended(registry, one, _REGISTERED)
    ]


def unregistered(registry: Registry, tracked: Collection[TrackedVersion]) -> list[Publication]:
    """Versions that a shared store holds and that neither MLflow nor this outbox has.

    A machine whose workspace was removed before `bpeline resume` leaves them. Fetches their files.
    """
    workspace = registry.workspace
    named = {one.digest for one in tracked}
    named |= {one.digest for one in registry.catalogue.registrations()}
    named |= {one.digest for _, one in waiting_publications(workspace)}
    digests = names_in_store(workspace, workspace.versions) - named
    fetched = [digest for digest in digests if holds_version(workspace, digest)]
    found = _kept_versions(registry, map(workspace.version_directory, fetched))
    return _without_deleted(registry, [one for one in found if _ended(registry, one, _LEFT)])


def _ended(registry: Registry, one: Publication, how: Collection[str]) -> bool:
    """Whether the run that made a version ended so, or is not known here."""
    run = registry.catalogue.find_run(one.run_id)
    return run is None or run.state in how


def _aliases_of(
    registry: Registry, lost: Sequence[Publication], store: str
) -> Iterator[tuple[str, str, str]]:
    """Name, alias and digest of what pointed to these versions when it was last moved here."""
    digests = {(one.name, one.digest) for one in lost}
    for name in {one.name for one in lost}:
        seen: set[str] = set()
        for move in registry.catalogue.alias_history(name, store=store):  # newest first
            # What MLflow showed after it had lost a version is no decision of anybody's.
            if move.kind in ("refusal", "seen") or move.alias in seen:
                continue
            seen.add(move.alias)
            if (name, move.to_digest) in digests:
                yield name, move.alias, move.to_digest


def _without_deleted(registry: Registry, kept: list[Publication]) -> list[Publication]:
    """Files may be here for another's sake alone: their own version was deleted."""
    deleted = {(one.name, one.digest) for one in tombstones(registry)}
    if not deleted:
        return kept
    known: set[tuple[str, str]]
    try:
        known = {(one.name, one.digest) for one in registry.catalogue.versions()}
    except StoreLost:
        known = {(one.name, one.digest) for one in registry.tracker.versions()}
    keys = deleted - known  # one that was made again is a version as any other
    return [one for one in kept if (one.name, one.digest) not in keys]


def _directories(registry: Registry) -> Iterable[Path]:
    return registry.workspace.versions.glob("?" * DIGEST_LENGTH)


def _kept_versions(registry: Registry, directories: Iterable[Path]) -> list[Publication]:
    """The versions of these directories that were trained, in the order of their training."""
    found = []
    for directory in directories:
        try:
            manifest = read_manifest(directory)
            told: dict[str, Any] = manifest["provenance"]
            request = told.get("request") or {}
            found.append(
                Publication(
                    name=told["name"],
                    digest=directory.name,
                    tokenizer_directory=directory,
                    run_id=told["run"],
                    corpus_digest=told.get("corpus_digest", ""),
                    counts_digest=told.get("counts_digest", ""),
                    vocab_size=int(manifest["vocab_size"]),
                    pattern=str(manifest["pattern"].get("name") or manifest["pattern"]["regex"]),
                    params={key: value for key, value in request.items() if value is not None},
                    metrics=told.get("metrics", {}),
                    figures=tuple(sorted((directory / FIGURES).glob("*"))),
                    pages=tuple(sorted((directory / PAGES).glob("*"))),
                    created_at=_written_at(directory),
                )
            )
        except (BpelineError, OSError, KeyError, TypeError, AttributeError, ValueError):
            continue  # fetched to be loaded, or not trained here
    found = [_as_measured(registry, one) for one in found]
    return sorted(found, key=lambda one: (one.created_at, one.digest))


def _as_measured(registry: Registry, one: Publication) -> Publication:
    """With what the catalogue, unless it is lost, knows of the training and its evaluation set."""
    with suppress(StoreLost):
        row = registry.catalogue.find_version(one.name, one.digest)
        if row is not None:
            sets = {s.digest: s.number for s in registry.catalogue.evaluation_sets(one.name)}
            one = replace(one, trained=row.trained, created_at=row.created_at)
            number = sets.get(row.measured_on, 0)
            return replace(one, evaluation_set=row.measured_on, set_number=number)
    return one


def _remember_tables(registry: Registry, kept: list[Publication]) -> None:
    corpora = {one.counts_digest: one.corpus_digest for one in kept}
    runs = {one.counts_digest: one.run_id for one in kept}
    store = WordCountStore(registry.workspace)
    for path in registry.workspace.tables.glob("*.duckdb"):
        table = store.table(path.stem)
        if table is not None:
            digest = table.counts_digest
            registry.catalogue.remember_count_table(
                CountTable(
                    table.key, digest, corpora.get(digest, ""), table.rows, table.total,
                    runs.get(digest, ""),
                )
            )  # fmt: skip


def _take_over(registry: Registry, tracked: Sequence[TrackedVersion]) -> None:
    """Let the catalogue say of this MLflow's numbers what MLflow says."""
    store, catalogue = registry.make_store() if tracked else registry.store, registry.catalogue
    there = {(one.name, one.number) for one in tracked}
    deleted = {(one.name, one.number) for one in tombstones(registry)}
    for row in catalogue.registrations(store=store):
        key = (row.name, row.number)
        if key not in there:
            catalogue.forget_registrations(store, *key)
            if key in deleted:
                catalogue.forget_version(row.name, row.digest)
    for one in tracked:
        corpus, counts = registry.tracker.runs.lineage_of(one.mlflow_run_id)
        catalogue.add_version(
            Version(
                one.name,
                one.digest,
                run_id=one.run_id,
                corpus_digest=corpus,
                counts_digest=counts,
                vocab_size=one.vocab_size,
                pattern=one.tags.get("pattern", ""),
            )
        )
        catalogue.add_registration(Registration(store, one.name, one.number, one.digest))


def _written_at(directory: Path) -> str:
    seconds = (directory / MANIFEST).stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
