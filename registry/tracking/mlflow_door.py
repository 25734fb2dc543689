"""The door to MLflow: its client, values, errors and migrations.

Every call names its tracking URI through a client of its own, so a process that also uses MLflow
for other things keeps its settings. ``mlflow_model.py`` imports MLflow too, but is run by MLflow,
never by us.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from bpeline.registry.environment import prepare_mlflow
from bpeline.registry.records import CorpusInput, Publication
from bpeline.registry.tracking import kept_empty
from bpeline.registry.tracking.bounded_http import bounded
from bpeline.registry.tracking.lookup import ServerLookup, TableLookup, Unsure, lookup
from bpeline.registry.tracking.mlflow_database import database_of, made_with, make_ready
from bpeline.registry.tracking.moved_artifacts import follow_artifacts
from bpeline.registry.tracking.tracked import (
    TrackedModel,
    TrackingSettings,
    as_registry_error,
    in_utf8,
    requirements_of,
    says_missing,
)
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, RegistryUnreachable
from bpeline.tokenizer_core.urls import is_url, read_only_url

Answer = TypeVar("Answer")

# To connect to a database: 6 seconds where it refuses. MLflow's own 10 take 100, even when a
# password is wrong.
DATABASE_TRIES = 6
DATASET_DIGEST_DIGITS = 36  # the width of MLflow's column


class MlflowConnection:
    """A client of one MLflow, and its errors as ours.

    All methods of those who inherit it raise RegistryUnreachable when MLflow does not answer
    within the settings' limits, RegistryError when it refuses, and StorageError when its database,
    where that is a SQLite file, cannot be made ready.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings

    @property
    def is_beside(self) -> bool:
        """Whether another process does the work."""
        return False

    def load(self) -> None:
        """Import what of MLflow is used with its databases; asks and makes nothing."""
        self._before_import()
        _import_pyfunc()
        import mlflow.store.model_registry.sqlalchemy_store
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

    def prepare(self) -> None:
        """Import MLflow and make its database or bring it up to date; asks no server anything."""
        with self._answering("preparing MLflow"):
            _ = self._client
            _import_pyfunc()

    def _quickly(
        self,
        read: Callable[[TableLookup | ServerLookup], Answer],
        ask: Callable[[], Answer],
    ) -> Answer:
        """Read what there is without MLflow's client, while it is not imported; else ask it."""
        quick = None if "_client" in self.__dict__ else lookup(self.settings.uri)
        if quick is not None:
            with suppress(Unsure):
                return read(quick)
        return ask()

    def prepare_database(self, *, expected: bool = False) -> None:
        """Make MLflow's database ready where it is a SQLite file; MLflow is imported if need be.

        One that was moved along with its artifacts is told where they are now.

        Args:
            expected: whether this store was used before: then a lost one is an error.

        Raises:
            StorageError: it cannot be made ready.
        """
        path = database_of(self.settings.uri)
        if path is not None:
            made = make_ready(path, self._migrate, expected=expected)
            moved = follow_artifacts(path, self.settings.artifact_location)
            for remark in filter(None, (made, moved)):
                warnings.warn(remark, stacklevel=2)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Run MLflow's own migrations, those it runs itself when it opens a new database.

        An empty one becomes what they made of the last empty one, where that is kept.
        """
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            self._run_migrations(connection)
            return
        if (kept := kept_empty.read(made_with())) is not None:
            connection.deserialize(kept)
        else:
            self._run_migrations(connection)
            kept_empty.write(made_with(), connection.serialize())
        self._add_default_experiment(connection)

    def _add_default_experiment(self, connection: sqlite3.Connection) -> None:
        """Make the experiment that MLflow expects in every database.

        MLflow writes the current directory into the text of its statement: what has both kinds of
        quotes in its path, or a colon after a space, is an error of syntax.
        """
        place = self.settings.artifact_location or Path("mlruns").absolute()
        now = time.time_ns() // 1_000_000
        connection.execute(
            "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage, "
            "creation_time, last_update_time) VALUES (0, 'Default', ?, 'active', ?, ?)",
            (f"{place}/0", now, now),
        )
        connection.commit()

    def _run_migrations(self, connection: sqlite3.Connection) -> None:
        self._before_import()
        from mlflow.store.db import utils

        engine = utils.sqlalchemy.create_engine(
            "sqlite://", creator=lambda: connection, poolclass=utils.StaticPool
        )
        make = utils._initialize_tables if utils._is_empty_database(engine) else utils._upgrade_db
        make(engine)

    def _before_import(self) -> None:
        prepare_mlflow(self.settings.timeout_seconds, self.settings.retries)
        for chatty in ("mlflow.store.db.utils", "alembic"):  # tell of every migration
            logger = logging.getLogger(chatty)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        # In a notebook, the bars of a library of MLflow's miss widgets; it has none to show there.
        warnings.filterwarnings("ignore", message="IProgress not found")

    @cached_property
    def _client(self) -> Any:
        self.prepare_database()
        self._before_import()
        from mlflow.store.db import utils
        from mlflow.tracking import MlflowClient
        from mlflow.utils import request_utils

        from bpeline.registry.tracking.bounded_sessions import bind

        bind(request_utils)
        utils.MAX_RETRY_COUNT = DATABASE_TRIES

        class Client(MlflowClient):  # type: ignore[misc]
            """Writes before it returns, and links no metric to a model of the environment."""

            def log_batch(
                self,
                run_id: str,
                metrics: Sequence[Any] = (),
                params: Sequence[Any] = (),
                tags: Sequence[Any] = (),
            ) -> None:
                self._tracking_client.store.log_batch(run_id, metrics, params, tags)

            def set_tag(self, run_id: str, key: str, value: str) -> None:
                super().set_tag(run_id, key, value, synchronous=True)

        path, uri = database_of(self.settings.uri), self.settings.uri
        if path is not None and not DURABLE.is_changeable(path):
            uri = read_only_url(path)
        return Client(tracking_uri=uri, registry_uri=uri)

    @property
    def _exception(self) -> Any:
        from mlflow.exceptions import MlflowException

        return MlflowException

    def _experiment_named(self, name: str) -> Any:
        """MLflow's experiment of this name, or None."""
        found = self._client.get_experiment_by_name(name)
        whole = found is None or (found.name == name and found.experiment_id)
        self._require(whole, f"the experiment {name}")
        return found

    def _require(self, shown: Any, what: str) -> None:
        """Believe that something was written only when it can be read.

        Raises:
            RegistryUnreachable: it is not ``shown``.
        """
        if not shown:
            raise RegistryUnreachable(
                f"MLflow at {self.settings.place} answered as if all were well, but it does not "
                f"show {what}",
                "accepted is a server that shows what was written to it",
                "look at its log, and type `bpeline doctor`",
            )

    def _artifacts(self, location: str) -> Any:
        """MLflow's store of the artifacts that lie at an address.

        Not the client's, which looks up where those of a run or model lie once in a process and
        believes any answer: after one without an address it would write all of them to the current
        directory, and remove them from there.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        self._require(location, "where its files are")
        return get_artifact_repository(location, tracking_uri=self.settings.uri)

    @contextmanager
    def _fine_if_missing(self) -> Iterator[None]:
        """Suppress MLflow's answer that there is no such thing."""
        try:
            yield
        except self._exception as error:
            if not says_missing(error):
                raise

    @contextmanager
    def _answering(self, doing: str) -> Iterator[None]:
        """Bound what is asked of servers, and turn MLflow's and the network's errors into ours."""
        try:
            with bounded():
                yield
        except BpelineError:
            raise
        except Exception as error:
            raise as_registry_error(error, doing, self.settings.uri) from error


