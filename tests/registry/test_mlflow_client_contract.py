"""What bpeline relies on in MLflow's client, on the stand-in for it and on the real one."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import fake_mlflow
import pytest
from mlflow_proxy import running_server
from small_publications import publication_of

from bpeline.registry import promote, publish_version, tracking
from bpeline.registry.opening import open_registry
from bpeline.registry.tracking.mlflow_errors import MISSING, THERE, _as_ours
from bpeline.registry.tracking.snapshot import stamp_of
from bpeline.tokenizer_core.errors import RegistryUnreachable


class Store(NamedTuple):
    """An MLflow: its URI, its SQLite file if it has one, and a place for artifacts."""

    uri: str
    database: Path | None
    artifacts: str | None


NIGHT = [pytest.param(kind, marks=pytest.mark.night) for kind in ("server", "postgresql")]


@pytest.fixture(scope="module", params=["stand-in", "sqlite", *NIGHT])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("store")
    database, artifacts = folder / "mlflow.sqlite", (folder / "artifacts").as_uri()
    if request.param == "server":
        with running_server(folder) as server:
            yield Store(f"http://127.0.0.1:{server.port}", None, None)
    elif request.param == "postgresql":
        yield Store(request.getfixturevalue("postgres").new_url(), None, artifacts)
    elif request.param == "sqlite":
        yield Store(f"sqlite:///{database}", database, artifacts)
    else:
        with fake_mlflow.installed():
            yield Store(f"sqlite:///{database}", database, artifacts)


@pytest.fixture
def client(store: Store) -> Any:
    return client_of(store.uri)


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, for an experiment or a registered model."""
    return str(request.function.__name__)


@pytest.fixture
def experiment(client: Any, store: Store, name: str) -> str:
    place = None if store.artifacts is None else f"{store.artifacts}/{name}"
    return str(client.create_experiment(name, place, {"mlflow.note.content": "a note"}))


@pytest.fixture
def run_id(client: Any, experiment: str) -> str:
    return str(client.create_run(experiment, 1_000, {"run_id": "ours"}, "a run").info.run_id)


@pytest.fixture
def model_id(client: Any, experiment: str, run_id: str) -> str:
    """Of a stored model."""
    made = client.create_logged_model(
        experiment,
        name="a-model",
        source_run_id=run_id,
        tags={"digest": "d1", "bpeline.workspace": "ours"},
        params={"vocab_size": "300"},
        model_type="tokenizer",
    )
    return str(made.model_id)


@pytest.fixture
def versions(client: Any, name: str) -> list[str]:
    """The numbers of three versions of a registered model."""
    client.create_registered_model(name, {"kind": "tokenizer"})
    return [new_version(client, name, digest) for digest in ("d1", "d2", "d3")]


def new_version(client: Any, name: str, digest: str = "d") -> str:
    made = client.create_model_version(
        name, source="s3://models/somewhere", tags={"digest": digest}, await_creation_for=0
    )
    return str(made.version)


def is_refused(ask: Callable[[], object], codes: Collection[str]) -> bool:
    with pytest.raises(Exception) as refusal:
        ask()
    return getattr(refusal.value, "error_code", "") in codes


# ---- experiments -------------------------------------------------------------------------------


def test_an_experiment(client: Any, store: Store, experiment: str, name: str) -> None:
    client.set_experiment_tag(experiment, "bpeline.store", "an identity")
    shown = client.get_experiment_by_name(name)
    assert shown.experiment_id == experiment
    assert shown.name == name
    assert shown.lifecycle_stage == "active"
    assert shown.tags == {"mlflow.note.content": "a note", "bpeline.store": "an identity"}
    if store.artifacts is not None:
        assert shown.artifact_location == f"{store.artifacts}/{name}"
    assert experiment in [one.experiment_id for one in client.search_experiments()]
    assert client.get_experiment_by_name("another") is None
    assert is_refused(lambda: client.create_experiment(name, store.artifacts), THERE)


def test_an_experiment_is_deleted_and_restored(
    client: Any, store: Store, experiment: str, name: str
) -> None:
    client.delete_experiment(experiment)
    assert client.get_experiment_by_name(name).lifecycle_stage == "deleted"
    assert experiment not in [one.experiment_id for one in client.search_experiments()]
    assert is_refused(lambda: client.create_experiment(name, store.artifacts), THERE)
    client.restore_experiment(experiment)
    assert client.get_experiment_by_name(name).lifecycle_stage == "active"


# ---- runs --------------------------------------------------------------------------------------


