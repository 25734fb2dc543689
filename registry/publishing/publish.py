"""Publishing: in one fixed order, so that a crash leaves orphans and never a lie.

    files in the workspace → outbox record → MLflow run → registered version → alias
    → catalogue row → run finished → outbox record removed

Everything after the outbox record can be repeated any number of times. While MLflow is down the
record waits; ``bpeline resume`` delivers it. Knows the order, not how any step is done.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.publishing.registration import register_once, registered
from bpeline.registry.records import CURVE_METRIC, Publication, PublishedVersion
from bpeline.registry.tracking import ui_links
from bpeline.registry.version_files import all_files, format_files, keep_files
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, RegistryError

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Catalogue, Version
    from bpeline.registry.tracking import MlflowTracker, TrackedVersion
    from bpeline.registry.workspace import Workspace

CANDIDATE = "candidate"


def publish_version(
    workspace: Workspace,
    catalogue: Catalogue,
    tracker: MlflowTracker,
    publication: Publication,
    alias: str = CANDIDATE,
) -> PublishedVersion:
    """Register a finished tokenizer exactly once and let ``candidate`` point to it.

    A tokenizer of the same behaviour that is already registered under the name is returned, with
    ``newly_registered`` False, instead of a second version.

    Raises:
        RegistryUnreachable: MLflow does not answer. The tokenizer and its outbox record are safe
            on disk; :func:`publish_outbox` completes the publication later.
        RegistryError: MLflow refused; the same holds.
        CorruptFile: the files are not the tokenizer that the publication names.
        DiskFull: no space for the files.
    """
    kept = keep_files(workspace, publication)
    record = _record_path(workspace, kept)
    DURABLE.write(record, kept.as_json())
    try:
        return _deliver(workspace, catalogue, tracker, kept, record, alias)
    except (RegistryError, DiskFull) as error:
        raise type(error)(
            f"the tokenizer {publication.name} is finished and kept in {kept.tokenizer_directory}, "
            f"but it is not published: {error.happened}",
            error.accepted,
            f"{error.next_step}; then type `bpeline resume`, which publishes what is waiting",
        ) from error


def publish_outbox(
    workspace: Workspace, catalogue: Catalogue, tracker: MlflowTracker, alias: str = CANDIDATE
) -> list[PublishedVersion]:
    """Publish everything that waits in the outbox, oldest training first, and close its runs.

    Raises:
        RegistryUnreachable: MLflow still does not answer; what is left keeps waiting.
        CorruptFile: a record is damaged; all others have been published.
    """
    waiting: list[tuple[Publication, Path]] = []
    damaged: CorruptFile | None = None
    for path in waiting_records(workspace):
        try:
            waiting.append((Publication.from_json(path.read_bytes(), path), path))
        except CorruptFile as error:
            damaged = damaged or error
    waiting.sort(key=lambda one: (one[0].created_at, one[1].name))
    unfinished = {run.id for run in catalogue.unfinished_runs()}
    published = []
    for publication, path in waiting:
        try:
            kept = keep_files(workspace, publication)
        except (CorruptFile, FileNotFoundError) as error:
            damaged = damaged or _without_files(publication, path, error)
            continue
        published.append(_deliver(workspace, catalogue, tracker, kept, path, alias, unfinished))
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
    for path in waiting_records(workspace):
        try:
            if Publication.from_json(path.read_bytes(), path).run_id == run_id:
                return True
        except (CorruptFile, FileNotFoundError):
            continue
    return False


def _deliver(
    workspace: Workspace,
    catalogue: Catalogue,
    tracker: MlflowTracker,
    publication: Publication,
    record: Path,
    alias: str,
    unfinished: Container[str] = (),
) -> PublishedVersion:
    """Everything after the outbox record; safe to repeat from the beginning.

    A run among the ``unfinished`` ends here, while the record still says what is to be done.
    """
    name, digest = publication.name, publication.digest
    directory = publication.tokenizer_directory
    version = registered(tracker, publication)
    if version is None:
        run = tracker.record_run(publication, all_files(directory))
        with workspace.temporary_directory("model") as staging:
            version = register_once(tracker, publication, run, format_files(directory), staging)
    tracker.move_alias(name, alias, version.number)
    row = _remember(catalogue, publication, version)
    catalogue.set_alias(name, alias, row.number, by="bpeline", reason="published")
    if publication.run_id in unfinished:
        catalogue.finish_run(publication.run_id)
    DURABLE.remove(record)
    return PublishedVersion(
        name=name,
        number=row.number,
        digest=digest,
        # Not whether this call made it: a call that was cut short may have.
        newly_registered=version.run_id == publication.run_id,
        run_id=publication.run_id,
        mlflow_run_id=version.mlflow_run_id,
        directory=directory,
        link=ui_links.model_link(tracker.settings.ui, name, version.number),
        ui_command=tracker.settings.ui_command,
    )


def _remember(catalogue: Catalogue, publication: Publication, version: TrackedVersion) -> Version:
    """The catalogue row, whose UNIQUE (name, digest) has the last word, and its metrics."""
    row = catalogue.add_version(
        publication.name,
        publication.digest,
        run_id=version.run_id,
        corpus_digest=version.tags.get("corpus_digest", ""),
        counts_digest=version.tags.get("counts_digest", ""),
        vocab_size=publication.vocab_size,
        pattern=publication.pattern,
        number=version.number,
        mlflow_run_id=version.mlflow_run_id,
        mlflow_version=str(version.number),
    )
    # A version that an earlier run made keeps what was measured then.
    if version.run_id == publication.run_id or not catalogue.metrics(row.name, row.number):
        for key, curve in {**publication.curves, CURVE_METRIC: publication.curve}.items():
            catalogue.add_curve(row.name, row.number, key, curve)
        catalogue.add_metrics(
            row.name, row.number, publication.metrics, step=publication.vocab_size
        )
    return row


def _record_path(workspace: Workspace, publication: Publication) -> Path:
    return workspace.outbox_record(f"{publication.name}.{publication.digest}")


def _without_files(publication: Publication, record: Path, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"{publication.name} ({publication.digest[:12]}) waits to be published, but its files "
        f"cannot be read: {error}",
        "accepted are the files as they were when training ended",
        f"train it again, then remove {record}",
    )
