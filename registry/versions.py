"""Questions about registered versions; `registry.aliases` moves aliases. Prints nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.catalogue import last_values
from bpeline.registry.opening import open_registry
from bpeline.registry.references import validate_name

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace

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
            metrics=last_values(catalogue.metrics(row.name, row.number)),
        )
        for row in sorted(catalogue.versions(name), key=lambda row: (row.name, row.number))
    ]