def test_a_run(client: Any, store: Store, experiment: str) -> None:
    from mlflow.entities import RunTag

    tags = {"mlflow.user": "ada", "run_id": "ours"}
    made = client.create_run(experiment, 1_000, tags, "news-1").info
    client.log_batch(made.run_id, tags=[RunTag("digest", "d1")], synchronous=True)
    client.set_tag(made.run_id, "error", "none", synchronous=True)
    client.delete_tag(made.run_id, "error")
    shown = client.get_run(made.run_id)
    assert (shown.info.run_id, shown.info.experiment_id) == (made.run_id, experiment)
    assert (shown.info.start_time, shown.info.end_time) == (1_000, None)
    assert (shown.info.status, shown.info.run_name) == ("RUNNING", "news-1")
    assert shown.info.user_id == "ada"
    assert shown.data.tags == {**tags, "digest": "d1", "mlflow.runName": "news-1"}
    if store.artifacts is not None:
        assert shown.info.artifact_uri.startswith(f"{store.artifacts}/test_a_run")
    assert made.run_id in shown.info.artifact_uri
    client.set_tag(made.run_id, "mlflow.runName", "news/1", synchronous=True)
    assert client.get_run(made.run_id).info.run_name == "news/1"


def test_a_run_ends_and_goes_on(client: Any, run_id: str) -> None:
    client.set_terminated(run_id, end_time=5_000)
    ended = client.get_run(run_id).info
    assert (ended.status, ended.end_time) == ("FINISHED", 5_000)
    client.update_run(run_id, status="RUNNING")
    assert client.get_run(run_id).info.status == "RUNNING"
    client.set_terminated(run_id, "KILLED", None)
    ended = client.get_run(run_id).info
    assert ended.status == "KILLED"
    assert ended.end_time > 1_700_000_000_000


def test_a_parameter_never_changes(client: Any, run_id: str) -> None:
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param("vocab_size", "300"), Param("pattern", "gpt2")])
    client.log_batch(run_id, params=[Param("vocab_size", "300")])
    with pytest.raises(Exception, match="vocab_size"):
        client.log_batch(run_id, params=[Param("vocab_size", "400")])
    assert client.get_run(run_id).data.params == {"vocab_size": "300", "pattern": "gpt2"}


def test_metrics_are_kept_once_and_the_last_step_counts(client: Any, run_id: str) -> None:
    from mlflow.entities import Metric

    points = [Metric("ratio", 2.5, 1_000, 300), Metric("ratio", 1.0, 1_000, 256)]
    for _ in range(2):
        client.log_batch(run_id, [*points, Metric("seconds", 0.25, 1_000, 300)], synchronous=True)
    assert client.get_run(run_id).data.metrics == {"ratio": 2.5, "seconds": 0.25}
    history = client.get_metric_history(run_id, "ratio")
    shown = sorted((point.step, point.value, point.timestamp, point.key) for point in history)
    assert shown == [(256, 1.0, 1_000, "ratio"), (300, 2.5, 1_000, "ratio")]
    assert client.get_metric_history(run_id, "another") == []


def test_inputs_and_outputs(client: Any, run_id: str, model_id: str) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput

    dataset = Dataset("web", "e" * 36, "local", '{"uri": "a.txt"}', profile='{"digest": "e"}')
    given = DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])
    for _ in range(2):
        client.log_inputs(run_id, [given])
    client.log_outputs(run_id, [LoggedModelOutput(model_id, 300)])
    run = client.get_run(run_id)
    (source,) = run.inputs.dataset_inputs
    assert (source.dataset.name, source.dataset.digest) == ("web", "e" * 36)
    assert (source.dataset.source, source.dataset.source_type) == ('{"uri": "a.txt"}', "local")
    assert source.dataset.profile == '{"digest": "e"}'
    assert [(tag.key, tag.value) for tag in source.tags] == [("mlflow.data.context", "training")]
    (output,) = run.outputs.model_outputs
    assert (output.model_id, output.step) == (model_id, 300)


