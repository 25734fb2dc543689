"""The client of one MLflow: imported and connected when it is first needed, its errors as ours.

Every call names its tracking URI through a client of its own, so a process that also uses MLflow
for other things keeps its settings. ``mlflow_model.py`` imports MLflow too, but is run by MLflow,
never by us.
"""

from __future__ import annotations

import logging
import os
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.environment import prepare_mlflow
from bpeline.registry.tracking import mlflow_database
from bpeline.registry.tracking.mlflow_errors import unshown
from bpeline.registry.tracking.tracked import TrackingSettings
from bpeline.registry.tracking.ui_links import is_server
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.urls import sqlite_url

if TYPE_CHECKING:
    from mlflow import MlflowClient

OUT_OF_DATE = "another MLflow made it"
# What MLflow says of a database that has other tables, opened to be read alone.
_ADDS_DEFAULT = "INSERT INTO experiments"
_OUTDATED = ("out-of-date database schema", "readonly database")


class Connection:
    """A client of one MLflow.

    Args:
        settings: where it is.

    Attributes:
        settings: the same.
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
        """MLflow's client. A database that is a SQLite file is made or upgraded if need be.

        Raises:
            StorageError: it cannot be; nothing was changed.
        """
        uri, path = self.settings.uri, self.database
        if path is None:
            if not is_server(uri):  # MLflow tries for minutes, even where a password is wrong
                import sqlalchemy

                with sqlalchemy.create_engine(uri).connect():
                    pass
            return _client_of(uri, self.settings)
        if not DURABLE.is_changeable(path):
            return _client_of(sqlite_url(path, "ro"), self.settings)
        if not mlflow_database.is_there(path):
            mlflow_database.make(path, self._create)
        elif self._is_outdated(path):
            if self.settings.ui_is_served:
                raise StorageError(
                    f"{path} has to be brought up to date, and `bpeline ui` serves it",
                    "a database that nobody has open meanwhile",
                    "stop `bpeline ui` or `bpeline server`, then type the same command again",
                )
            if said := mlflow_database.upgrade(path, self._is_outdated):
                warnings.warn(said, stacklevel=2)
        return _client_of(uri, self.settings)

    def _create(self, uri: str) -> None:
        try:
            _client_of(uri, self.settings)
        except Exception as error:
            if _ADDS_DEFAULT not in str(error):
                raise
            raise StorageError(
                f"MLflow cannot make its database in the directory {os.getcwd()!r}: it writes this "
                "name into a statement of SQL",
                "a current directory without quotes and colons, for the first publication alone",
                "type the same command in another one, with BPELINE_HOME set to the workspace",
            ) from error

    def _is_outdated(self, path: Path) -> bool:
        """Whether MLflow would change the tables if it opened the database to write."""
        mlflow_database.recover(path)
        reason = self.why_unusable(path)
        if reason and reason != OUT_OF_DATE:
            raise StorageError(
                f"MLflow's database {path} cannot be used: {reason}",
                "a database that MLflow made, of this or an earlier release",
                "type `bpeline doctor`; restore it from a copy, or set MLFLOW_TRACKING_URI",
            )
        return bool(reason)

    def why_unusable(self, path: Path) -> str:
        """Why a SQLite file cannot be used as it is; empty where it can. Reads."""
        try:
            _client_of(sqlite_url(path, "ro"), self.settings)
        except Exception as error:
            reason = " ".join(str(error).split())
            if _ADDS_DEFAULT in reason:  # a row that MLflow adds when it is missing
                return ""
            return OUT_OF_DATE if any(sign in reason for sign in _OUTDATED) else reason[:200]
        return ""

    def artifacts_at(self, location: str) -> Any:
        """MLflow's store of the artifacts that lie at an address.

        Not the client's: after an answer without an address it would write to the current
        directory, and it has no means to delete artifacts.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        if not location:
            raise unshown(self.settings.place, "where its files are")
        return get_artifact_repository(location, tracking_uri=self.settings.uri)


def _client_of(uri: str, settings: TrackingSettings) -> MlflowClient:
    """A client that has asked its store something: a database has its tables then."""
    prepare_mlflow(settings.timeout_seconds, settings.retries)
    # They tell of every migration, and of errors that are raised, too.
    for chatty, level in (("mlflow.store.db.utils", logging.CRITICAL), ("alembic", logging.ERROR)):
        logger = logging.getLogger(chatty)
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
    if uri.startswith("sqlite"):
        client.search_registered_models(max_results=1)
        client.search_experiments(max_results=1)
    return client