def point(key: str, value: float, time_ms: int, step: int) -> Any:
    """MLflow's value for one point of a metric."""
    from mlflow.entities import Metric

    return Metric(key, value, time_ms, step)


def parameter(key: str, value: str) -> Any:
    """MLflow's value for one parameter."""
    from mlflow.entities import Param

    return Param(key, value)


def run_tag(key: str, value: str) -> Any:
    """MLflow's value for one tag of a run."""
    from mlflow.entities import RunTag

    return RunTag(key, value)


def model_output(model_id: str, step: int) -> Any:
    """MLflow's value for a model that a run made."""
    from mlflow.entities import LoggedModelOutput

    return LoggedModelOutput(model_id, step)


def dataset_input(source: CorpusInput) -> Any:
    """MLflow's value for a source that a run read."""
    # Built by hand: MLflow's own guess at what a local path is warns of ambiguity.
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return DatasetInput(
        Dataset(
            name=in_utf8(source.name),
            digest=source.digest[:DATASET_DIGEST_DIGITS],
            source_type=source.source.split("://")[0] if is_url(source.source) else "local",
            source=json.dumps({"uri": source.source}),
            profile=json.dumps({"digest": source.digest}),
        ),
        [InputTag("mlflow.data.context", source.context)],
    )


def file_sizes(store: Any, folder: str | None = None) -> dict[str, int]:
    """Names and bytes of the files in a store of artifacts, or in a folder of it."""
    return {Path(one.path).name: one.file_size or 0 for one in store.list_artifacts(folder)}


