"""Models stored in MLflow, from which versions are registered and loaded."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpeline.registry.records import Publication
from bpeline.registry.tracking import tracked
from bpeline.registry.tracking.descriptions import description_of
from bpeline.registry.tracking.mlflow_client import Connection, all_pages
from bpeline.registry.tracking.mlflow_errors import (
    THERE,
    answering,
    fine_if,
    insisting,
    unshown,
)
from bpeline.registry.tracking.mlflow_runs import MODEL_FOLDER, Runs
from bpeline.registry.tracking.tracked import run_page
from bpeline.tokenizer_core.errors import UnknownVersion

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, RunInfo

LARGEST_DOWNLOAD = 256 << 20  # bytes of one file
_MODEL_TAG = "model_id"
_LINKED = "mlflow.modelVersions"  # MLflow's tag on a model that versions were registered from
# Run tags that may quote the corpus, such as the tokens found by the screening.
_QUOTING = ("mlflow.note.content", "error")
_SAVING = threading.Lock()  # MLflow swaps modules of the process while it reads a model's code


class Traces(NamedTuple):
    """Ids of the runs and stored models of a tokenizer."""

    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@answering
class Models:
    """Stored models; storing one again finds the first."""

    def __init__(self, connection: Connection, runs: Runs) -> None:
        self._connection = connection
        self._runs = runs

    @property
    def _client(self) -> Any:
        return self._connection.client

    def ensure_registered_model(self, name: str) -> None:
        """Create the registered model ``name`` unless it exists."""
        with fine_if(THERE):
            insisting(lambda: self._client.create_registered_model(name, {"kind": "tokenizer"}))

    def log_model(
        self,
        publication: Publication,
        run: RunInfo,
        files: Sequence[Path],
        config: Mapping[str, Any],
        staging: Path,
    ) -> LoggedModel:
        """Store the model that ``mlflow.pyfunc`` loads, unless the run has stored one.

        Args:
            files: the files of the ``bpeline`` format, and a certified ``tokenizer.json``.
            staging: an empty private directory.
        """
        from mlflow.entities import LoggedModelOutput

        if earlier := self._client.get_run(run.run_id).data.tags.get(_MODEL_TAG):
            return self._client.get_logged_model(earlier)
        model = self._client.create_logged_model(
            run.experiment_id,
            name=publication.name.replace(".", "_"),  # names of stored models allow no dot
            source_run_id=run.run_id,
            tags={
                "digest": publication.digest,
                "run_id": publication.run_id,
                tracked.OWNER_TAG: self._connection.settings.owner,
            },
            params={"vocab_size": str(publication.vocab_size)},
            model_type="tokenizer",
        )
        if not model.artifact_location:
            raise unshown(self._connection.settings.place, "where its files are")
        laid_out = _lay_out(model, publication.digest, files, config, staging)
        self._client.log_model_artifacts(model.model_id, str(laid_out))
        self._client.finalize_logged_model(model.model_id, "READY")
        output = LoggedModelOutput(model.model_id, publication.vocab_size)
        self._client.log_outputs(run.run_id, [output])
        self._runs.log_model_metrics(run, model.model_id, publication)
        self._client.set_tag(run.run_id, _MODEL_TAG, model.model_id, synchronous=True)
        return model

    def create_version(self, publication: Publication, run: RunInfo, model: LoggedModel) -> None:
        """Register one new version. It may raise although the version was created."""
        page = run_page(run.experiment_id, run.run_id, "report/report.html")
        registered = self._client.create_model_version(
            publication.name,
            source=model.artifact_location,
            run_id=run.run_id,
            tags={  # in this order on MLflow's pages
                "vocab_size": str(publication.vocab_size),
                "pattern": tracked.shortened(publication.pattern),
                "evaluation_set": tracked.shown_set(publication.evaluation_set),
                "trained_at": publication.created_at,
                "digest": publication.digest,
                "run_id": publication.run_id,
            },
            description=description_of(publication, page) or None,
            await_creation_for=0,
            model_id=model.model_id,
        )
        shown = f"{publication.name}/{registered.version}"  # in the legends of charts
        self._client.set_tag(run.run_id, "mlflow.runName", shown, synchronous=True)
        # Links the model's page to the version; a server does this by itself.
        linked = json.dumps([{"name": publication.name, "version": int(registered.version)}])
        self._client.set_logged_model_tags(model.model_id, {_LINKED: linked})

    def unregistered_models(self) -> list[tracked.Unended]:
        """Return the models stored by this workspace that have no version."""
        experiments = [item.experiment_id for item in self._client.search_experiments()]
        owner = self._connection.settings.owner
        stored = self._stored(experiments, f"tags.{tracked.OWNER_TAG} = '{owner}'")
        versions = self._client.search_model_versions(max_results=tracked.VERSIONS_AT_ONCE)
        used = {item.source.rstrip("/") for item in versions}
        return [
            tracked.Unended(model.model_id, model.tags.get("run_id", ""), model.creation_timestamp)
            for model in stored
            if model.artifact_location.rstrip("/") not in used and _LINKED not in model.tags
        ]

    def remove_model(self, model_id: str) -> None:
        """Delete a stored model."""
        self._client.delete_logged_model(model_id)

    def _stored(self, experiments: list[str], chosen: str) -> list[LoggedModel]:
        """Return all stored models that match a filter."""
        search = self._client.search_logged_models
        return [*all_pages(lambda token: search(experiments, chosen, page_token=token))]

    def download_version(
        self, name: str, number: int, file_names: Sequence[str], target: Path
    ) -> None:
        """Download files of a version's tokenizer; nothing is executed or unpacked."""
        source = self._client.get_model_version_download_uri(name, str(number)) or ""
        place = source and f"{source.rstrip('/')}/artifacts/{MODEL_FOLDER}"
        store = self._connection.artifacts_at(place)
        sizes = {Path(file.path).name: file.file_size or 0 for file in store.list_artifacts()}
        for file_name in file_names:
            if not 0 <= sizes.get(file_name, -1) <= LARGEST_DOWNLOAD:
                raise UnknownVersion(
                    f"{name}/{number} in MLflow has no usable {MODEL_FOLDER}/{file_name}",
                    f"expected a file of at most {LARGEST_DOWNLOAD} bytes, written by bpeline",
                    f"type `bpeline versions {name}` to see the versions",
                )
            store.download_artifacts(file_name, dst_path=str(target))

    def traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """Find the runs and stored models of a tokenizer.

        Args:
            needed: MLflow run ids of other versions, which are excluded.
        """
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            return Traces()
        experiments, query = [experiment.experiment_id], f"tags.digest = '{digest}'"
        runs, models = (
            self._client.search_runs(experiments, query),
            self._stored(experiments, query),
        )
        return Traces(
            # Other kinds of runs, such as encoded datasets, are not traces of the tokenizer.
            tuple(
                run.info.run_id
                for run in runs
                if "kind" not in run.data.tags and run.info.run_id not in needed
            ),
            tuple(model.model_id for model in models if model.source_run_id not in needed),
        )

    def remove_traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """Delete the `traces`: files, tags that quote the corpus, runs and models."""
        traces = self.traces(name, digest, needed)
        for model_id in traces.models:
            place = self._client.get_logged_model(model_id).artifact_location
            self._connection.artifacts_at(place).delete_artifacts()
            self.remove_model(model_id)
        for run_id in traces.runs:
            run = self._client.get_run(run_id)
            self._connection.artifacts_at(run.info.artifact_uri).delete_artifacts()
            for key in run.data.tags.keys() & set(_QUOTING):
                self._client.delete_tag(run_id, key)
            self._runs.remove_run(run_id)
        return traces


