"""Publish versions in a fixed order, so that a crash can be resumed.

    files in the workspace → outbox record → catalogue row → MLflow run → registered version
    → alias → run finished → outbox record removed

Every step after the outbox record can be repeated. While MLflow is down the record waits;
``bpeline resume`` delivers it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.aliases import AliasMovedMeanwhile, move_alias
from bpeline.registry.catalogue import AliasMove, Registration, Version
from bpeline.registry.certify import certificates_in
from bpeline.registry.loading import (
    FOR_READERS,
    MANIFEST,
    all_files,
    format_files,
    keep_files,
    kept_export,
    load_verified,
)
from bpeline.registry.records import (
    CANDIDATE,
    CURVE_METRIC,
    MEASURED_ON,
    Publication,
    PublishedVersion,
    refusals_in,
    validate_alias,
)
from bpeline.registry.tracking import model_link
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    RegistryError,
    RegistryUnreachable,
    StorageError,
    UnknownVersion,
)

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.tracking import MlflowTracker, TrackedVersion
    from bpeline.registry.workspace import Workspace
_ATTEMPTS = 5  # to move the alias while publishers with another catalogue move it


def publish_version(
    registry: Registry, publication: Publication, alias: str = CANDIDATE
) -> PublishedVersion:
    """Register a finished tokenizer exactly once and move ``candidate`` to it.

    If the name already has a version with the same digest, that version is returned with
    ``newly_registered=False``.

    Raises:
        RegistryUnreachable: MLflow does not answer. Files and outbox record are on disk;
            :func:`publish_outbox` completes the publication later.
        RegistryError, StorageError: MLflow refused, or a known store is lost. Files and record are
            on disk, too.
        CorruptFile: the files do not have the digest of the publication.
        DiskFull: no space for the files.
    """
    checks.instance("registry", registry, "Registry")
    checks.instance("publication", publication, Publication)
    validate_alias(alias)
    stored = keep_files(registry.workspace, publication)
    keep_in_outbox(registry.workspace, stored)
    try:
        remember_version(registry, stored)
        # Numbered when the training ends, so the order survives late delivery.
        stored = replace(
            stored, trained=registry.catalogue.training_ended(stored.name, stored.digest)
        )
        return _deliver(registry, stored, keep_in_outbox(registry.workspace, stored), alias)
    except (RegistryError, StorageError) as error:
        raise type(error)(
            f"the tokenizer {publication.name} is finished and kept in "
            f"{stored.tokenizer_directory}, but it is not published: {error.happened}",
            error.accepted,
            f"{error.next_step}; then type `bpeline resume` to publish it",
        ) from error


def keep_in_outbox(workspace: Workspace, publication: Publication) -> Path:
    """Write the outbox record of a publication and return its path."""
    record = workspace.outbox_record(f"{publication.name}.{publication.digest}")
    DURABLE.write(record, publication.as_json(workspace.root))
    return record


def publish_outbox(registry: Registry, alias: str = CANDIDATE) -> list[PublishedVersion]:
    """Publish everything in the outbox, oldest training first, and end its runs.

    Raises:
        RegistryUnreachable: MLflow does not answer; the rest stays in the outbox.
        CorruptFile: a record is damaged; all others have been published.
    """
    checks.instance("registry", registry, "Registry")
    validate_alias(alias)
    waiting: list[tuple[Publication, Path]] = []
    damaged: CorruptFile | None = None
    for path in waiting_records(registry.workspace):
        try:
            waiting.append((Publication.of_file(path), path))
        except CorruptFile as error:
            damaged = damaged or error
    # Records without a training number (interrupted early) come last, ordered by time.
    waiting.sort(key=lambda one: (one[0].trained == 0, one[0].trained, one[0].created_at))
    unfinished = {run.id for run in registry.catalogue.unfinished_runs()}
    published = []
    for publication, path in waiting:
        try:
            stored = keep_files(registry.workspace, publication)
        except (CorruptFile, FileNotFoundError) as error:
            damaged = damaged or _without_files(publication, path, error)
            continue
        published.append(_deliver(registry, stored, path, alias, unfinished))
    if damaged is not None:
        raise damaged
    return published


def waiting_records(workspace: Workspace) -> list[Path]:
    """Return the paths of the outbox records."""
    outbox = Path(workspace.outbox)
    if not outbox.is_dir():
        return []
    return sorted(path for path in outbox.glob("*.json") if not is_temporary(path))


def waits_in_outbox(workspace: Workspace, run_id: str) -> bool:
    """Whether a run is finished except for its publication."""
    return any(publication.run_id == run_id for _, publication in waiting_publications(workspace))


def waiting_publications(workspace: Workspace) -> Iterator[tuple[Path, Publication]]:
    """Yield outbox records and their publications; skips damaged records."""
    for path in waiting_records(workspace):
        with suppress(CorruptFile, FileNotFoundError):
            yield path, Publication.of_file(path)


def _deliver(
    registry: Registry,
    publication: Publication,
    record: Path,
    alias: str,
    unfinished: Container[str] = (),
) -> PublishedVersion:
    """Do every step after the outbox record; can be repeated from the start."""
    name, digest, tracker = publication.name, publication.digest, registry.tracker
    directory = publication.tokenizer_directory
    store = registry.make_store()
    version = registered(tracker, publication)
    if version is None:
        run = tracker.runs.record_run(publication, all_files(directory))
        with (
            registry.workspace.temporary_directory("model") as staging,
            DURABLE.passing(staging),
        ):
            files, config = _loadable(directory)
            version = register_once(tracker, publication, run, files, config, staging)
    elif version.run_id != publication.run_id and refusals_in(version.tags):
        tracker.runs.withdraw_run(name, publication.run_id)
    else:
        tracker.runs.record_run(publication, (), version)
    if version.run_id != publication.run_id:
        _keep_registered_default(registry, version, directory)
    remember_version(registry, publication, version)
    before = registry.catalogue.add_registration(Registration(store, name, version.number, digest))
    # True also if an earlier, interrupted call registered it.
    new = version.run_id == publication.run_id
    move = _let_alias_point(registry, publication, alias, version.number, new)
    _describe_name(registry, publication)
    if publication.run_id in unfinished:
        registry.catalogue.end_run(publication.run_id, "finished")
    DURABLE.remove(record)
    with suppress(RegistryError):  # else the next reader asks MLflow
        tracker.keep_snapshot()
    remarks = []
    if not new:
        remarks.append(f"nothing new since {name}/{version.number}: the same tokenizer")
    if move.to_number != version.number:
        later = "a later training" if new else "a later version"
        remarks.append(f"{name}@{alias} stays at {name}/{move.to_number}, {later}")
    with suppress(RegistryError):  # it is published anyway
        remarks += [
            f"{name}/{version.number} is the tokenizer that was {tombstone.reference}, {tombstone}"
            for tombstone in tracker.tombstones(name)
            if tombstone.digest == digest and tombstone.number < version.number
        ]
    if before:
        remarks.append(
            f"{name}/{version.number} was the tokenizer {before[:12]} before: was MLflow "
            f"restored from a backup?"
        )
    return PublishedVersion(
        name=name,
        number=version.number,
        digest=digest,
        newly_registered=new,
        candidate=move.to_number == version.number,
        run_id=publication.run_id,
        mlflow_run_id=version.mlflow_run_id,
        directory=directory,
        link=model_link(tracker.settings.ui, name, version.number),
        ui_command=tracker.settings.ui_command,
        remarks=tuple(remarks),
    )


def registered(tracker: MlflowTracker, publication: Publication) -> TrackedVersion | None:
    """Return the version that already has this tokenizer, or None.

    If one run created several, the lowest number stays and the others are removed.
    """
    versions = tracker.find_versions(publication.name, publication.digest)
    aliases = tracker.aliases(publication.name) if versions[1:] else {}
    aliased = set(aliases.get(publication.name, {}).values())
    for younger in versions[1:]:
        # Other publishers remove their own; a number with an alias is in use.
        if younger.run_id == publication.run_id and younger.number not in aliased:
            tracker.withdraw_version(younger.name, younger.number)
    return versions[0] if versions else None


def register_once(
    tracker: MlflowTracker,
    publication: Publication,
    run: Any,
    files: Sequence[Path],
    config: Mapping[str, Any],
    staging: Path,
) -> TrackedVersion:
    """Register a tokenizer, or return the version that already has it.

    Args:
        files, config: as of `Models.log_model`.
        staging: an empty directory for the loadable model.

    Raises:
        RegistryUnreachable: MLflow stopped answering, and the version may exist. The next call
            checks.
    """
    version = registered(tracker, publication)
    if version is not None:
        return version
    failure: Exception | None = None
    try:
        tracker.models.ensure_registered_model(publication.name)
        model = tracker.models.log_model(publication, run, files, config, staging)
        tracker.models.create_version(publication, run, model)
    except Exception as error:  # only the reply may be lost
        failure = error
    version = registered(tracker, publication)
    if version is None:
        raise failure or RegistryUnreachable(
            f"MLflow at {tracker.settings.place} does not show the version it has just created",
            "expected a server whose writes can be read back",
            "type `bpeline resume` to publish it again",
        )
    return version


def _loadable(directory: Path) -> tuple[list[Path], dict[str, Any]]:
    """The files that ``mlflow.pyfunc`` loads a version from, and its config."""
    export, certificate = kept_export(directory, "hf"), certificates_in(directory).get("hf")
    certified = certificate is not None and not (certificate.difference or certificate.not_checked)
    reader = certificate.version if export and certificate and certified else ""
    shown = [directory / name for name in FOR_READERS if (directory / name).exists()]
    files = [*dict.fromkeys((*format_files(directory), *shown))]
    files += [export] if export and reader else []
    spec = load_verified(directory).spec
    segmenter = spec.pattern.segmenter
    packages = ["bpeline", *(segmenter.packages if segmenter else ())]
    config = {"tokenizers": reader, "packages": packages, "allowed_special": spec.allowed_special}
    return files, config


def _keep_registered_default(registry: Registry, version: TrackedVersion, directory: Path) -> None:
    """Copy the registered default of allowed special tokens: not in the digest."""
    from bpeline.tokenizer_core.formats import bpeline

    if not bpeline.read_manifest(directory)["special_tokens"]:
        return
    fetch = registry.tracker.models.download_version
    with registry.workspace.temporary_directory("manifest") as aside, suppress(UnknownVersion):
        fetch(version.name, version.number, (MANIFEST,), aside)
        bpeline.keep_allowed_special(directory, bpeline.allowed_special_of(aside))


def _describe_name(registry: Registry, publication: Publication) -> None:
    """Describe on the MLflow page of the name what its versions are measured on."""
    evaluation_set = registry.catalogue.evaluation_set(publication.name)
    if evaluation_set is not None and evaluation_set.digest == publication.evaluation_set:
        description = publication.tags.get(
            MEASURED_ON, f"evaluation set {evaluation_set.digest[:8]}"
        )
        with suppress(RegistryError):
            registry.tracker.describe_name(publication.name, description)


def _let_alias_point(
    registry: Registry, publication: Publication, alias: str, number: int, new: bool
) -> AliasMove:
    """Move the alias unless it points to a later version; retry after other moves."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return move_alias(
                registry, publication.name, alias, number, publication.digest,
                kind="publish", by="bpeline", reason="published",
                trained=publication.trained, trained_at=publication.created_at,
                registered_before=not new,
            )  # fmt: skip
        except AliasMovedMeanwhile:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def remember_version(
    registry: Registry, publication: Publication, version: TrackedVersion | None = None
) -> None:
    """Add the catalogue row, unique by name and digest, and its metrics.

    A version made by an earlier run keeps its lineage and metrics.
    """
    name, digest, catalogue = publication.name, publication.digest, registry.catalogue
    own = version is None or version.run_id == publication.run_id
    run_id = publication.run_id
    corpus, counts = publication.corpus_digest, publication.counts_digest
    if version is not None and not own:
        corpus, counts = registry.tracker.runs.lineage_of(version.mlflow_run_id)
        run_id = version.run_id
    row = catalogue.add_version(
        Version(
            name,
            digest,
            run_id=run_id,
            corpus_digest=corpus,
            counts_digest=counts,
            vocab_size=publication.vocab_size,
            pattern=publication.pattern,
        )
    )
    if row.run_id == publication.run_id or not row.metrics:
        catalogue.add_metrics(
            name,
            digest,
            publication.metrics,
            step=publication.vocab_size,
            curves={**publication.curves, CURVE_METRIC: publication.curve},
            measured_on=publication.evaluation_set,
        )


def _without_files(publication: Publication, record: Path, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"{publication.name} ({publication.digest[:12]}) waits to be published, but its files "
        f"cannot be read: {error}",
        "expected the files as they were when training ended",
        "type the training again: it reuses its checkpoints, writes the files and publishes",
    )
