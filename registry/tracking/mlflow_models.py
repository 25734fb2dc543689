"""The models that MLflow stores: what a registered version is made of, and what loads from it.

Knows no workspace and no catalogue; paths and values come in as arguments.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bpeline.registry.records import Publication
from bpeline.registry.tracking.descriptions import description_of
from bpeline.registry.tracking.mlflow_client import Connection
from bpeline.registry.tracking.mlflow_errors import already_exists, insisting, unshown
from bpeline.registry.tracking.mlflow_runs import MODEL_FOLDER, Runs
from bpeline.registry.tracking.tracked import (
    OWNER_TAG,
    VERSIONS_AT_ONCE,
    TrackedModel,
    TrackedRun,
    UnendedRun,
    version_tags,
)
from bpeline.registry.tracking.ui_links import run_page
from bpeline.tokenizer_core.errors import UnknownVersion

LARGEST_DOWNLOAD = 256 << 20  # bytes of one file
_MODEL_TAG = "model_id"
_LINKED = "mlflow.modelVersions"  # MLflow's own tag on a model that versions are made of
# Of a run, what may quote the corpus: the tokens that screening found are in the report.
_QUOTING = ("mlflow.note.content", "error")
_SAVING = threading.Lock()  # MLflow exchanges modules of the process while it reads a model's code


@dataclass(frozen=True, slots=True)
class Traces:
    """What MLflow has of a tokenizer, beside the version: ids of its runs and stored models."""

    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class Models:
    """Stored models, each stored once however often that is tried."""

    def __init__(self, connection: Connection, runs: Runs) -> None:
        self._connection = connection
        self._runs = runs

    @property
    def _client(self) -> Any:
        return self._connection.client

    def ensure_registered_model(self, name: str) -> None:
        """Make room for versions of ``name`` unless there is."""
        with self._connection.answering(f"registering {name}"):
            try:
                insisting(lambda: self._client.create_registered_model(name, {"kind": "tokenizer"}))
            except Exception as error:
                if not already_exists(error):
                    raise

    def log_model(
        self,
        publication: Publication,
        run: TrackedRun,
        files: Sequence[Path],
        config: Mapping[str, Any],
        staging: Path,
    ) -> TrackedModel:
        """Store the model that ``mlflow.pyfunc`` loads; repeating it finds the first one.

        Args:
            files: the files of the ``bpeline`` format, and a certified ``tokenizer.json``.
            config: what ``mlflow_model.py`` has to know of it.
            staging: an empty private directory.
        """
        with self._connection.answering(f"storing the model of {publication.name}"):
            earlier = self._client.get_run(run.run_id).data.tags.get(_MODEL_TAG)
            if earlier:
                known = self._client.get_logged_model(earlier)
                return TrackedModel(known.model_id, known.artifact_location)
            made = self._client.create_logged_model(
                run.experiment_id,
                name=publication.name.replace(".", "_"),  # a model's name alone has no dot
                source_run_id=run.run_id,
                tags={
                    "digest": publication.digest,
                    "run_id": publication.run_id,
                    OWNER_TAG: self._connection.settings.owner,
                },
                params={"vocab_size": str(publication.vocab_size)},
                model_type="tokenizer",
            )
            if not made.artifact_location:
                place = self._connection.settings.place
                raise unshown(place, "where its files are")
            model = TrackedModel(made.model_id, made.artifact_location)
            laid_out = _lay_out(model, run, publication, files, config, staging)
            self._client.log_model_artifacts(model.model_id, str(laid_out))
            self._client.finalize_logged_model(model.model_id, "READY")
            self._log_output(run, model, publication.vocab_size)
            self._runs.log_model_metrics(run, model.model_id, publication)
            self._client.set_tag(run.run_id, _MODEL_TAG, model.model_id, synchronous=True)
            return model

    def _log_output(self, run: TrackedRun, model: TrackedModel, step: int) -> None:
        from mlflow.entities import LoggedModelOutput

        self._client.log_outputs(run.run_id, [LoggedModelOutput(model.model_id, step)])

    def create_version(
        self, publication: Publication, run: TrackedRun, model: TrackedModel
    ) -> None:
        """Ask MLflow for one new version. May raise although the version was made."""
        with self._connection.answering(f"registering {publication.name}"):
            page = run_page(run.experiment_id, run.run_id, "report/report.html")
            made = self._client.create_model_version(
                publication.name,
                source=model.location,
                run_id=run.run_id,
                tags=version_tags(publication),
                description=description_of(publication, page) or None,
                await_creation_for=0,
                model_id=model.model_id,
            )
            shown = f"{publication.name}/{made.version}"  # in the legends of charts
            self._client.set_tag(run.run_id, "mlflow.runName", shown, synchronous=True)
            # A server does this itself; it links the model's page to the registered version.
            linked = json.dumps([{"name": publication.name, "version": int(made.version)}])
            self._client.set_logged_model_tags(model.model_id, {_LINKED: linked})

    def unregistered_models(self) -> list[UnendedRun]:
        """The models that this workspace stored and that no version has."""
        with self._connection.answering("looking for models without a version"):
            experiments = [one.experiment_id for one in self._client.search_experiments()]
            owner = self._connection.settings.owner
            stored = self._client.search_logged_models(experiments, f"tags.{OWNER_TAG} = '{owner}'")
            versions = self._client.search_model_versions(max_results=VERSIONS_AT_ONCE)
            used = {one.source.rstrip("/") for one in versions}
            return [
                UnendedRun(
                    one.model_id, one.name, one.tags.get("run_id", ""), one.creation_timestamp
                )
                for one in stored
                if one.artifact_location.rstrip("/") not in used and _LINKED not in one.tags
            ]

    def remove_model(self, model_id: str) -> None:
        """Take a stored model away."""
        with self._connection.answering("removing a model"):
            self._client.delete_logged_model(model_id)

    def download_version(
        self, name: str, number: int, file_names: Sequence[str], target: Path
    ) -> None:
        """Fetch named files of a version's tokenizer; nothing fetched is executed or unpacked.

        Args:
            file_names: plain names inside the model's tokenizer folder.
            target: an existing private directory.

        Raises:
            UnknownVersion: the version or one of its files does not exist.
        """
        with self._connection.answering(f"downloading {name}/{number}"):
            source = self._client.get_model_version_download_uri(name, str(number)) or ""
            place = source and f"{source.rstrip('/')}/artifacts/{MODEL_FOLDER}"
            store = self._connection.artifacts_at(place)
            sizes = {Path(one.path).name: one.file_size or 0 for one in store.list_artifacts()}
            for one in file_names:
                if not 0 <= sizes.get(one, -1) <= LARGEST_DOWNLOAD:
                    raise UnknownVersion(
                        f"{name}/{number} in MLflow has no usable {MODEL_FOLDER}/{one}",
                        f"accepted are files of up to {LARGEST_DOWNLOAD} bytes, as bpeline writes",
                        f"type `bpeline versions {name}` to see the versions",
                    )
                store.download_artifacts(one, dst_path=str(target))

    # ---- a version that is deleted -----------------------------------------------------------

    def traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """The runs that made a tokenizer and the models stored of it, but for the needed ones.

        Args:
            name, digest: which tokenizer.
            needed: MLflow runs that versions which stay were made from.
        """
        with self._connection.answering(f"looking for what there is of {name}"):
            return _traces(*self._found(name, digest, needed))

    def remove_traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """Take them away: their files, what quotes the corpus, then themselves.

        MLflow removes files for good, and hides runs and models: their rows stay in its database
        until somebody types `mlflow gc`.

        Returns:
            What was taken away by this call.
        """
        with self._connection.answering(f"removing what there is of {name}"):
            runs, models = self._found(name, digest, needed)
            for model in models:
                self._connection.artifacts_at(model.artifact_location).delete_artifacts()
                self.remove_model(model.model_id)
            for run in runs:
                self._connection.artifacts_at(run.info.artifact_uri).delete_artifacts()
                for key in _QUOTING:
                    if key in run.data.tags:
                        self._client.delete_tag(run.info.run_id, key)
                self._runs.remove_run(run.info.run_id)
            return _traces(runs, models)

    def _found(
        self, name: str, digest: str, needed: Collection[str]
    ) -> tuple[list[Any], list[Any]]:
        experiment = self._connection.experiment_named(name)
        if experiment is None:
            return [], []
        here, this = [experiment.experiment_id], f"tags.digest = '{digest}'"
        # Runs of another kind, such as datasets that were encoded, tell of something else.
        runs = [
            run
            for run in self._client.search_runs(here, this, max_results=1000)
            if "kind" not in run.data.tags and run.info.run_id not in needed
        ]
        models = [
            model
            for model in self._client.search_logged_models(here, this)
            if model.source_run_id not in needed
        ]
        return runs, models


def _traces(runs: Sequence[Any], models: Sequence[Any]) -> Traces:
    return Traces(tuple(run.info.run_id for run in runs), tuple(model.model_id for model in models))


def _lay_out(
    model: TrackedModel,
    run: TrackedRun,
    publication: Publication,
    files: Sequence[Path],
    config: Mapping[str, Any],
    staging: Path,
) -> Path:
    """MLflow's model directory: our model file and the tokenizer."""
    tokenizer = staging / MODEL_FOLDER
    tokenizer.mkdir()
    for path in files:
        shutil.copyfile(path, tokenizer / path.name)
    # MLflow copies this file with its mode, which an installation chose; a copy has the umask's.
    code = staging / "mlflow_model.py"
    shutil.copyfile(Path(__file__).with_name(code.name), code)
    laid_out = staging / "model"
    read = config["tokenizers"]
    needed = [f"{package}=={version(package)}" for package in config["packages"]]
    import mlflow.pyfunc
    from mlflow.models import Model
    from mlflow.types import ParamSchema, ParamSpec

    described = Model(
        artifact_path=model.location,
        model_uuid=model.model_id,
        model_id=model.model_id,
        run_id=run.run_id,
        metadata={"digest": publication.digest},
    )
    with _SAVING:
        mlflow.pyfunc.save_model(
            str(laid_out),
            python_model=str(code),
            artifacts={MODEL_FOLDER: str(tokenizer)},
            pip_requirements=[f"tokenizers=={read}"] if read else needed,
            uv_project_path=str(laid_out),  # none, instead of one in the current directory
            model_config=dict(config),
            mlflow_model=described,
        )
    # The type hints of `predict` give the signature, but say nothing of parameters.
    allowed_special = ParamSpec("allowed_special", "string", default=None)
    described.signature.params = ParamSchema([allowed_special])
    described.save(str(laid_out / "MLmodel"))
    return laid_out
