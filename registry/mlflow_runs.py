"""MLflow's experiments and runs: what was asked of a training, and what came of it.

One experiment for each name. Metrics carry the vocab size as step, so that the runs of a name
overlay as compression curves. Knows no workspace and no catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from registry.mlflow_door import MlflowConnection, dataset_input, parameter, point
from registry.mlflow_models import MODEL_FOLDER
from registry.publication import CURVE_METRIC, Publication
from registry.tracked import (
    TrackedRun,
    description_of,
    insisting,
    says_missing,
    shortened,
    version_tags,
)

METRICS_PER_REQUEST = 1000
PARAMS_PER_REQUEST = 100
_PUBLICATION_TAG = "publication"


class MlflowRuns(MlflowConnection):
    """Runs, each recorded once however often that is tried."""

    def record_run(self, publication: Publication, files: Sequence[Path]) -> TrackedRun:
        """Show a publication as a run: parameters, metrics, curve, inputs, files, figures, report.

        Repeating it after an interruption continues the same run. Metrics carry the vocab size as
        step, so that the runs of one name overlay as compression curves. ``files`` are the
        tokenizer's, shown under ``tokenizer/``.
        """
        with self._answering(f"recording a run of {publication.name}"):
            run = self._run_of(publication)
            self._log_values(run, publication)
            inputs = [dataset_input(one) for one in publication.inputs]
            insisting(lambda: self._client.log_inputs(run.run_id, inputs))
            for path in files:
                self._client.log_artifact(run.run_id, str(path), MODEL_FOLDER)
            for path in publication.figures:
                self._client.log_artifact(run.run_id, str(path), "figures")
            for path in publication.pages:
                self._client.log_artifact(run.run_id, str(path), "comparison")
            if publication.report:
                self._client.log_text(run.run_id, publication.report, "report.md")
            params = json.dumps(dict(publication.params), indent=2, sort_keys=True)
            self._client.log_text(run.run_id, params, "params.json")
            self._client.set_terminated(run.run_id)
            return run

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
        # A fixed time makes repeating harmless: MLflow keeps one point per key, time and step.
        time_ms = int(self._client.get_run(run.run_id).info.start_time)
        size = publication.vocab_size
        points = {(CURVE_METRIC, step): value for step, value in publication.curve}
        points |= {
            (name, step): value
            for name, curve in publication.curves.items()
            for step, value in curve
        }
        points |= {(key, size): value for key, value in publication.metrics.items()}
        metrics = [point(key, value, time_ms, step) for (key, step), value in points.items()]
        asked = sorted(publication.params.items())
        params = [parameter(key, shortened(value)) for key, value in asked]
        for begin in range(0, len(metrics), METRICS_PER_REQUEST):
            batch = metrics[begin : begin + METRICS_PER_REQUEST]
            self._client.log_batch(run.run_id, metrics=batch)
        for begin in range(0, len(params), PARAMS_PER_REQUEST):
            batch = params[begin : begin + PARAMS_PER_REQUEST]
            self._client.log_batch(run.run_id, params=batch)