def test_runs_are_searched(client: Any, experiment: str) -> None:
    made = [
        client.create_run(experiment, start, {"run_id": ours, "bpeline.workspace": "w"}).info.run_id
        for start, ours in ((3_000, "a"), (1_000, "b"), (2_000, "a"))
    ]
    client.set_terminated(made[0])

    def found(filter_string: str = "", **more: Any) -> list[int]:
        runs = client.search_runs([experiment], filter_string, **more)
        return [made.index(run.info.run_id) for run in runs]

    assert found() == [0, 2, 1]
    assert found("tags.run_id = 'a'") == [0, 2]
    assert found("tags.run_id = 'a' and status = 'FINISHED'") == [0]
    assert found("attributes.status = 'RUNNING' and tags.bpeline.workspace = 'w'") == [2, 1]
    assert found("tags.run_id = 'nobody'") == []
    assert found("tags.nothing = 'a'") == []
    assert found(order_by=["attributes.start_time ASC"]) == [1, 2, 0]
    assert found(order_by=["attributes.start_time DESC"], max_results=1) == [0]
    client.delete_run(made[2])
    client.delete_run(made[2])
    assert found() == [0, 1]
    assert found(run_view_type=2) == [2]


def test_missing_and_deleted_runs(client: Any, run_id: str) -> None:
    missing = "0" * 32
    assert is_refused(lambda: client.get_run(missing), MISSING)
    assert is_refused(lambda: client.set_terminated(missing), MISSING)
    assert is_refused(lambda: client.delete_run(missing), MISSING)
    assert is_refused(lambda: client.delete_tag(run_id, "never set"), MISSING)
    client.delete_run(run_id)
    assert client.get_run(run_id).info.lifecycle_stage == "deleted"
    assert is_refused(lambda: client.set_tag(run_id, "error", "late"), MISSING)
    assert is_refused(lambda: client.set_terminated(run_id), MISSING)


# ---- stored models -----------------------------------------------------------------------------


def test_a_stored_model(client: Any, store: Store, experiment: str, model_id: str) -> None:
    client.finalize_logged_model(model_id, "READY")
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": "[]"})
    shown = client.get_logged_model(model_id)
    assert (shown.model_id, shown.name, shown.status) == (model_id, "a-model", "READY")
    assert shown.tags["digest"] == "d1"
    assert shown.tags["mlflow.modelVersions"] == "[]"
    assert shown.creation_timestamp > 1_700_000_000_000
    assert model_id in shown.artifact_location
    if store.artifacts is not None:
        assert shown.artifact_location.startswith(f"{store.artifacts}/test_a_stored_model")

    def found(filter_string: str) -> list[str]:
        return [one.model_id for one in client.search_logged_models([experiment], filter_string)]

    assert found("tags.digest = 'd1'") == found("tags.bpeline.workspace = 'ours'") == [model_id]
    assert found("tags.digest = 'd2'") == []
    client.delete_logged_model(model_id)
    assert found("tags.digest = 'd1'") == []
    assert is_refused(lambda: client.get_logged_model(model_id), MISSING)


def test_stored_models_come_in_pages(client: Any, experiment: str, run_id: str) -> None:
    made = {
        client.create_logged_model(experiment, name=f"m{number}", source_run_id=run_id).model_id
        for number in range(5)
    }
    search = client.search_logged_models
    pages = pages_of(lambda token: search([experiment], max_results=2, page_token=token))
    shown = [model.model_id for page in pages for model in page]
    assert len(shown) == len(set(shown))
    assert made <= set(shown)


def metric_of(metric: Any) -> Any:
    """The same metric of the run alone."""
    from mlflow.entities import Metric

    return Metric(metric.key, metric.value, metric.timestamp, metric.step)


def test_metrics_of_a_stored_model_name_their_texts(
    client: Any, run_id: str, model_id: str
) -> None:
    from mlflow.entities import Metric

    of_texts = {"dataset_name": "set", "dataset_digest": "e" * 36}
    metrics = [
        Metric("ratio", 2.5, 1_000, 300, model_id=model_id, **of_texts),
        Metric("seconds", 0.25, 1_000, 300, model_id=model_id),
    ]
    client.log_batch(run_id, [metric_of(metrics[0])], synchronous=True)
    for _ in range(2):
        client.log_batch(run_id, metrics, synchronous=True)
    assert len(client.get_metric_history(run_id, "ratio")) == 1
    shown = sorted(
        (one.key, one.value, one.dataset_name, one.dataset_digest)
        for one in client.get_logged_model(model_id).metrics
    )
    assert shown == [("ratio", 2.5, "set", "e" * 36), ("seconds", 0.25, None, None)]
    assert client.get_run(run_id).data.metrics == {"ratio": 2.5, "seconds": 0.25}


# ---- registered models -------------------------------------------------------------------------


