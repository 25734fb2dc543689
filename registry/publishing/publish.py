"""Publishing: in one fixed order, so that a crash leaves orphans and never a lie.

    files in the workspace → outbox record → catalogue row → MLflow run → registered version
    → alias → run finished → outbox record removed

Everything after the outbox record can be repeated any number of times. While MLflow is down the
record waits; ``bpeline resume`` delivers it. Knows the order, not how any step is done.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
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
from bpeline.registry.publishing.registration import register_once, registered
from bpeline.registry.records import (
    CANDIDATE,
    CURVE_METRIC,
    MEASURED_ON,
    Publication,
    PublishedVersion,
    refusals_in,
    validate_alias,
)
from bpeline.registry.tracking import ui_links
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import CorruptFile, RegistryError, StorageError, UnknownVersion

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.tracking import TrackedVersion
    from bpeline.registry.workspace import Workspace

_ATTEMPTS = 5  # at moving it while publishers with another catalogue do


def publish_version(
    registry: Registry, publication: Publication, alias: str = CANDIDATE
) -> PublishedVersion:
    """Register a finished tokenizer exactly once and let ``candidate`` point to it.

    A tokenizer of the same behaviour that is already registered under the name is returned, with
    ``newly_registered`` False, instead of a second version.

    Raises:
        RegistryUnreachable: MLflow does not answer. The tokenizer and its outbox record are safe
            on disk; :func:`publish_outbox` completes the publication later.
        RegistryError, StorageError: MLflow refused, or a store that was here is lost; the same
            holds.
        CorruptFile: the files are not the tokenizer that the publication names.
        DiskFull: no space for the files.
    """
    checks.instance("registry", registry, "Registry")
    checks.instance("publication", publication, Publication)
    validate_alias(alias)
    kept = keep_files(registry.workspace, publication)
    keep_in_outbox(registry.workspace, kept)
    try:
        remember_version(registry, kept)
        # In the order in which trainings end, whenever they are delivered.
        kept = replace(kept, trained=registry.catalogue.training_ended(kept.name, kept.digest))
        return _deliver(registry, kept, keep_in_outbox(registry.workspace, kept), alias)
    except (RegistryError, StorageError) as error:
        raise type(error)(
            f"the tokenizer {publication.name} is finished and kept in {kept.tokenizer_directory}, "
            f"but it is not published: {error.happened}",
            error.accepted,
            f"{error.next_step}; then type `bpeline resume`, which publishes what is waiting",
        ) from error


def keep_in_outbox(workspace: Workspace, publication: Publication) -> Path:
    """Let a publication wait until it is delivered, by us or by `bpeline resume`; its record."""
    record = workspace.outbox_record(f"{publication.name}.{publication.digest}")
    DURABLE.write(record, publication.as_json(workspace.root))
    return record


def publish_outbox(registry: Registry, alias: str = CANDIDATE) -> list[PublishedVersion]:
    """Publish everything that waits in the outbox, oldest training first, and close its runs.

    Raises:
        RegistryUnreachable: MLflow still does not answer; what is left keeps waiting.
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
    # One that was cut short before it got its place comes last; clocks decide among these alone.
    waiting.sort(key=lambda one: (one[0].trained == 0, one[0].trained, one[0].created_at))
    unfinished = {run.id for run in registry.catalogue.unfinished_runs()}
    published = []
    for publication, path in waiting:
        try:
            kept = keep_files(registry.workspace, publication)
        except (CorruptFile, FileNotFoundError) as error:
            damaged = damaged or _without_files(publication, path, error)
            continue
        published.append(_deliver(registry, kept, path, alias, unfinished))
    if damaged is not None:
        raise damaged
    return published


def waiting_records(workspace: Workspace) -> list[Path]:
    """The outbox records of publications that have not been completed."""
    outbox = Path(workspace.outbox)
    if not outbox.is_dir():
        return []
    return sorted(path for path in outbox.glob("*.json") if not is_temporary(path))


def waits_in_outbox(workspace: Workspace, run_id: str) -> bool:
    """Whether a run's tokenizer is finished and only its publication is missing."""
    return any(one.run_id == run_id for _, one in waiting_publications(workspace))


def waiting_publications(workspace: Workspace) -> Iterator[tuple[Path, Publication]]:
    """What waits in the outbox, each with its record; damaged records are left out."""
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
    """Everything after the outbox record; safe to repeat from the beginning.

    A run among the ``unfinished`` ends here, while the record still says what is to be done.
    """
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
    # Not whether this call made it: a call that was cut short may have.
    new = version.run_id == publication.run_id
    move = _let_alias_point(registry, publication, alias, version.number, new)
    _describe_name(registry, publication)
    if publication.run_id in unfinished:
        registry.catalogue.end_run(publication.run_id, "finished")
    DURABLE.remove(record)
    with suppress(RegistryError):  # who reads next asks MLflow instead
        tracker.keep_snapshot()
    remarks = []
    if not new:
        remarks.append(f"nothing new since {name}/{version.number}: the same tokenizer")
    if move.to_number != version.number:
        later = "a later training" if new else "a later version"
        remarks.append(f"{name}@{alias} stays at {name}/{move.to_number}, {later}")
    with suppress(RegistryError):  # it is published, whatever MLflow answers now
        remarks += [
            f"{name}/{version.number} is the tokenizer that was {one.reference}, {one}"
            for one in tracker.tombstones(name)
            if one.digest == digest and one.number < version.number
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
        link=ui_links.model_link(tracker.settings.ui, name, version.number),
        ui_command=tracker.settings.ui_command,
        remarks=tuple(remarks),
    )


def _loadable(directory: Path) -> tuple[list[Path], dict[str, Any]]:
    """The files by which ``mlflow.pyfunc`` loads a version, and what it has to know of them.

    ``tokenizer.json`` is among them where `tokenizers` was found to read it alike: it serves where
    bpeline is not installed.
    """
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
    """Let the files here find the special tokens by default that the registered version finds.

    The digest says nothing of it: the version may have been trained, and its export imported here.
    """
    from bpeline.tokenizer_core.formats import bpeline

    if not bpeline.read_manifest(directory)["special_tokens"]:
        return
    fetch = registry.tracker.models.download_version
    with registry.workspace.temporary_directory("manifest") as aside, suppress(UnknownVersion):
        fetch(version.name, version.number, (MANIFEST,), aside)
        bpeline.keep_allowed_special(directory, bpeline.allowed_special_of(aside))


def _describe_name(registry: Registry, publication: Publication) -> None:
    """Say on the page of the name on what its versions are measured: a courtesy."""
    named = registry.catalogue.evaluation_set(publication.name)
    if named is not None and named.digest == publication.evaluation_set:
        said = publication.tags.get(MEASURED_ON, f"evaluation set {named.digest[:8]}")
        with suppress(RegistryError):
            registry.tracker.describe_name(publication.name, said)


def _let_alias_point(
    registry: Registry, publication: Publication, alias: str, number: int, new: bool
) -> AliasMove:
    """Unless it points to a later one; judged again when another catalogue moved it."""
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
    """The catalogue row, whose UNIQUE (name, digest) has the last word, and its metrics.

    A version that an earlier run made keeps its lineage and what was measured then.
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
        "accepted are the files as they were when training ended",
        "type the training again: it finds what it has learned, writes the files and publishes",
    )
