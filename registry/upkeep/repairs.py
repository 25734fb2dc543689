"""Find and repair disagreements between catalogue, files and MLflow.

MLflow decides on version numbers and aliases, the files on the content of versions.
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
    "the history of aliases: it begins with where they point now",
    "unfinished runs: run the same training again, it reuses the word counts",
    "the chunks of files: they are read again, and their word counts are reused",
)


# States of runs that registered their version, and of runs that may leave one unregistered.
_REGISTERED, _LEFT = ("finished",), ("unpublished", "failed", "interrupted")


@dataclass(slots=True)
class Repair:
    """The result of a check or repair, in sentences.

    Attributes:
        done: actions done or, without ``write``, planned.
        lost: data that cannot be recovered.
    """

    found: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def repair(registry: Registry, *, write: bool = False) -> Repair:
    """Find lost or disagreeing stores and repair them.

    A lost catalogue is rebuilt from the files of versions, MLflow and the records of word-count
    tables. After the loss of MLflow, versions whose files are kept are registered in the present
    one. Where catalogue and MLflow disagree, MLflow is right. Unpublished versions in a shared
    store are registered.

    Args:
        write: repair; otherwise only report what would be done.
    """
    if not write:
        return _repair(registry, write=False)
    with registry.workspace.lock("repairing the stores"):
        return _repair(registry, write=True)


def _repair(registry: Registry, write: bool) -> Repair:
    result = Repair()
    publications = _without_deleted(registry, _kept_versions(registry, _directories(registry)))
    catalogue_is_lost = False
    try:
        _ = registry.catalogue
    except StoreLost as error:
        catalogue_is_lost = True
        result.found.append(error.happened)
        result.lost += _LOST_WITH_A_CATALOGUE
        tables = sum(1 for _ in registry.workspace.tables.glob("*.duckdb"))
        result.done.append(
            f"a new catalogue gets {len(publications)} versions from their files, their numbers "
            f"from MLflow, and {tables} word-count tables"
        )
        if not write:
            return result
        registry.adopt_catalogue()
    store = registry.known_store
    try:
        _ = registry.store
        tracked = registry.tracker.versions()
    except StoreLost as error:
        result.found.append(error.happened)
        result.lost.append("version numbers and the history of aliases in the lost MLflow")
        result.done.append("the present MLflow, or a new one, is used instead")
        if not catalogue_is_lost:  # versions without a row in the catalogue were deleted
            find = registry.catalogue.find_version
            publications = [
                entry for entry in publications if find(entry.name, entry.digest) is not None
            ]
        if write:
            registry.catalogue.forget_registrations(store)
            registry.forget_mlflow()
            registry.tracker.ensure_identity()
        tracked = registry.tracker.versions()
    else:
        differing = disagreements(registry, tracked)
        result.found += [entry for entry in differing if entry not in result.found]
        if result.found:
            result.done.append("the catalogue takes over the version numbers of MLflow")
    if write and result.found:
        for entry in publications:
            if registry.catalogue.find_version(entry.name, entry.digest) is None:
                remember_version(registry, entry)
                registry.catalogue.training_ended(entry.name, entry.digest)
        _remember_tables(registry, publications)
        _take_over(registry, tracked)
    lacking = [*_lacking(registry, publications, tracked), *unregistered(registry, tracked)]
    for entry in lacking:
        label = f"{entry.name} ({entry.digest[:12]})"
        if all(entry.digest[:12] not in sentence for sentence in result.found):
            result.found.append(f"MLflow has no {label}, whose files are kept")
        result.done.append(f"{label} is registered, under a new number, with its aliases")
    if write and lacking:
        _register(registry, lacking, store)
    if write and result.found:  # numbers may mean other versions now
        for remembered in registry.workspace.resolved_references.glob("*.json"):
            DURABLE.remove(remembered)
    return result


def _register(registry: Registry, lacking: Sequence[Publication], store: str) -> None:
    aliases = list(_aliases_of(registry, lacking, store))
    for publication in lacking:
        keep_in_outbox(registry.workspace, publication)
    published = {
        (publication.name, publication.digest): publication
        for publication in publish_outbox(registry)
    }
    for name, alias, digest in aliases:
        if (version := published.get((name, digest))) is not None:
            move_alias(
                registry, name, alias, version.number, digest, kind="rollback", by=this_user(),
                reason="MLflow had lost the version that it pointed to", force=True,
            )  # fmt: skip


def disagreements(registry: Registry, tracked: Sequence[TrackedVersion]) -> list[str]:
    """Return the disagreements of catalogue, files and MLflow, in sentences."""
    numbers = {(entry.name, entry.number): entry.digest for entry in tracked}
    rows = registry.catalogue.versions()
    catalogued = {(row.name, row.digest) for row in rows}
    sentences = [
        f"the catalogue does not have {entry.name}/{entry.number} ({entry.digest[:12]}), which was "
        "published from this workspace"
        for entry in tracked
        if (entry.name, entry.digest) not in catalogued
        and is_published_here(registry.workspace, entry.digest)
    ]
    registrations = [
        entry for row in rows for entry in row.registrations if entry.store == registry.store
    ]
    differing = [
        entry for entry in registrations if numbers.get((entry.name, entry.number)) != entry.digest
    ]
    if differing:
        begun = {(entry.name, entry.number) for _, entry in noted_deletions(registry.workspace)}
        deleted = {(entry.name, entry.number): entry for entry in tombstones(registry)}
        for entry in differing:
            key, what = (entry.name, entry.number), f"{entry.name}/{entry.number}"
            if key in numbers:
                sentences.append(
                    f"{what} was {entry.digest[:12]} and is {numbers[key][:12]} in MLflow"
                )
            elif key not in begun:  # else `bpeline resume` completes the deletion
                sentence = f", it was {deleted[key]}" if key in deleted else ""
                sentences.append(f"MLflow has no {what} ({entry.digest[:12]}) any more{sentence}")
    for loaded in remembered_numbers(registry.place, registry.store):
        digest = numbers.get((loaded.name, loaded.number), loaded.digest)
        if digest != loaded.digest and not any(
            sentence.startswith(f"{loaded} was ") for sentence in sentences
        ):
            sentences.append(
                f"{loaded} was {loaded.digest[:12]} when it was loaded here, and is {digest[:12]}"
            )
    return sentences


def require_agreement(registry: Registry, tracked: Sequence[TrackedVersion]) -> None:
    """Raise an error if the stores disagree, before anything is removed."""
    sentences = disagreements(registry, tracked)
    if sentences:
        more = f" and {len(sentences) - _LISTED} more" if len(sentences) > _LISTED else ""
        raise StorageError(
            "removing what nothing needs is not possible while stores disagree: "
            f"{'; '.join(sentences[:_LISTED])}{more}",
            "expected the same versions in the catalogue, the files and MLflow",
            "type `bpeline doctor`, which lists the differences and what `--fix` would do",
        )


def _lacking(
    registry: Registry, kept: Sequence[Publication], tracked: Collection[TrackedVersion]
) -> list[Publication]:
    """Return published versions that MLflow has lost and whose files are kept."""
    present = {(entry.name, entry.digest) for entry in tracked}
    present |= {(entry.name, entry.digest) for _, entry in waiting_publications(registry.workspace)}
    return [
        entry
        for entry in kept
        if (entry.name, entry.digest) not in present
        and is_published_here(registry.workspace, entry.digest)
        and _ended(registry, entry, _REGISTERED)
    ]


def unregistered(registry: Registry, tracked: Collection[TrackedVersion]) -> list[Publication]:
    """Return and fetch versions in a shared store that were never registered."""
    workspace = registry.workspace
    known = {entry.digest for entry in tracked}
    known |= {entry.digest for entry in registry.catalogue.registrations()}
    known |= {entry.digest for _, entry in waiting_publications(workspace)}
    digests = names_in_store(workspace, workspace.versions) - known
    fetched = [digest for digest in digests if holds_version(workspace, digest)]
    publications = _kept_versions(registry, map(workspace.version_directory, fetched))
    return _without_deleted(
        registry, [entry for entry in publications if _ended(registry, entry, _LEFT)]
    )


def _ended(registry: Registry, one: Publication, how: Collection[str]) -> bool:
    """Whether the run of a version is in one of these states, or unknown here."""
    run = registry.catalogue.find_run(one.run_id)
    return run is None or run.state in how


def _aliases_of(
    registry: Registry, lost: Sequence[Publication], store: str
) -> Iterator[tuple[str, str, str]]:
    """Yield name, alias and digest of aliases that last pointed to these versions."""
    digests = {(publication.name, publication.digest) for publication in lost}
    for name in {publication.name for publication in lost}:
        aliases: set[str] = set()
        for move in registry.catalogue.alias_history(name, store=store):  # newest first
            # Not moves: refusals, and what MLflow showed after it lost the version.
            if move.kind in ("refusal", "seen") or move.alias in aliases:
                continue
            aliases.add(move.alias)
            if (name, move.to_digest) in digests:
                yield name, move.alias, move.to_digest


def _without_deleted(registry: Registry, kept: list[Publication]) -> list[Publication]:
    """Drop deleted versions, whose files may be kept for other versions."""
    deleted = {(entry.name, entry.digest) for entry in tombstones(registry)}
    if not deleted:
        return kept
    catalogued: set[tuple[str, str]]
    try:
        catalogued = {(entry.name, entry.digest) for entry in registry.catalogue.versions()}
    except StoreLost:
        catalogued = {(entry.name, entry.digest) for entry in registry.tracker.versions()}
    keys = deleted - catalogued  # a version that was trained again is not deleted
    return [entry for entry in kept if (entry.name, entry.digest) not in keys]


def _directories(registry: Registry) -> Iterable[Path]:
    return registry.workspace.versions.glob("?" * DIGEST_LENGTH)


def _kept_versions(registry: Registry, directories: Iterable[Path]) -> list[Publication]:
    """Return the trained versions in these directories, in the order of training."""
    publications = []
    for directory in directories:
        try:
            manifest = read_manifest(directory)
            provenance: dict[str, Any] = manifest["provenance"]
            request = provenance.get("request") or {}
            publications.append(
                Publication(
                    name=provenance["name"],
                    digest=directory.name,
                    tokenizer_directory=directory,
                    run_id=provenance["run"],
                    corpus_digest=provenance.get("corpus_digest", ""),
                    counts_digest=provenance.get("counts_digest", ""),
                    vocab_size=int(manifest["vocab_size"]),
                    pattern=str(manifest["pattern"].get("name") or manifest["pattern"]["regex"]),
                    params={key: value for key, value in request.items() if value is not None},
                    metrics=provenance.get("metrics", {}),
                    figures=tuple(sorted((directory / FIGURES).glob("*"))),
                    pages=tuple(sorted((directory / PAGES).glob("*"))),
                    created_at=_written_at(directory),
                )
            )
        except (BpelineError, OSError, KeyError, TypeError, AttributeError, ValueError):
            continue  # downloaded for loading, or not trained here
    publications = [_as_measured(registry, publication) for publication in publications]
    return sorted(
        publications, key=lambda publication: (publication.created_at, publication.digest)
    )


def _as_measured(registry: Registry, one: Publication) -> Publication:
    """Add the training order and evaluation set from the catalogue, unless it is lost."""
    with suppress(StoreLost):
        row = registry.catalogue.find_version(one.name, one.digest)
        if row is not None:
            sets = {s.digest: s.number for s in registry.catalogue.evaluation_sets(one.name)}
            one = replace(one, trained=row.trained, created_at=row.created_at)
            number = sets.get(row.measured_on, 0)
            return replace(one, evaluation_set=row.measured_on, set_number=number)
    return one


def _remember_tables(registry: Registry, kept: list[Publication]) -> None:
    corpora = {publication.counts_digest: publication.corpus_digest for publication in kept}
    runs = {publication.counts_digest: publication.run_id for publication in kept}
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
    """Update the catalogue with the versions and numbers of MLflow."""
    store, catalogue = registry.make_store() if tracked else registry.store, registry.catalogue
    present = {(version.name, version.number) for version in tracked}
    deleted = {(version.name, version.number) for version in tombstones(registry)}
    for row in catalogue.registrations(store=store):
        key = (row.name, row.number)
        if key not in present:
            catalogue.forget_registrations(store, *key)
            if key in deleted:
                catalogue.forget_version(row.name, row.digest)
    for version in tracked:
        corpus, counts = registry.tracker.runs.lineage_of(version.mlflow_run_id)
        catalogue.add_version(
            Version(
                version.name,
                version.digest,
                run_id=version.run_id,
                corpus_digest=corpus,
                counts_digest=counts,
                vocab_size=version.vocab_size,
                pattern=version.tags.get("pattern", ""),
            )
        )
        catalogue.add_registration(
            Registration(store, version.name, version.number, version.digest)
        )


def _written_at(directory: Path) -> str:
    seconds = (directory / MANIFEST).stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
