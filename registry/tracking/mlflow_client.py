"""The MLflow client, imported and connected on first use.

It passes its tracking URI explicitly, so that a process that uses MLflow for other things keeps
its own settings.
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
from bpeline.registry.tracking.tracked import TrackingSettings, is_server
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.urls import sqlite_url

if TYPE_CHECKING:
    from mlflow import MlflowClient


class Connection:
    """A lazy connection to one MLflow."""

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings
        database_path = mlflow_database.database_of(settings.uri)
        # Resolve links: SQLite keeps the journal next to the real file.
        self.database: Path | None = (
            None if database_path is None else Path(os.path.realpath(database_path))
        )

    @property
    def is_open(self) -> bool:
        """Whether MLflow is imported and connected."""
        return "client" in self.__dict__

    @cached_property
    def client(self) -> MlflowClient:
        """MLflow's client; creates or upgrades a SQLite database first if needed."""
        uri, path = self.settings.uri, self.database
        if path is not None and not DURABLE.is_changeable(path):
            uri = sqlite_url(path, "ro")
        elif path is not None:
            mlflow_database.prepare(path, self.open, ui_is_served=self.settings.ui_is_served)
        elif not is_server(uri):  # fail fast: MLflow retries for minutes, even on a wrong password
            import sqlalchemy

            with sqlalchemy.create_engine(uri).connect():
                pass
        return self.open(uri)

    def open(self, uri: str) -> MlflowClient:
        """Open a client and send it a first request, which creates missing tables."""
        prepare_mlflow(self.settings.timeout_seconds, self.settings.retries)
        # These log every migration, and errors that are raised anyway.
        for name, level in (
            ("mlflow.store.db.utils", logging.CRITICAL),
            ("alembic", logging.ERROR),
        ):
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(level)
        # Warnings of MLflow's dependencies that the user cannot act on.
        warnings.filterwarnings("ignore", message="IProgress not found")
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
        """Return MLflow's artifact store at a location."""
        # MLflow's client cannot delete artifacts.
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        if not location:
            raise unshown(self.settings.place, "where its files are")
        return get_artifact_repository(location, tracking_uri=self.settings.uri)


def all_pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all items of a paged listing; ``ask`` maps a page token to a page."""
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return
