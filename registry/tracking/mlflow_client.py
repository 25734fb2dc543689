"""The client of one MLflow, imported and connected when it is first needed.

It names its tracking URI itself, so a process that also uses MLflow for other things keeps its
settings. ``mlflow_model.py`` imports MLflow too, but is run by MLflow, never by us.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.environment import prepare_mlflow
from bpeline.registry.tracking import mlflow_database
from bpeline.registry.tracking.mlflow_errors import unshown
from bpeline.registry.tracking.tracked import TrackingSettings
from bpeline.registry.tracking.ui_links import is_server
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.urls import sqlite_url

if TYPE_CHECKING:
    from mlflow import MlflowClient


class Connection:
    """A client of one MLflow.

    Attributes:
        settings: where it is.
        database: its file, where it is a SQLite file.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings
        named = mlflow_database.database_of(settings.uri)
        # Not a link to it: SQLite keeps the journal beside the file itself.
        self.database: Path | None = None if named is None else Path(os.path.realpath(named))

    @property
    def is_open(self) -> bool:
        """Whether MLflow is imported and connected."""
        return "client" in self.__dict__

    @cached_property
    def client(self) -> MlflowClient:
        """MLflow's client. A database that is a SQLite file is made or upgraded if need be."""
        uri, path = self.settings.uri, self.database
        if path is not None and not DURABLE.is_changeable(path):
            uri = sqlite_url(path, "ro")
        elif path is not None:
            mlflow_database.prepare(path, self.open, ui_is_served=self.settings.ui_is_served)
        elif not is_server(uri):  # MLflow tries for minutes, even where a password is wrong
            import sqlalchemy

            with sqlalchemy.create_engine(uri).connect():
                pass
        return self.open(uri)

    def open(self, uri: str) -> MlflowClient:
        """A client that has asked its store something: a database has its tables then."""
        prepare_mlflow(self.settings.timeout_seconds, self.settings.retries)
        # They tell of every migration, and of errors that are raised, too.
        for name, level in (
            ("mlflow.store.db.utils", logging.CRITICAL),
            ("alembic", logging.ERROR),
        ):
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(level)
        # In a notebook, the bars of a library of MLflow's miss widgets; it has none to show there.
        warnings.filterwarnings("ignore", message="IProgress not found")
        # Importing MLflow's models warns about a type hint of its own.
        warnings.filterwarnings(
            "ignore", message=".*Any type hint is inferred as AnyType", category=UserWarning
        )
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        if self.database is not None:
            client.search_registered_models(max_results=1)
            client.search_experiments(max_results=1)
        return client

    def artifacts_at(self, location: str) -> Any:
        """MLflow's store of the artifacts that lie at an address.

        Not the client's: after an answer without an address it would write to the current
        directory, and it has no means to delete artifacts.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        if not location:
            raise unshown(self.settings.place, "where its files are")
        return get_artifact_repository(location, tracking_uri=self.settings.uri)


def all_pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """All of a listing: ``ask`` gets the token of a page, and gives that page."""
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return
