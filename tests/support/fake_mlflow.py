"""A stand-in for MLflow, for tests whose subject is something else.

While it is `installed`, ``import mlflow`` imports it, for SQLite files and local artifacts. It has
the methods of ``MlflowClient`` that bpeline calls, with MLflow's signatures.
`tests/registry/test_mlflow_client_contract.py` runs the same tests on it and on the real client.

The state is one JSON document in a SQLite file at the place of MLflow's database, so transactions,
copies of the file and its change counter are SQLite's own.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
import sys
import time
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

_BUSY_SECONDS = 20.0
_CLAUSE = re.compile(r"(?:attributes\.)?(name|status|tags)(?:\.([\w.]+))? = '([^']*)'")

State = dict[str, Any]


class MlflowException(Exception):
    """An error with MLflow's code for it."""

    def __init__(self, message: str, error_code: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def _invalid(message: str) -> MlflowException:
    return MlflowException(message, "INVALID_PARAMETER_VALUE")


def _add(rows: State, key: str, row: State) -> State:
    if key in rows:
        raise MlflowException(f"{key!r} already exists", "RESOURCE_ALREADY_EXISTS")
    rows[key] = row
    return row


def _get(rows: Mapping[str, Any], key: str) -> Any:
    if key not in rows:
        raise MlflowException(f"{key!r} not found", "RESOURCE_DOES_NOT_EXIST")
    return rows[key]


def _text(values: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (values or {}).items()}


def _now() -> int:
    return time.time_ns() // 1_000_000


# ---- mlflow.entities ---------------------------------------------------------------------------

Metric = namedtuple(
    "Metric", "key value timestamp step model_id dataset_name dataset_digest", defaults=[None] * 3
)
Param = namedtuple("Param", "key value")
RunTag = namedtuple("RunTag", "key value")
InputTag = namedtuple("InputTag", "key value")
Dataset = namedtuple(
    "Dataset", "name digest source_type source schema profile", defaults=[None] * 2
)
DatasetInput = namedtuple("DatasetInput", "dataset tags")
LoggedModelOutput = namedtuple("LoggedModelOutput", "model_id step")


class _Page(list[Any]):
    token: str | None = None


def _page(rows: Sequence[Any], max_results: int, token: str | None) -> _Page:
    begin = int(token or 0)
    page = _Page(rows[begin : begin + max_results])
    page.token = str(begin + max_results) if begin + max_results < len(rows) else None
    return page


def _matches(row: State, filter_string: str | None) -> bool:
    """Whether a row has the values in a filter of equalities."""
    for clause in filter(None, (filter_string or "").split(" and ")):
        parsed = _CLAUSE.fullmatch(clause)
        if not parsed or parsed[1] not in row:
            raise NotImplementedError(f"the stand-in for MLflow does not filter by {clause!r}")
        field, key, value = parsed.groups()
        if (row[field].get(key) if key else row[field]) != value:
            return False
    return True


def _run(row: State) -> Any:
    points = sorted(row["points"], key=lambda point: (point[3], point[2], point[1]))
    inputs = [
        DatasetInput(Dataset(*dataset), [InputTag(*tag) for tag in tags])
        for dataset, tags in row["inputs"]
    ]
    outputs = [LoggedModelOutput(*output) for output in row["outputs"]]
    metrics = {point[0]: point[1] for point in points}
    return SimpleNamespace(
        info=SimpleNamespace(**row),
        data=SimpleNamespace(metrics=metrics, params=row["params"], tags=row["tags"]),
        inputs=SimpleNamespace(dataset_inputs=inputs),
        outputs=SimpleNamespace(model_outputs=outputs),
    )


def _logged_model(state: State, row: State) -> Any:
    points = [Metric(*point) for run in state["runs"].values() for point in run["points"]]
    metrics = [point for point in points if point.model_id == row["model_id"]]
    return SimpleNamespace(**row, metrics=metrics)


def _version(model: State, number: str) -> Any:
    aliases = [alias for alias, target in model["aliases"].items() if target == int(number)]
    return SimpleNamespace(**_get(model["versions"], number), aliases=aliases)


# ---- mlflow.MlflowClient -----------------------------------------------------------------------


class MlflowClient:
    """The part of MLflow's client that bpeline uses, for a SQLite file."""

    def __init__(self, tracking_uri: str, registry_uri: str | None = None) -> None:
        backend, _, path = tracking_uri.partition(":///")
        self._is_file = backend.partition("+")[0] == "sqlite"
        self._uri = path if path.startswith("file:") else f"file:{quote(path)}?mode=rwc"
        if self._is_file and "mode=ro" not in self._uri:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    empty = {"experiments": {}, "runs": {}, "logged_models": {}, "models": {}}
                    connection.execute("CREATE TABLE fake_mlflow (state TEXT)")
                    connection.execute("INSERT INTO fake_mlflow VALUES (?)", [json.dumps(empty)])
                connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        if not self._is_file:
            raise MlflowException("Connection refused", "INTERNAL_ERROR")
        connection = sqlite3.connect(
            self._uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _read(self) -> State:
        with closing(self._connect()) as connection:
            return _state_of(connection)

    @contextmanager
    def _writing(self) -> Iterator[State]:
        """The state in one transaction, which an error rolls back."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            state = _state_of(connection)
            yield state
            connection.execute("UPDATE fake_mlflow SET state = ?", [json.dumps(state)])
            connection.execute("COMMIT")

    @contextmanager
    def _changing(self, table: str, key: str) -> Iterator[State]:
        """A row that is there and not deleted."""
        with self._writing() as state:
            row = _get(state[table], key)
            if row.get("lifecycle_stage") == "deleted":
                raise _invalid(f"{key!r} is deleted")
            yield row

    # ---- experiments

    def create_experiment(
        self, name: str, artifact_location: str | None = None, tags: State | None = None
    ) -> str:
        if artifact_location is None:
            raise NotImplementedError("the stand-in for MLflow needs a place for artifacts")
        with self._writing() as state:
            experiment_id = str(len(state["experiments"]) + 1)
            _add(state["experiments"], name, {
                "experiment_id": experiment_id, "name": name, "lifecycle_stage": "active",
                "artifact_location": artifact_location, "tags": _text(tags),
            })  # fmt: skip
            return experiment_id

    def set_experiment_tag(self, experiment_id: str, key: str, value: Any) -> None:
        with self._writing() as state:
            _experiment_of(state, experiment_id)["tags"][key] = str(value)

    def get_experiment_by_name(self, name: str) -> Any:
        row = self._read()["experiments"].get(name)
        return row and SimpleNamespace(**row)

    def delete_experiment(self, experiment_id: str) -> None:
        with self._writing() as state:
            _experiment_of(state, experiment_id)["lifecycle_stage"] = "deleted"

    def restore_experiment(self, experiment_id: str) -> None:
        with self._writing() as state:
            _experiment_of(state, experiment_id)["lifecycle_stage"] = "active"

    def search_experiments(self, max_results: int = 1000, page_token: str | None = None) -> Any:
        rows = self._read()["experiments"].values()
        active = [SimpleNamespace(**row) for row in rows if row["lifecycle_stage"] == "active"]
        return _page(active, max_results, page_token)

    # ---- runs

    def create_run(
        self, experiment_id: str, start_time: int | None = None, tags: State | None = None,
        run_name: str | None = None,
    ) -> Any:  # fmt: skip
        run_id, tags = secrets.token_hex(16), _text(tags)
        name = run_name or tags.get("mlflow.runName") or f"run-{run_id[:8]}"
        with self._writing() as state:
            place = _experiment_of(state, experiment_id)["artifact_location"].rstrip("/")
            return _run(_add(state["runs"], run_id, {
                "run_id": run_id, "experiment_id": experiment_id, "run_name": name,
                "user_id": tags.get("mlflow.user", "unknown"), "status": "RUNNING",
                "start_time": _now() if start_time is None else start_time, "end_time": None,
                "lifecycle_stage": "active", "artifact_uri": f"{place}/{run_id}/artifacts",
                "tags": {**tags, "mlflow.runName": name}, "params": {}, "points": [],
                "inputs": [], "outputs": [],
            }))  # fmt: skip

    def get_run(self, run_id: str) -> Any:
        return _run(_get(self._read()["runs"], run_id))

    def update_run(self, run_id: str, status: str | None = None) -> None:
        with self._changing("runs", run_id) as run:
            run["status"] = status or run["status"]

    def set_terminated(
        self, run_id: str, status: str | None = None, end_time: int | None = None
    ) -> None:
        with self._changing("runs", run_id) as run:
            run["status"] = status or "FINISHED"
            run["end_time"] = _now() if end_time is None else end_time

    def search_runs(
        self, experiment_ids: list[str], filter_string: str = "", run_view_type: int = 1,
        max_results: int = 1000, order_by: list[str] | None = None, page_token: str | None = None,
    ) -> Any:  # fmt: skip
        order = (order_by or ["attributes.start_time DESC"])[0]
        way = {"attributes.start_time ASC": 1, "attributes.start_time DESC": -1}[order]
        stage = {1: "active", 2: "deleted"}[run_view_type]
        rows = [
            row
            for row in self._read()["runs"].values()
            if row["experiment_id"] in experiment_ids
            and row["lifecycle_stage"] == stage
            and _matches(row, filter_string)
        ]
        rows.sort(key=lambda row: (way * row["start_time"], row["run_id"]))
        return _page([_run(row) for row in rows], max_results, page_token)

    def set_tag(self, run_id: str, key: str, value: Any, synchronous: bool | None = None) -> None:
        self.log_batch(run_id, tags=[RunTag(key, str(value))])

    def delete_tag(self, run_id: str, key: str) -> None:
        with self._changing("runs", run_id) as run:
            _get(run["tags"], key)
            del run["tags"][key]

    def log_batch(
        self, run_id: str, metrics: Sequence[Any] = (), params: Sequence[Any] = (),
        tags: Sequence[Any] = (), synchronous: bool | None = None,
    ) -> None:  # fmt: skip
        with self._changing("runs", run_id) as run:
            for key, value in params:
                if run["params"].setdefault(key, str(value)) != str(value):
                    raise _invalid(f"the parameter {key!r} is logged already")
            known = {tuple(point) for point in run["points"]}
            run["points"] += [metric for metric in metrics if metric not in known]
            run["tags"] |= dict(tags)
            run["run_name"] = run["tags"]["mlflow.runName"]

    def log_inputs(self, run_id: str, datasets: Sequence[Any] | None = None) -> None:
        with self._changing("runs", run_id) as run:
            known = {tuple(dataset) for dataset, _ in run["inputs"]}
            run["inputs"] += [added for added in datasets or () if added.dataset not in known]

    def log_outputs(self, run_id: str, models: list[Any]) -> None:
        with self._changing("runs", run_id) as run:
            run["outputs"] += models

    def delete_run(self, run_id: str) -> None:
        with self._writing() as state:
            _get(state["runs"], run_id)["lifecycle_stage"] = "deleted"

    def get_metric_history(self, run_id: str, key: str) -> list[Any]:
        points = _get(self._read()["runs"], run_id)["points"]
        # Those of stored models once more have no line of their own.
        return list(dict.fromkeys(Metric(*point[:4]) for point in points if point[0] == key))

    def list_artifacts(self, run_id: str, path: str | None = None) -> list[Any]:
        return Artifacts(self.get_run(run_id).info.artifact_uri).list_artifacts(path)

    def download_artifacts(self, run_id: str, path: str, dst_path: str | None = None) -> str:
        store = Artifacts(self.get_run(run_id).info.artifact_uri)
        return store.download_artifacts(path, dst_path)

    # ---- stored models

    def create_logged_model(
        self, experiment_id: str, name: str | None = None, source_run_id: str | None = None,
        tags: State | None = None, params: State | None = None, model_type: str | None = None,
    ) -> Any:  # fmt: skip
        model_id = f"m-{secrets.token_hex(16)}"
        with self._writing() as state:
            place = _experiment_of(state, experiment_id)["artifact_location"].rstrip("/")
            row = _add(state["logged_models"], model_id, {
                "model_id": model_id, "experiment_id": experiment_id, "name": name,
                "artifact_location": f"{place}/models/{model_id}/artifacts",
                "creation_timestamp": _now(), "status": "PENDING", "lifecycle_stage": "active",
                "source_run_id": source_run_id, "model_type": model_type, "tags": _text(tags),
                "params": _text(params),
            })  # fmt: skip
            return _logged_model(state, row)

    def get_logged_model(self, model_id: str) -> Any:
        state = self._read()
        row = _get(state["logged_models"], model_id)
        if row["lifecycle_stage"] == "deleted":
            raise _invalid(f"{model_id!r} is deleted")
        return _logged_model(state, row)

    def finalize_logged_model(self, model_id: str, status: str) -> None:
        with self._changing("logged_models", model_id) as model:
            model["status"] = status

    def log_model_artifacts(self, model_id: str, local_dir: str) -> None:
        place = Artifacts(self.get_logged_model(model_id).artifact_location)
        shutil.copytree(local_dir, place.root, dirs_exist_ok=True)

    def set_logged_model_tags(self, model_id: str, tags: State) -> None:
        with self._changing("logged_models", model_id) as model:
            model["tags"] |= _text(tags)

    def search_logged_models(
        self, experiment_ids: list[str], filter_string: str | None = None,
        max_results: int | None = None, page_token: str | None = None,
    ) -> Any:  # fmt: skip
        state = self._read()
        chosen = [
            _logged_model(state, row)
            for row in state["logged_models"].values()
            if row["experiment_id"] in experiment_ids
            and row["lifecycle_stage"] == "active"
            and _matches(row, filter_string)
        ]
        return _page(chosen, max_results or 100, page_token)

    def delete_logged_model(self, model_id: str) -> None:
        with self._changing("logged_models", model_id) as model:
            model["lifecycle_stage"] = "deleted"

    # ---- registered models

    def create_registered_model(self, name: str, tags: State | None = None) -> Any:
        with self._writing() as state:
            return SimpleNamespace(**_add(state["models"], name, {
                "name": name, "description": None, "tags": _text(tags), "aliases": {},
                "newest": 0, "versions": {},
            }))  # fmt: skip

    def get_registered_model(self, name: str) -> Any:
        return SimpleNamespace(**_get(self._read()["models"], name))

    def update_registered_model(self, name: str, description: str | None = None) -> None:
        with self._changing("models", name) as model:
            model["description"] = description

    def search_registered_models(
        self, filter_string: str | None = None, max_results: int = 100,
        page_token: str | None = None,
    ) -> Any:  # fmt: skip
        rows = self._read()["models"].values()
        chosen = [SimpleNamespace(**row) for row in rows if _matches(row, filter_string)]
        return _page(sorted(chosen, key=lambda model: model.name), max_results, page_token)

    def set_registered_model_tag(self, name: str, key: str, value: Any) -> None:
        with self._changing("models", name) as model:
            model["tags"][key] = str(value)

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        with self._changing("models", name) as model:
            model["tags"].pop(key, None)

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        with self._changing("models", name) as model:
            _get(model["versions"], str(version))
            model["aliases"][alias] = int(version)

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        with self._changing("models", name) as model:
            model["aliases"].pop(alias, None)

    # ---- versions

    def create_model_version(
        self, name: str, source: str, run_id: str | None = None, tags: State | None = None,
        description: str | None = None, await_creation_for: int = 300, model_id: str | None = None,
    ) -> Any:  # fmt: skip
        with self._changing("models", name) as model:
            model["newest"] += 1
            number = str(model["newest"])
            _add(model["versions"], number, {
                "name": name, "version": number, "creation_timestamp": _now(),
                "description": description, "source": source, "run_id": run_id,
                "model_id": model_id, "tags": _text(tags),
            })  # fmt: skip
            return _version(model, number)

    def get_model_version(self, name: str, version: str) -> Any:
        return _version(_get(self._read()["models"], name), str(version))

    def get_model_version_by_alias(self, name: str, alias: str) -> Any:
        model = _get(self._read()["models"], name)
        if alias not in model["aliases"]:
            raise _invalid(f"the alias {alias!r} not found")
        return _version(model, str(model["aliases"][alias]))

    def get_model_version_download_uri(self, name: str, version: str) -> str:
        return str(self.get_model_version(name, version).source)

    def search_model_versions(
        self, filter_string: str | None = None, max_results: int = 10_000,
        page_token: str | None = None,
    ) -> Any:  # fmt: skip
        chosen = [
            SimpleNamespace(**row, aliases=[])  # as MLflow's own search leaves them
            for model in self._read()["models"].values()
            for row in model["versions"].values()
            if _matches(row, filter_string)
        ]
        return _page(chosen, max_results, page_token)

    def set_model_version_tag(self, name: str, version: str, key: str, value: Any) -> None:
        with self._changing("models", name) as model:
            _get(model["versions"], str(version))["tags"][key] = str(value)

    def delete_model_version(self, name: str, version: str) -> None:
        with self._changing("models", name) as model:
            _get(model["versions"], str(version))
            del model["versions"][str(version)]
            aliases = model["aliases"].items()
            model["aliases"] = {key: at for key, at in aliases if at != int(version)}


def _state_of(connection: sqlite3.Connection) -> State:
    state: State = json.loads(connection.execute("SELECT state FROM fake_mlflow").fetchone()[0])
    return state


def _experiment_of(state: State, experiment_id: str) -> State:
    rows = {row["experiment_id"]: row for row in state["experiments"].values()}
    experiment: State = _get(rows, experiment_id)
    return experiment


# ---- artifacts and models ----------------------------------------------------------------------


class Artifacts:
    """MLflow's store of artifacts in a local directory."""

    def __init__(self, location: str) -> None:
        parts = urlsplit(location)
        if parts.scheme not in ("", "file"):
            raise NotImplementedError(f"the stand-in for MLflow has no store at {location}")
        self.root = Path(url2pathname(parts.path) if parts.scheme else location)

    def log_artifact(self, local_file: str, artifact_path: str | None = None) -> None:
        folder = self.root / (artifact_path or "")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(local_file, folder)

    def list_artifacts(self, path: str | None = None) -> list[Any]:
        folder = self.root / (path or "")
        return [
            SimpleNamespace(
                path=str(file.relative_to(self.root)),
                is_dir=file.is_dir(),
                file_size=None if file.is_dir() else file.stat().st_size,
            )
            for file in sorted(folder.iterdir() if folder.is_dir() else ())
        ]

    def download_artifacts(self, artifact_path: str, dst_path: str | None = None) -> str:
        source = self.root / artifact_path
        if not source.exists():
            raise OSError(f"No such artifact: {artifact_path}")
        if dst_path is None:
            return str(source)
        target = Path(dst_path) / artifact_path
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
        return str(target)

    def delete_artifacts(self, artifact_path: str | None = None) -> None:
        shutil.rmtree(self.root / (artifact_path or ""), ignore_errors=True)


class Model(SimpleNamespace):
    """The description of a model directory."""

    signature = SimpleNamespace(params=None)

    def save(self, path: str) -> None:
        Path(path).write_text(json.dumps({"model_id": self.model_id, "metadata": self.metadata}))


def save_model(path: str, artifacts: Mapping[str, str], mlflow_model: Model, **_: Any) -> None:
    """Write a model directory: its artifacts and its description."""
    for name, folder in artifacts.items():
        shutil.copytree(folder, Path(path) / "artifacts" / name)
    mlflow_model.save(f"{path}/MLmodel")


# ---- instead of the real one -------------------------------------------------------------------


def _get_artifact_repository(location: str, tracking_uri: str | None = None) -> Artifacts:
    return Artifacts(location)


def _unused(*_: Any, **__: Any) -> None:
    """Anything that a model is described with and that no test looks at."""


_ENTITIES = (Metric, Param, RunTag, InputTag, Dataset, DatasetInput, LoggedModelOutput)
_CONTENT: dict[str, dict[str, Any]] = {
    "mlflow": {"MlflowClient": MlflowClient},
    "mlflow.entities": {entity.__name__: entity for entity in _ENTITIES},
    "mlflow.models": {"Model": Model},
    "mlflow.pyfunc": {"save_model": save_model},
    "mlflow.store.artifact.artifact_repository_registry": {
        "get_artifact_repository": _get_artifact_repository
    },
    "mlflow.types": {"ParamSchema": _unused, "ParamSpec": _unused},
}


def _modules() -> dict[str, ModuleType]:
    modules = {name: ModuleType(name, __doc__) for name in _CONTENT}
    for name, module in modules.items():
        vars(module).update(_CONTENT[name])
    modules["mlflow"].pyfunc = modules["mlflow.pyfunc"]  # type: ignore[attr-defined]
    return modules


_MODULES = _modules()


def _take_away() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "mlflow"]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def installed() -> Iterator[None]:
    """Let ``import mlflow`` import the stand-in; an import of anything it has not fails."""
    real = _take_away()
    sys.modules.update(_MODULES)
    try:
        yield
    finally:
        _take_away()
        sys.modules.update(real)


def is_installed() -> bool:
    """Whether ``import mlflow`` imports the stand-in."""
    return sys.modules.get("mlflow") is _MODULES["mlflow"]
