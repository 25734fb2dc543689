"""A registry of one's own for every test: its workspace, its catalogue, an MLflow on SQLite.

And a catalogue and a word-count store of their own; the path of this one SQL and globs would read
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import fake_mlflow
import pytest
from kept_registry import KeptRegistry
from mlflow_tables import copy_database
from small_publications import publication_of

from bpeline.registry import environment
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records.publication import Publication
from bpeline.registry.tracking import MlflowTracker, TrackingSettings
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.registry.workspace.store_records import remember_store
from bpeline.registry.workspace.workspace import Workspace

DEAD_SERVER = "http://127.0.0.1:9"  # the discard port: refused at once


@pytest.fixture(autouse=True, scope="module")
def _quick_mlflow(quick_mlflow: None) -> None:
    """Many tests here make an MLflow database."""


@pytest.fixture(scope="session")
def _empty_mlflow_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    @cache
    def make(is_fake: bool) -> Path:
        path = tmp_path_factory.mktemp("mlflow") / "empty.sqlite"
        MlflowTracker(TrackingSettings(f"sqlite:///{path}")).prepare()
        return path

    return make


@pytest.fixture(scope="module")
def empty_mlflow(_quick_mlflow: None, _empty_mlflow_of: Callable[[bool], Path]) -> Path:
    """An MLflow database after its migrations, which take seconds."""
    return _empty_mlflow_of(fake_mlflow.is_installed())


@pytest.fixture
def kept() -> KeptRegistry | None:
    """What all tests of a file begin with, where it has a fixture of this name that fills it."""
    return None


@pytest.fixture
def mlflow_uri(empty_mlflow: Path, kept: KeptRegistry | None) -> str:
    """One database for all tests, emptied before each: MLflow prepares queries once per file."""
    if kept is not None:
        kept.put_back()
        return kept.mlflow_uri
    path = empty_mlflow.with_name("mlflow.sqlite")
    copy_database(empty_mlflow, path)
    return f"sqlite:///{path}"


@pytest.fixture
def home_path(tmp_path: Path, kept: KeptRegistry | None) -> Path:
    """Where a workspace is to be."""
    return tmp_path / "home" if kept is None else kept.home


@pytest.fixture
def home(home_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a workspace that this process is configured for."""
    monkeypatch.setattr(environment, "_configured", None)
    environment.configure(workspace=home_path, tracking_uri=mlflow_uri)
    yield home_path
    environment._configured = None


@pytest.fixture
def registry(home: Path) -> Registry:
    return open_registry()


@pytest.fixture
def disconnected(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The same workspace and catalogue, with an MLflow server that is down."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # what users set is theirs
    settings = TrackingSettings(DEAD_SERVER, timeout_seconds=2, retries=0)
    environment.configure(tracking_uri=DEAD_SERVER)
    place = replace(registry.place, tracking_uri=DEAD_SERVER)
    # As if it had been the server that is down now.
    remember_store(registry.workspace.known_stores, "mlflow", DEAD_SERVER, registry.make_store())
    return Registry(place, MlflowTracker(settings))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Publication]:
    """Make a publication of a small tokenizer that knows the given words."""
    return partial(publication_of, tmp_path / "made")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "it's a [home]*")


@pytest.fixture
def store(workspace: Workspace) -> WordCountStore:
    return WordCountStore(workspace, threads=2)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Of a catalogue that does not exist yet, in a file."""
    return f"sqlite:///{tmp_path / 'catalogue.sqlite'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.night)])
def url(request: pytest.FixtureRequest) -> str:
    """Of a catalogue that does not exist yet, on each kind of database."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    return str(request.getfixturevalue("postgres").new_url())


@pytest.fixture
def catalogue(url: str) -> Iterator[Catalogue]:
    catalogue = Catalogue(url)
    yield catalogue
    catalogue.close()
