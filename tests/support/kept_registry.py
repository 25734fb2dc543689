"""A registry that is filled once and put back as it was before each test: publishing takes seconds.

Its directories keep their names, for MLflow remembers where its artifacts lie.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_tables import copy_database
from small_publications import publication_of

from bpeline.registry import environment, promote, publish_version
from bpeline.registry.opening import Registry, open_registry


class KeptRegistry:
    """A workspace and an MLflow database beside it.

    Args:
        root: a directory of its own.
        empty_mlflow: a database with MLflow's tables.
        fill: what is done once in the empty registry.

    Attributes:
        home: the workspace. mlflow_uri: of the database.
        filled: what ``fill`` returned.
    """

    def __init__(self, root: Path, empty_mlflow: Path, fill: Callable[[Registry], Any]) -> None:
        self._root = root
        self.home = root / "home"
        self.mlflow_uri = f"sqlite:///{root / 'mlflow.sqlite'}"
        copy_database(empty_mlflow, root / "mlflow.sqlite")
        environment._configured = None
        environment.configure(workspace=self.home, tracking_uri=self.mlflow_uri)
        self.filled = fill(open_registry())
        environment._configured = None
        shutil.copytree(self.home, root / "kept")
        copy_database(root / "mlflow.sqlite", root / "kept.sqlite")

    def put_back(self) -> None:
        """Everything as it was when it had been filled."""
        shutil.rmtree(self.home)
        shutil.copytree(self._root / "kept", self.home)
        copy_database(self._root / "kept.sqlite", self._root / "mlflow.sqlite")


def with_two_versions(root: Path, empty_mlflow: Path) -> KeptRegistry:
    """news/1 and news/2; champion is 1, candidate 2. Their digests are what was filled in."""

    def fill(registry: Registry) -> list[str]:
        digests = []
        for word in (b"the", b"and"):
            publication = publication_of(root / "made", word)
            publish_version(registry, publication)
            digests.append(publication.digest)
        promote("news/1", by="a person", reason="better on held-out text")
        return digests

    return KeptRegistry(root, empty_mlflow, fill)