def download(store: Any, names: Sequence[str], target: Path) -> list[Path]:
    """Fetch files of a store of artifacts into a directory."""
    with _SameContext(max_workers=1) as store.thread_pool:
        return [Path(store.download_artifacts(one, dst_path=str(target))) for one in names]


class _SameContext(ThreadPoolExecutor):
    """Its thread is bounded as the one that asks it is."""

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Any:
        return super().submit(copy_context().run, call, *args, **named)


def save_model(
    laid_out: Path,
    code: Path,
    model: TrackedModel,
    run_id: str,
    publication: Publication,
    artifacts: dict[str, str],
    core_sha256: str,
) -> None:
    """Write MLflow's model directory: our model file, the tokenizer, the wheel of the core."""
    mlflow = _import_pyfunc()
    packages = requirements_of(publication)
    described = mlflow.models.Model(
        artifact_path=model.location,
        model_uuid=model.model_id,
        model_id=model.model_id,
        run_id=run_id,
        metadata={"digest": publication.digest},
    )
    with _SAVING, _installed_packages_not_listed():
        mlflow.pyfunc.save_model(
            str(laid_out),
            python_model=str(code),
            artifacts=artifacts,
            pip_requirements=packages,
            uv_project_path=str(laid_out),  # none, instead of one in the current directory
            model_config={"core_sha256": core_sha256, "packages": packages},
            mlflow_model=described,
        )
    # The type hints of `predict` give the signature, but say nothing of parameters.
    allowed_special = mlflow.types.ParamSpec("allowed_special", "string", default=None)
    described.signature.params = mlflow.types.ParamSchema([allowed_special])
    described.save(str(laid_out / "MLmodel"))


_SAVING = threading.Lock()  # MLflow exchanges modules of the process while it reads a model's code


@contextmanager
def _installed_packages_not_listed() -> Iterator[None]:
    """Spare MLflow to list the files of all packages that are installed: 0.8 s.

    It looks up there which package a module belongs to, which requirements that name packages do
    not need; who uses MLflow later in this process lists them then.
    """
    from mlflow.utils import requirements_utils

    name, nothing = "_MODULES_TO_PACKAGES", dict[str, list[str]]()
    spared = getattr(requirements_utils, name, nothing) is None
    if spared:
        setattr(requirements_utils, name, nothing)
    try:
        yield
    finally:
        if spared and getattr(requirements_utils, name, None) is nothing:
            setattr(requirements_utils, name, None)


def _import_pyfunc() -> Any:
    # Importing it warns about a type hint of MLflow's own. The filter stays: taking filters back
    # would race with other threads.
    warnings.filterwarnings(
        "ignore", message=".*Any type hint is inferred as AnyType", category=UserWarning
    )
    import mlflow.pyfunc

    return mlflow