def test_a_registered_model(client: Any, name: str) -> None:
    assert is_refused(lambda: client.get_registered_model(name), MISSING)
    assert is_refused(lambda: client.set_registered_model_tag(name, "a", "b"), MISSING)
    client.create_registered_model(name, {"kind": "tokenizer"})
    assert is_refused(lambda: client.create_registered_model(name), THERE)
    client.set_registered_model_tag(name, "bpeline.deleted.1", "{}")
    client.set_registered_model_tag(name, "sets", "2")
    client.delete_registered_model_tag(name, "sets")
    client.delete_registered_model_tag(name, "never set")
    assert not client.get_registered_model(name).description
    client.update_registered_model(name, "Tokenizers.")
    assert client.get_registered_model(name).description == "Tokenizers."
    (shown,) = client.search_registered_models(f"name = '{name}'", 1000, page_token=None)
    assert shown.name == name
    assert shown.tags == {"kind": "tokenizer", "bpeline.deleted.1": "{}"}
    assert shown.aliases == {}


def test_registered_models_come_in_pages(client: Any, name: str) -> None:
    names = {f"{name}-{number}" for number in range(5)}
    for one in names:
        client.create_registered_model(one)
    pages = pages_of(lambda token: client.search_registered_models(None, 2, page_token=token))
    shown = [model.name for page in pages for model in page]
    assert len(shown) == len(set(shown))
    assert names <= set(shown)


def pages_of(ask: Callable[[str | None], Any]) -> list[Any]:
    pages, token = [], None
    while token or not pages:
        pages.append(ask(token))
        token = pages[-1].token
    assert len(pages) > 2
    return pages


# ---- versions and aliases ----------------------------------------------------------------------


def test_a_version(client: Any, name: str, run_id: str, model_id: str) -> None:
    place = client.get_logged_model(model_id).artifact_location
    client.create_registered_model(name)
    made = client.create_model_version(
        name, source=place, run_id=run_id, tags={"digest": "d1"}, description="2.5",
        await_creation_for=0, model_id=model_id,
    )  # fmt: skip
    client.set_model_version_tag(name, "1", "certificate", "equal")
    shown = client.get_model_version(name, str(made.version))
    assert (shown.name, int(shown.version), shown.run_id) == (name, 1, run_id)
    assert (shown.source, shown.description) == (place, "2.5")
    assert shown.tags == {"digest": "d1", "certificate": "equal"}
    assert shown.creation_timestamp > 1_700_000_000_000
    assert client.get_model_version_download_uri(name, "1") == place


def test_versions_are_searched(client: Any, name: str, versions: list[str]) -> None:
    client.create_registered_model(f"{name}-2")
    new_version(client, f"{name}-2", "d1")

    def found(filter_string: str) -> list[int]:
        return sorted(int(one.version) for one in client.search_model_versions(filter_string))

    assert found(f"name = '{name}'") == [1, 2, 3]
    assert found(f"name = '{name}' and tags.digest = 'd2'") == [2]
    assert found(f"name = '{name}' and tags.digest = 'd4'") == []
    assert found("name = 'nobody'") == []
    assert len(client.search_model_versions(max_results=100_000)) >= 4
    pages = pages_of(lambda token: client.search_model_versions(None, 1, page_token=token))
    shown = [(one.name, one.version) for page in pages for one in page]
    assert len(shown) == len(set(shown)) >= 4


def test_no_number_is_given_twice(client: Any, name: str, versions: list[str]) -> None:
    assert [int(number) for number in versions] == [1, 2, 3]
    client.delete_model_version(name, "3")
    client.delete_model_version(name, "1")
    assert is_refused(lambda: client.get_model_version(name, "3"), MISSING)
    assert is_refused(lambda: client.delete_model_version(name, "3"), MISSING)
    assert int(new_version(client, name)) == 4
    for number in ("2", "4"):
        client.delete_model_version(name, number)
    assert client.search_model_versions(f"name = '{name}'") == []
    assert int(new_version(client, name)) == 5


def test_threads_get_numbers_of_their_own(store: Store, client: Any, name: str) -> None:
    client.create_registered_model(name)
    with ThreadPoolExecutor(4) as threads:
        numbers = list(threads.map(lambda _: new_version(client_of(store.uri), name), range(12)))
    assert sorted(map(int, numbers)) == list(range(1, 13))


