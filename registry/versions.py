"""Questions about registered versions, and what may be done with them.

List, compare, promote, export. Knows the registry as a whole; prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from registry.load import load_tokenizer, load_version
from registry.opening import Registry, open_registry
from registry.references import (
    ByAlias,
    ByDigest,
    ByNumber,
    ByPath,
    parse_reference,
    validate_alias,
    validate_name,
)
from registry.resolution import ResolvedVersion, resolve
from tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.catalogue_records import Metric
    from registry.workspace import Workspace
    from tokenizer_core.tokenizer import Format

    WorkspacePlace = Workspace | Path | str | None


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """One line of a list of versions.

    Attributes:
        name, number, digest: which version.
        aliases: the aliases that point to it, as far as the catalogue knows.
        vocab_size, pattern: what it is.
        created_at: UTC, ISO 8601.
        run_id: the run that made it.
        mlflow_run_id: the same in MLflow.
        metrics: its measured values, without curves.
    """

    name: str
    number: int
    digest: str
    aliases: tuple[str, ...]
    vocab_size: int
    pattern: str
    created_at: str
    run_id: str
    mlflow_run_id: str
    metrics: dict[str, float]

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric of two versions; None where a version does not have it."""

    key: str
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        """Second minus first, when both exist."""
        if self.first is None or self.second is None:
            return None
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Two versions side by side.

    Attributes:
        first, second: the versions (``news/3``).
        metrics: every metric either has, sorted by name.
        tokens_added: tokens only the second one has.
        tokens_removed: tokens only the first one has.
        tokens_shared: tokens both have.
        ids_changed: shared tokens with another id.
    """

    first: str
    second: str
    metrics: tuple[MetricPair, ...]
    tokens_added: int
    tokens_removed: int
    tokens_shared: int
    ids_changed: int


def list_versions(name: str | None = None, workspace: WorkspacePlace = None) -> list[ListedVersion]:
    """Every version the catalogue knows, by name and number; asks MLflow nothing.

    Args:
        name: only this tokenizer's.
        workspace: see :func:`registry.load_tokenizer`.

    Raises:
        StorageError: there is no workspace; none is made.
    """
    if name is not None:
        validate_name(name)
    catalogue = open_registry(workspace, make=False).catalogue
    aliases = {one: catalogue.aliases(one) for one in catalogue.names()}
    return [
        ListedVersion(
            name=row.name,
            number=row.number,
            digest=row.digest,
            aliases=tuple(
                sorted(
                    alias
                    for alias, number in aliases.get(row.name, {}).items()
                    if number == row.number
                )
            ),
            vocab_size=row.vocab_size,
            pattern=row.pattern,
            created_at=row.created_at,
            run_id=row.run_id,
            mlflow_run_id=row.mlflow_run_id,
            metrics=_last_values(catalogue.metrics(row.name, row.number)),
        )
        for row in sorted(catalogue.versions(name), key=lambda row: (row.name, row.number))
    ]


def compare_versions(
    first: str, second: str, workspace: WorkspacePlace = None
) -> VersionComparison:
    """Compare two registered versions: metrics side by side, and what their vocabs share.

    Metrics say which is better only where both were measured on the same documents.

    Raises:
        UnknownVersion: one of them does not exist.
    """
    registry = open_registry(workspace)
    versions = [resolve(registry, _registered(one)) for one in (first, second)]
    vocabs = [load_version(registry, one).vocab for one in versions]
    metrics = [_metrics_of(registry, one) for one in versions]
    ids = [{token: number for number, token in vocab.items()} for vocab in vocabs]
    shared = ids[0].keys() & ids[1].keys()
    return VersionComparison(
        first=str(versions[0]),
        second=str(versions[1]),
        metrics=tuple(
            MetricPair(key, metrics[0].get(key), metrics[1].get(key))
            for key in sorted(metrics[0].keys() | metrics[1].keys())
        ),
        tokens_added=len(ids[1]) - len(shared),
        tokens_removed=len(ids[0]) - len(shared),
        tokens_shared=len(shared),
        ids_changed=sum(ids[0][token] != ids[1][token] for token in shared),
    )


def promote(
    reference: str,
    alias: str = "champion",
    by: str = "",
    reason: str = "",
    workspace: WorkspacePlace = None,
) -> ResolvedVersion:
    """Let an alias point to a version: in MLflow first, then in the catalogue's history.

    Args:
        reference: the version (``news@candidate``, ``news/3``, a digest).
        alias: the alias to move.
        by: who decided, for the history.
        reason: why, for the history.
        workspace: see :func:`registry.load_tokenizer`.

    Raises:
        UnknownVersion: there is no such version.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    validate_alias(alias)
    registry = open_registry(workspace)
    version = resolve(registry, _registered(reference))
    if not version.mlflow_number:
        raise InvalidOption(
            f"{reference} is not registered in MLflow",
            "accepted are published versions",
            "type `bpeline resume` to publish what is waiting",
        )
    registry.tracker.move_alias(version.name, alias, version.mlflow_number)
    row = registry.catalogue.add_version(
        version.name,
        version.digest,
        number=version.number,
        mlflow_run_id=version.mlflow_run_id,
        mlflow_version=str(version.mlflow_number),
    )
    registry.catalogue.set_alias(version.name, alias, row.number, by=by, reason=reason)
    return version


def export(
    reference: str | Path, path: Path | str, format: Format, workspace: WorkspacePlace = None
) -> Path:
    """Write a version in another format.

    Args:
        reference: as for :func:`registry.load_tokenizer`.
        path: the file or directory to write.
        format: ``hf``, ``gpt2``, ``tiktoken`` or ``bpeline``.
        workspace: see :func:`registry.load_tokenizer`.

    Returns:
        ``path``.

    Raises:
        InvalidOption: an unknown format.
        InvalidTokenizer: the format cannot express this tokenizer.
    """
    load_tokenizer(reference, workspace).save(Path(path), format=format)
    return Path(path)


def _registered(text: str) -> ByAlias | ByNumber | ByDigest:
    parsed = parse_reference(text)
    if isinstance(parsed, ByPath):
        raise InvalidOption(
            f"{text} is a path, not a registered version",
            "accepted are name@alias, name/number or a digest",
            "type `bpeline versions` to see what is registered",
        )
    return parsed


def _metrics_of(registry: Registry, version: ResolvedVersion) -> dict[str, float]:
    row = registry.catalogue.find_version(version.name, version.digest)
    known = registry.catalogue.metrics(row.name, row.number) if row else []
    if known or not version.mlflow_run_id:
        return _last_values(known)
    return registry.tracker.metrics_of(version.mlflow_run_id)


def _last_values(metrics: Iterable[Metric]) -> dict[str, float]:
    """Of every curve its last point."""
    return {one.key: one.value for one in sorted(metrics, key=lambda one: one.step)}