def _lay_out(
    model: LoggedModel,
    digest: str,
    files: Sequence[Path],
    config: Mapping[str, Any],
    staging: Path,
) -> Path:
    """Write MLflow's model directory: ``mlflow_model.py`` and the tokenizer."""
    import mlflow.pyfunc
    from mlflow.models import Model
    from mlflow.types import ParamSchema, ParamSpec

    tokenizer = staging / MODEL_FOLDER
    tokenizer.mkdir()
    for path in files:
        shutil.copyfile(path, tokenizer / path.name)
    # A copy has the umask's mode; MLflow would keep the mode of the installed file.
    code = staging / "mlflow_model.py"
    shutil.copyfile(Path(__file__).with_name(code.name), code)
    laid_out = staging / "model"
    read = config["tokenizers"]
    needed = [f"{package}=={version(package)}" for package in config["packages"]]
    described = Model(
        artifact_path=model.artifact_location,
        model_uuid=model.model_id,
        model_id=model.model_id,
        run_id=model.source_run_id,
        metadata={"digest": digest},
    )
    with _SAVING:
        mlflow.pyfunc.save_model(
            str(laid_out),
            python_model=str(code),
            artifacts={MODEL_FOLDER: str(tokenizer)},
            pip_requirements=[f"tokenizers=={read}"] if read else needed,
            uv_project_path=str(laid_out),  # has none; MLflow would use the current directory's
            model_config=dict(config),
            mlflow_model=described,
        )
    # MLflow infers the signature from the type hints of `predict`, but not its parameters.
    allowed_special = ParamSpec("allowed_special", "string", default=None)
    described.signature.params = ParamSchema([allowed_special])
    described.save(str(laid_out / "MLmodel"))
    return laid_out
