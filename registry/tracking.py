"""MLflow: experiments, runs and the model registry. The only file that imports MLflow.

Knows no workspace and no catalogue; paths and values come in as arguments. Every call names its
tracking URI through a client of its own, so a process that also uses MLflow for other things keeps
its settings. ``mlflow_model.py`` imports MLflow too, but is run by MLflow, never by us.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from registry.environment import prepare_mlflow
from registry.publication import CURVE_METRIC, CorpusInput, Publication
from registry.tracked import (
    TrackedModel,
    TrackedRun,
    TrackedVersion,
    TrackingSettings,
    as_registry_error,
    description_of,
    insisting,
    requirements_of,
    says_missing,
    shortened,
    version_tags,
)
from tokenizer_core.errors import RegistryError, UnknownVersion

METRICS_PER_REQUEST = 1000
PARAMS_PER_REQUEST = 100
DATASET_DIGEST_DIGITS = 36  # the width of MLflow's column
LARGEST_DOWNLOAD = 256 << 20  # bytes of one file

MODEL_FOLDER = "tokenizer"
_PUBLICATION_TAG = "publication"
_MODEL_TAG = "model_id"


class MlflowTracker:
    """Everything bpeline says to MLflow.

    All methods raise RegistryUnreachable when MLflow does not answer within the settings' limits,
    and RegistryError when it refuses.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Import MLflow and make its database or bring it up to date; asks no server anything."""
        with self._answering("preparing MLflow"):
            _ = self._client
            _import_pyfunc()

    def record_run(self, publication: Publication, files: Sequence[Path]) -> TrackedRun:
        """Show a publication as a run: parameters, metrics, curve, inputs, files, figures, report.

        Repeating it after an interruption continues the same run. Metrics carry the vocab size as
        step, so that the runs of one name overlay as compression curves. ``files`` are the
        tokenizer's, shown under ``tokenizer/``.
        """
        with self._answering(f"recording a run of {publication.name}"):
            run = self._run_of(publication)
            self._log_values(run, publication)
            inputs = [_dataset_input(one) for one in publication.inputs]
            insisting(lambda: self._client.log_inputs(run.run_id, inputs))
            self.add_files(run.run_id, files, MODEL_FOLDER)
            self.add_files(run.run_id, publication.figures, "figures")
            if publication.report:
                self._client.log_text(run.run_id, publication.report, "report.md")
            params = json.dumps(dict(publication.params), indent=2, sort_keys=True)
            self._client.log_text(run.run_id, params, "params.json")
            self._client.set_terminated(run.run_id)
            return run

    def add_files(self, mlflow_run_id: str, files: Sequence[Path], folder: str) -> None:
        """Show files with a run, in a folder of its artifacts."""
        with self._answering(f"adding files to the run {mlflow_run_id}"):
            for path in files:
                self._client.log_artifact(mlflow_run_id, str(path), folder)

    def metrics_of(self, mlflow_run_id: str) -> dict[str, float]:
        """The last value of every metric of a run; empty when the run is gone."""
        with self._answering(f"reading the run {mlflow_run_id}"):
            try:
                return dict(self._client.get_run(mlflow_run_id).data.metrics)
            except self._exception as error:
                if says_missing(error):
                    return {}
                raise

    def _run_of(self, publication: Publication) -> TrackedRun:
        experiment_id = self._experiment_of(publication.name)
        key = f"{publication.digest}:{publication.run_id}"
        earlier = self._client.search_runs(
            [experiment_id],
            filter_string=f"tags.{_PUBLICATION_TAG} = '{key}'",
            max_results=1,
            order_by=["attributes.start_time ASC"],
        )
        if earlier:
            info = earlier[0].info
        else:
            info = self._client.create_run(
                experiment_id,
                run_name=f"{publication.name}-{publication.digest[:8]}",
                tags={
                    **publication.tags,
                    **version_tags(publication),
                    _PUBLICATION_TAG: key,
                    "mlflow.source.name": "bpeline",
                    "mlflow.note.content": description_of(publication),
                },
            ).info
        return TrackedRun(info.run_id, info.experiment_id)

    def _experiment_of(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self._client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        # Without an absolute location MLflow writes to ./mlruns of the current directory.
        location = self.settings.artifact_location
        place = None if location is None else f"{location.rstrip('/')}/{name}"
        try:
            return str(self._client.create_experiment(name, artifact_location=place))
        except self._exception:
            found = self._client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise
            return str(found.experiment_id)

    def _log_values(self, run: TrackedRun, publication: Publication) -> None:
        from mlflow.entities import Metric, Param

        # A fixed time makes repeating harmless: MLflow keeps one point per key, time and step.
        time_ms = int(self._client.get_run(run.run_id).info.start_time)
        size = publication.vocab_size
        points = {(CURVE_METRIC, step): value for step, value in publication.curve}
        points |= {(key, size): value for key, value in publication.metrics.items()}
        metrics = [Metric(key, value, time_ms, step) for (key, step), value in points.items()]
        params = [Param(key, shortened(value)) for key, value in sorted(publication.params.items())]
        for begin in range(0, len(metrics), METRICS_PER_REQUEST):
            batch = metrics[begin : begin + METRICS_PER_REQUEST]
            self._client.log_batch(run.run_id, metrics=batch)
        for begin in range(0, len(params), PARAMS_PER_REQUEST):
            batch = params[begin : begin + PARAMS_PER_REQUEST]
            self._client.log_batch(run.run_id, params=batch)

    def create_version(
        self, publication: Publication, run: TrackedRun, model: TrackedModel
    ) -> None:
        """Ask MLflow for one new version. May raise although the version was made."""
        with self._answering(f"registering {publication.name}"):
            made = self._client.create_model_version(
                publication.name,
                source=model.location,
                run_id=run.run_id,
                tags=version_tags(publication),
                description=description_of(publication) or None,
                await_creation_for=0,
                model_id=model.model_id,
            )
            # A server does this itself; it links the model's page to the registered version.
            linked = json.dumps([{"name": publication.name, "version": int(made.version)}])
            self._client.set_logged_model_tags(model.model_id, {"mlflow.modelVersions": linked})

    def find_versions(self, name: str, digest: str) -> list[TrackedVersion]:
        """Versions of ``name`` with this digest, lowest number first."""
        return self._search_versions(f"name = '{name}' and tags.digest = '{digest}'")

    def find_digest(self, prefix: str) -> list[TrackedVersion]:
        """Versions of any name whose digest begins with ``prefix`` (hexadecimal digits)."""
        return self._search_versions(f"tags.digest LIKE '{prefix}%'")

    def aliases(self, name: str) -> dict[str, int]:
        """Every alias of ``name`` and the number it points to; empty for an unknown name."""
        with self._answering(f"reading the aliases of {name}"):
            try:
                found = self._client.get_registered_model(name).aliases
            except self._exception as error:
                if says_missing(error):
                    return {}
                raise
            return {str(alias): int(number) for alias, number in found.items()}

    def versions(self, name: str | None = None) -> list[TrackedVersion]:
        """All versions of ``name`` (of all names), those that are not ours left out."""
        chosen = "" if name is None else f"name = '{name}'"
        return [one for one in self._search_versions(chosen) if one.digest]

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """One version, or None when MLflow does not know it."""
        with self._answering(f"looking for {name}/{number}"):
            return self._or_none(lambda: self._client.get_model_version(name, str(number)))

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """The version an alias points to now, or None when there is no such alias."""
        with self._answering(f"looking for {name}@{alias}"):
            return self._or_none(lambda: self._client.get_model_version_by_alias(name, alias))

    def move_alias(self, name: str, alias: str, number: int) -> None:
        """Let an alias point to a version."""
        with self._answering(f"moving {name}@{alias}"):
            insisting(lambda: self._client.set_registered_model_alias(name, alias, str(number)))

    def download_version(
        self, name: str, number: int, file_names: Sequence[str], target: Path
    ) -> list[Path]:
        """Fetch named files of a version's tokenizer; nothing fetched is executed or unpacked.

        Args:
            file_names: plain names inside the model's tokenizer folder.
            target: an existing private directory.

        Raises:
            UnknownVersion: the version or one of its files does not exist.
        """
        with self._answering(f"downloading {name}/{number}"):
            from mlflow.artifacts import download_artifacts, list_artifacts

            source = self._client.get_model_version_download_uri(name, str(number))
            folder = f"{source.rstrip('/')}/artifacts/{MODEL_FOLDER}"
            uri = self.settings.uri
            sizes = {
                Path(one.path).name: one.file_size or 0
                for one in list_artifacts(artifact_uri=folder, tracking_uri=uri)
            }
            for one in file_names:
                if not 0 <= sizes.get(one, -1) <= LARGEST_DOWNLOAD:
                    raise UnknownVersion(
                        f"{name}/{number} in MLflow has no usable {MODEL_FOLDER}/{one}",
                        f"accepted are files of up to {LARGEST_DOWNLOAD} bytes, as bpeline writes",
                        f"type `bpeline versions {name}` to see the versions",
                    )
            into = {"dst_path": str(target), "tracking_uri": uri}
            uris = [f"{folder}/{one}" for one in file_names]
            return [Path(download_artifacts(artifact_uri=one, **into)) for one in uris]

    def ensure_registered_model(self, name: str) -> None:
        """Make room for versions of ``name`` unless there is."""
        with self._answering(f"registering {name}"):
            try:
                insisting(lambda: self._client.create_registered_model(name, {"kind": "tokenizer"}))
            except self._exception as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise

    def log_model(
        self, publication: Publication, run: TrackedRun, files: Sequence[Path], staging: Path
    ) -> TrackedModel:
        """Store the model that ``mlflow.pyfunc`` loads; repeating it finds the first one.

        Args:
            files: the files of the ``bpeline`` format.
            staging: an empty private directory.
        """
        with self._answering(f"storing the model of {publication.name}"):
            from mlflow.entities import LoggedModelOutput

            earlier = self._client.get_run(run.run_id).data.tags.get(_MODEL_TAG)
            if earlier:
                known = self._client.get_logged_model(earlier)
                return TrackedModel(known.model_id, known.artifact_location)
            made = self._client.create_logged_model(
                run.experiment_id,
                name=publication.name,
                source_run_id=run.run_id,
                tags=version_tags(publication),
                params={"vocab_size": str(publication.vocab_size)},
                model_type="tokenizer",
            )
            model = TrackedModel(made.model_id, made.artifact_location)
            laid_out = _lay_out_model(model, run.run_id, publication, files, staging)
            self._client.log_model_artifacts(model.model_id, str(laid_out))
            self._client.finalize_logged_model(model.model_id, "READY")
            self._client.log_outputs(
                run.run_id, [LoggedModelOutput(model.model_id, publication.vocab_size)]
            )
            self._client.set_tag(run.run_id, _MODEL_TAG, model.model_id)
            return model

    def _search_versions(self, filter_string: str) -> list[TrackedVersion]:
        with self._answering("searching the registered versions"):
            found: list[TrackedVersion] = []
            page: str | None = None
            while True:
                answer = self._client.search_model_versions(
                    filter_string or None, max_results=1000, page_token=page
                )
                found += [TrackedVersion.of(one) for one in answer]
                page = answer.token
                if not page:
                    return sorted(found, key=lambda one: (one.name, one.number))

    def withdraw_version(self, name: str, number: int) -> None:
        """Delete a version that was made twice; one that is gone already is fine."""
        with self._answering(f"removing the duplicate {name}/{number}"):
            try:
                self._client.delete_model_version(name, str(number))
            except self._exception as error:
                if not says_missing(error):
                    raise

    def _or_none(self, ask: Any) -> TrackedVersion | None:
        try:
            return TrackedVersion.of(ask())
        except self._exception as error:
            if says_missing(error):
                return None
            raise

    @cached_property
    def _client(self) -> Any:
        prepare_mlflow(self.settings.timeout_seconds, self.settings.retries)
        from mlflow.tracking import MlflowClient

        for chatty in ("mlflow.store.db.utils", "alembic"):  # tell of every migration
            logger = logging.getLogger(chatty)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        return MlflowClient(tracking_uri=self.settings.uri, registry_uri=self.settings.uri)

    @property
    def _exception(self) -> Any:
        from mlflow.exceptions import MlflowException

        return MlflowException

    @contextmanager
    def _answering(self, doing: str) -> Iterator[None]:
        """Turn MLflow's and the network's errors into ours."""
        try:
            yield
        except RegistryError:
            raise
        except Exception as error:
            raise as_registry_error(error, doing, self.settings.uri) from error


def _lay_out_model(
    model: TrackedModel, run_id: str, publication: Publication, files: Sequence[Path], into: Path
) -> Path:
    """Write MLflow's model directory: our model file, the tokenizer, the core's source."""
    import tokenizer_core

    tokenizer = into / MODEL_FOLDER
    tokenizer.mkdir()
    for path in files:
        shutil.copyfile(path, tokenizer / path.name)
    mlflow = _import_pyfunc()
    laid_out = into / "model"
    mlflow.pyfunc.save_model(
        str(laid_out),
        python_model=str(Path(__file__).with_name("mlflow_model.py")),
        artifacts={MODEL_FOLDER: str(tokenizer)},
        code_paths=[str(Path(tokenizer_core.__file__).parent)],
        pip_requirements=requirements_of(publication),
        mlflow_model=mlflow.models.Model(
            artifact_path=model.location, model_uuid=model.model_id, model_id=model.model_id,
            run_id=run_id, metadata={"digest": publication.digest}),
    )  # fmt: skip
    return laid_out


def _import_pyfunc() -> Any:
    # Importing it warns about a type hint of MLflow's own. The filter stays: taking filters back
    # would race with other threads.
    warnings.filterwarnings(
        "ignore", message=".*Any type hint is inferred as AnyType", category=UserWarning
    )
    import mlflow.pyfunc

    return mlflow


def _dataset_input(source: CorpusInput) -> Any:
    # Built by hand: MLflow's own guess at what a local path is warns of ambiguity.
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return DatasetInput(
        Dataset(
            name=source.name,
            digest=source.digest[:DATASET_DIGEST_DIGITS],
            source_type="local",
            source=json.dumps({"uri": source.source}),
            profile=json.dumps({"digest": source.digest}),
        ),
        [InputTag("mlflow.data.context", "training")],
    )