def test_aliases_move_and_go(client: Any, name: str, versions: list[str]) -> None:
    def target() -> int:
        return int(client.get_model_version_by_alias(name, "champion").version)

    assert is_refused(target, MISSING)
    client.set_registered_model_alias(name, "champion", "1")
    assert target() == 1
    client.set_registered_model_alias(name, "champion", "2")
    client.set_registered_model_alias(name, "candidate", "3")
    assert target() == 2
    aliases = client.get_registered_model(name).aliases
    assert {alias: int(number) for alias, number in aliases.items()} == {
        "champion": 2,
        "candidate": 3,
    }
    assert list(client.get_model_version(name, "2").aliases) == ["champion"]
    client.delete_model_version(name, "3")  # and its alias
    client.delete_registered_model_alias(name, "champion")
    client.delete_registered_model_alias(name, "champion")
    assert is_refused(target, MISSING)
    assert client.get_registered_model(name).aliases == {}
    move = client.set_registered_model_alias
    assert is_refused(lambda: move(name, "champion", "9"), MISSING)
    assert is_refused(lambda: move("nobody", "champion", "1"), MISSING)
    assert is_refused(lambda: client.get_model_version_by_alias("nobody", "x"), MISSING)


# ---- files -------------------------------------------------------------------------------------


def artifacts_at(store: Store, location: str) -> Any:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=store.uri)


def test_artifacts_of_a_run(store: Store, client: Any, run_id: str, tmp_path: Path) -> None:
    files = artifacts_at(store, client.get_run(run_id).info.artifact_uri)
    assert list(files.list_artifacts()) == []
    for text in ("former", "text"):  # the second replaces the first
        (tmp_path / "vocab.txt").write_text(text)
        files.log_artifact(str(tmp_path / "vocab.txt"), "tokenizer")
    (tmp_path / "report.md").write_text("# A report")
    files.log_artifact(str(tmp_path / "report.md"), None)
    listed = [(one.path, one.is_dir, one.file_size) for one in client.list_artifacts(run_id)]
    assert sorted(listed) == [("report.md", False, 10), ("tokenizer", True, None)]
    (one,) = client.list_artifacts(run_id, "tokenizer")
    assert (one.path, one.file_size) == ("tokenizer/vocab.txt", 4)
    (tmp_path / "there").mkdir()
    files.download_artifacts("report.md", dst_path=str(tmp_path / "there"))
    assert (tmp_path / "there" / "report.md").read_text() == "# A report"
    place = client.download_artifacts(run_id, "tokenizer/vocab.txt")
    assert Path(place).read_text() == "text"
    files.delete_artifacts()
    assert list(client.list_artifacts(run_id)) == []


def test_artifacts_of_a_stored_model(
    store: Store, client: Any, model_id: str, tmp_path: Path
) -> None:
    (tmp_path / "model" / "tokenizer").mkdir(parents=True)
    (tmp_path / "model" / "tokenizer" / "vocab.txt").write_text("text")
    client.log_model_artifacts(model_id, str(tmp_path / "model"))
    place = client.get_logged_model(model_id).artifact_location
    (file,) = artifacts_at(store, f"{place}/tokenizer").list_artifacts()
    assert (file.path, file.file_size) == ("vocab.txt", 4)
    artifacts_at(store, place).delete_artifacts()
    assert list(artifacts_at(store, place).list_artifacts()) == []


# ---- the file and the address ------------------------------------------------------------------


def test_every_write_changes_the_file_and_no_read_does(
    store: Store, client: Any, name: str, experiment: str, run_id: str, model_id: str
) -> None:
    from mlflow.entities import Metric

    if store.database is None:
        pytest.skip("no file of this machine's")
    client.create_registered_model(name)
    writes: list[Callable[[], object]] = [
        lambda: new_version(client, name),
        lambda: client.set_registered_model_alias(name, "champion", "1"),
        lambda: client.delete_registered_model_alias(name, "champion"),
        lambda: client.set_model_version_tag(name, "1", "key", "value"),
        lambda: client.set_registered_model_tag(name, "key", "value"),
        lambda: client.delete_registered_model_tag(name, "key"),
        lambda: client.update_registered_model(name, "described"),
        lambda: client.delete_model_version(name, "1"),
        lambda: client.set_tag(run_id, "key", "value"),
        lambda: client.log_batch(run_id, [Metric("ratio", 1.0, 1_000, 1)]),
        lambda: client.set_terminated(run_id),
        lambda: client.set_logged_model_tags(model_id, {"key": "value"}),
        lambda: client.delete_logged_model(model_id),
        lambda: client.delete_run(run_id),
        lambda: client.set_experiment_tag(experiment, "key", "value"),
    ]
    stamps = [stamp_of(store.database)]
    for write in writes:
        write()
        stamps.append(stamp_of(store.database))
    assert None not in stamps
    counters = [stamp[-1] for stamp in stamps if stamp]
    assert counters == sorted(set(counters))
    client_of(store.uri).search_registered_models()
    client.search_runs([experiment])
    client.get_experiment_by_name(name)
    assert stamp_of(store.database) == stamps[-1]


def test_a_file_is_read_only_where_its_address_says_so(store: Store, client: Any) -> None:
    from bpeline.tokenizer_core.urls import sqlite_url

    if store.database is None:
        pytest.skip("no file of this machine's")
    reader = client_of(sqlite_url(store.database, "ro"))
    found = [one.experiment_id for one in client.search_experiments()]
    assert [one.experiment_id for one in reader.search_experiments()] == found
    with pytest.raises(Exception, match="readonly"):
        reader.create_registered_model("never")
    with pytest.raises(Exception, match="unable to open"):
        client_of(sqlite_url(store.database.with_name("none"), "ro")).search_experiments()


@pytest.mark.usefixtures("store")
def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    nobody = client_of("http://127.0.0.1:9")
    with pytest.raises(Exception) as refusal:
        nobody.get_model_version_by_alias("news", "champion")
    assert getattr(refusal.value, "error_code", "") not in MISSING
    error = _as_ours(refusal.value, "looking", "http://127.0.0.1:9")
    assert isinstance(error, RegistryUnreachable)


# ---- the stand-in ------------------------------------------------------------------------------


def test_the_stand_in_has_the_signatures_of_the_client() -> None:
    from mlflow import MlflowClient

    for method, ours in inspect.getmembers(fake_mlflow.MlflowClient, inspect.isfunction):
        if method.startswith("_"):
            continue
        parameters = inspect.signature(getattr(MlflowClient, method)).parameters
        order = [name for name in parameters if name in inspect.signature(ours).parameters]
        assert list(inspect.signature(ours).parameters) == order, method


def published(root: Path) -> list[Any]:
    """What MLflow shows after two publications and a promotion, without ids and times."""
    registry = open_registry(root / "home")
    for word in (b"the", b"and"):
        publish_version(registry, publication_of(root / "made", word))
    promote("news/1", by="a person", reason="better", workspace=root / "home")
    client = registry.tracker._client
    experiment = client.get_experiment_by_name("news")
    model = client.get_registered_model("news")
    shown: list[Any] = [experiment.tags, model.description, model.tags, model.aliases]
    versions = client.search_model_versions("name = 'news'")
    for version in sorted(versions, key=lambda version: int(version.version)):
        run = client.get_run(version.run_id)
        stored = client.get_logged_model(run.data.tags["model_id"])
        (source,) = run.inputs.dataset_inputs
        shown += [
            [int(version.version), version.tags, version.description, sorted(version.aliases)],
            [version.source == stored.artifact_location, version.run_id == stored.source_run_id],
            [run.info.status, run.info.start_time, run.info.end_time, run.info.run_name],
            [run.info.user_id, run.data.tags, run.data.params, run.data.metrics],
            [source.dataset.name, source.dataset.source, source.dataset.profile],
            [output.model_id == stored.model_id for output in run.outputs.model_outputs],
            [stored.name, str(stored.status), stored.tags, stored.params, stored.model_type],
            sorted([one.key, one.value, one.step] for one in stored.metrics),
            sorted(one.path for one in client.list_artifacts(version.run_id)),
            sorted(one.path for one in client.list_artifacts(version.run_id, "tokenizer")),
        ]
    (root / "there").mkdir()
    registry.tracker.models.download_version("news", 2, ["manifest.json"], root / "there")
    shown.append(json.loads((root / "there" / "manifest.json").read_text())["digest"])
    text = json.dumps(shown, default=str, sort_keys=True).replace(str(root), "ROOT")
    return list(json.loads(re.sub(r"\b(m-)?([0-9a-f]{16}){1,2}\b", "ID", text)))


def test_a_publication_is_shown_alike(tmp_path: Path) -> None:
    real = published(tmp_path / "real")
    with fake_mlflow.installed():
        shown = published(tmp_path / "stand-in")
    for ours, theirs in zip(shown, real, strict=True):
        assert ours == theirs


def test_the_stand_in_has_every_method_that_bpeline_calls() -> None:
    from mlflow import MlflowClient

    called = set()
    for file in Path(tracking.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("client"):
                called.add(node.attr)
    called &= set(dir(MlflowClient))
    assert len(called) > 30
    assert [one for one in sorted(called) if not hasattr(fake_mlflow.MlflowClient, one)] == []
