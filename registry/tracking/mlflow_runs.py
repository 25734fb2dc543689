"""MLflow's experiments and runs: what was asked of a training, and what came of it.

One experiment for each name. Metrics carry the vocab size as step, so that the runs of a name
overlay as compression curves. Knows no workspace and no catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bpeline.registry.environment import this_user
from bpeline.registry.records import (
    CURVE_METRIC,
    DatasetRecord,
    Publication,
    SweepRecord,
    as_text,
)
from bpeline.registry.tracking.mlflow_door import (
    MlflowConnection,
    dataset_input,
    file_sizes,
    parameter,
    point,
    run_tag,
)
from bpeline.registry.tracking.mlflow_models import MODEL_FOLDER
from bpeline.registry.tracking.tracked import (
    COMPARED,
    OWNER_TAG,
    STEP_IS_IDS,
    StartedRun,
    TrackedRun,
    TrackedVersion,
    UnendedRun,
    description_of,
    description_of_experiment,
    in_utf8,
    insisting,
    milliseconds,
    plain_metrics,
    shortened,
    shortened_page,
    shown_metric,
    shown_set,
    version_tags,
)
from bpeline.registry.tracking.ui_links import run_page
from bpeline.tokenizer_core.durable_files import DURABLE

METRICS_PER_REQUEST = 1000
PARAMS_PER_REQUEST = 100
TAGS_PER_REQUEST = 100

Points = dict[tuple[str, int], float]  # by name and step


class MlflowRuns(MlflowConnection):
    """Runs, each recorded once however often that is tried."""

    @cached_property
    def _stores(self) -> dict[str, Any]:
        """Of runs, by their ids in MLflow, where their files are."""
        return {}

    def open_run(self, run: StartedRun) -> TrackedRun:
        """Show that a training runs: since when, who started it, what was asked for.

        One that was shown before, and perhaps had ended, runs again.
        """
        with self._answering(f"showing a run of {run.name}"):
            experiment_id = self._experiment_of(run.name)
            shown = self._find_run(experiment_id, run.run_id)
            if shown is None:
                shown = self._begin_run(experiment_id, run)
            else:
                self._client.update_run(shown.run_id, status="RUNNING")
            self._log(shown, run.params, {})
            return shown

    def close_run(self, name: str, run_id: str, status: str, error: str = "", at: str = "") -> None:
        """Show how a training ended that published nothing; one that is not shown stays so.

        Args:
            status: ``FAILED`` or ``KILLED``; what ended otherwise meanwhile stays as it is.
            error: why.
            at: when, UTC, ISO 8601; by default now.
        """
        with self._answering(f"showing the end of a run of {name}"):
            experiment = self._experiment_named(name)
            shown = None if experiment is None else self._find_run(experiment.experiment_id, run_id)
            if shown is None or self._client.get_run(shown.run_id).info.status != "RUNNING":
                return
            self.end_run(shown.run_id, status, error, at)

    def record_run(
        self, publication: Publication, files: Sequence[Path], made: TrackedVersion | None = None
    ) -> TrackedRun:
        """Show what came of a training: parameters, metrics, curve, inputs, files, figures, report.

        The run is the one that `open_run` has shown, or is made now. Repeating it after an
        interruption continues the same run. Metrics carry the vocab size as step, so that the runs
        of one name overlay as compression curves. ``files`` are the tokenizer's, shown under
        ``tokenizer/``. ``made`` is the version that it made once more.
        """
        with self._answering(f"recording a run of {publication.name}"):
            run = self._run_of(publication)
            if made is not None and made.mlflow_run_id != run.run_id:
                called = f"{made.name}/{made.number} again"
                self._client.set_tag(run.run_id, "mlflow.runName", called)
            self._log_values(run, publication)
            inputs = [dataset_input(one) for one in publication.inputs]
            insisting(lambda: self._client.log_inputs(run.run_id, inputs))
            self.add_files(run.run_id, files, MODEL_FOLDER)
            self.add_files(run.run_id, publication.figures, "figures")
            for page in publication.pages:
                self.add_files(run.run_id, [page], page.stem)
            if publication.report:
                self.add_report(run.run_id, publication.report)
            params = json.dumps(dict(publication.params), indent=2, sort_keys=True)
            self._add_text(run.run_id, params, "params.json")
            ended = publication.created_at
            self._finish(run, milliseconds(ended) if ended else None)
            return run

    def add_files(self, mlflow_run_id: str, files: Sequence[Path], folder: str) -> None:
        """Show files with a run, in a folder of its artifacts."""
        with self._answering(f"adding files to the run {mlflow_run_id}"):
            if not files:
                return
            store = self._files_of(mlflow_run_id)
            for path in files:
                store.log_artifact(str(path), folder)
            sizes = file_sizes(store, folder)
            for path in files:
                self._require(sizes.get(path.name) == path.stat().st_size, f"the whole {path.name}")

    def artifact_page(self, mlflow_run_id: str, artifact: str) -> str:
        """Where the UI shows a file of a run, below its own address."""
        with self._answering(f"reading the run {mlflow_run_id}"):
            experiment = self._client.get_run(mlflow_run_id).info.experiment_id
            return run_page(experiment, mlflow_run_id, artifact)

    def add_report(self, mlflow_run_id: str, report: str) -> None:
        """Show a text with a run, in Markdown; the one that was there is replaced."""
        with self._answering(f"adding the report of the run {mlflow_run_id}"):
            self._add_text(mlflow_run_id, in_utf8(report), "report.md")

    def _add_text(self, mlflow_run_id: str, text: str, place: str) -> None:
        with TemporaryDirectory(prefix="bpeline-") as aside, DURABLE.passing(Path(aside)):
            file = Path(aside) / Path(place).name
            DURABLE.write(file, text.encode())
            folder = str(Path(place).parent) if Path(place).parent.name else None
            self._files_of(mlflow_run_id).log_artifact(str(file), folder)

    def _files_of(self, mlflow_run_id: str) -> Any:
        if mlflow_run_id not in self._stores:
            location = self._client.get_run(mlflow_run_id).info.artifact_uri
            self._stores[mlflow_run_id] = self._artifacts(location)
        return self._stores[mlflow_run_id]

    def metrics_of(self, mlflow_run_id: str) -> dict[str, float]:
        """The last value of every metric of a run; empty when the run is gone."""
        with self._answering(f"reading the run {mlflow_run_id}"):
            with self._fine_if_missing():
                return plain_metrics(self._client.get_run(mlflow_run_id).data.metrics)
            return {}

    def _run_of(self, publication: Publication) -> TrackedRun:
        experiment_id = self._experiment_of(publication.name)
        shown = self._find_run(experiment_id, publication.run_id)
        if shown is None:
            started = publication.started_at or publication.created_at
            run = StartedRun(publication.name, publication.run_id, started, publication.started_by)
            shown = self._begin_run(experiment_id, run)
        told = {key: in_utf8(value) for key, value in publication.tags.items()}
        page = run_page(shown.experiment_id, shown.run_id, "report/report.html")
        said = description_of(publication, page)
        told |= {**version_tags(publication), "mlflow.note.content": said}
        tags = [run_tag(key, value) for key, value in told.items()]
        for begin in range(0, len(tags), TAGS_PER_REQUEST):
            self._client.log_batch(shown.run_id, tags=tags[begin : begin + TAGS_PER_REQUEST])
        kept = self._client.get_run(shown.run_id).data.tags
        self._require(kept.get("digest") == publication.digest, "the tags of a run")
        return shown

    def _find_run(self, experiment_id: str, run_id: str) -> TrackedRun | None:
        """The run that shows ours; were several made because replies were lost, one remains."""
        found = self._client.search_runs([experiment_id], f"tags.run_id = '{run_id}'")
        # The one that says most: a version may have been made from it. Then the oldest.
        first, *others = sorted(
            found,
            key=lambda run: (-len(run.data.tags), run.info.start_time, run.info.run_id),
        ) or [None]
        for other in others:
            self.remove_run(other.info.run_id)
        return None if first is None else TrackedRun(first.info.run_id, experiment_id)

    def _begin_run(self, experiment_id: str, run: StartedRun) -> TrackedRun:
        """Make it, once: MLflow's client may repeat what was done, or deny it."""
        tags = {"run_id": run.run_id, "mlflow.source.name": "bpeline"}
        if run.started_by:
            tags["mlflow.user"] = in_utf8(run.started_by)
        failure: Exception | None = None
        try:
            made = self._new_run(experiment_id, f"{run.name}-{run.run_id}", tags, run.started_at)
        except Exception as error:  # the reply may be lost and the run there all the same
            failure = error
        shown = self._find_run(experiment_id, run.run_id)
        if shown is None and failure is not None:
            raise failure
        return shown or made

    def unended_runs(self) -> list[UnendedRun]:
        """The runs that this workspace began to show and has not ended."""
        with self._answering("looking for runs that have not ended"):
            experiments = [one.experiment_id for one in self._client.search_experiments()]
            owner = f"tags.{OWNER_TAG} = '{self.settings.owner}'"
            found = self._client.search_runs(
                experiments, f"attributes.status = 'RUNNING' and {owner}", max_results=1000
            )
            return [
                UnendedRun(
                    run.info.run_id, run.info.run_name, run.data.tags.get("run_id", ""),
                    run.info.start_time,
                )
                for run in found
            ]  # fmt: skip

    def end_run(self, mlflow_run_id: str, status: str, error: str = "", at: str = "") -> None:
        """Show how a run ended, see `close_run`."""
        with self._answering("showing the end of a run"):
            if error:
                self._client.set_tag(mlflow_run_id, "error", shortened(error))
            end = milliseconds(at) if at else None
            self._client.set_terminated(mlflow_run_id, status, end)
            self._require_status(mlflow_run_id, status)

    def remove_run(self, mlflow_run_id: str) -> None:
        """Take a run away; MLflow keeps it among its deleted ones."""
        with self._answering("removing a run"), self._fine_if_missing():  # another was faster
            self._client.delete_run(mlflow_run_id)
            left = self._client.get_run(mlflow_run_id).info.lifecycle_stage
            self._require(left == "deleted", "that the run is removed")

    def withdraw_run(self, name: str, run_id: str) -> None:
        """Take away the run of a training that only made again what was refused before."""
        with self._answering(f"removing a run of {name}"):
            if shown := self._find_run(self._experiment_of(name), run_id):
                self.remove_run(shown.run_id)

    def _experiment_of(self, name: str) -> str:
        found = self._experiment_named(name)
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self._client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        # Without an absolute location MLflow writes to ./mlruns of the current directory.
        location = self.settings.artifact_location
        place = None if location is None else f"{location.rstrip('/')}/{name}"
        try:
            said = {"mlflow.note.content": description_of_experiment(name)}
            made = str(self._client.create_experiment(name, place, said))
        except self._exception:
            found = self._experiment_named(name)  # another process was faster
            if found is None:
                raise
            return str(found.experiment_id)
        self._require(made, f"the experiment {name}")
        return made

    def record_sweep(self, sweep: SweepRecord) -> TrackedRun:
        """Show a sweep: a run with the table and the picture, and a nested run for each child."""
        with self._answering(f"recording a sweep of {sweep.name}"):
            experiment_id = self._experiment_of(sweep.name)
            about = {"mlflow.source.name": "bpeline", "kind": "sweep"}
            said = shortened_page(f"{STEP_IS_IDS}\n\n{sweep.table}", "sweep.md")
            note = {"mlflow.note.content": said}
            first = sweep.children[0]  # all are measured on the same texts
            measured = {"evaluation_set": shown_set(first.evaluation_set)}
            about |= {  # as of trainings
                f"{COMPARED}{label}": in_utf8(one["reference"])
                for label, one in first.evaluation.get("compared", {}).items()
            }
            parent = self._new_run(experiment_id, sweep.title, {**about, **note, **measured})
            points = _of_set(_points({}, sweep.curves, 0), first.set_number)
            self._log(parent, {**sweep.params, **measured}, points)
            inputs = [dataset_input(one) for one in sweep.inputs]
            insisting(lambda: self._client.log_inputs(parent.run_id, inputs))
            self.add_files(parent.run_id, sweep.figures, "figures")
            self._add_text(parent.run_id, in_utf8(sweep.table), "sweep.md")
            for child in sweep.children:
                measured = {"evaluation_set": shown_set(child.evaluation_set)}
                nested = {**about, **measured, "mlflow.parentRunId": parent.run_id}
                run = self._new_run(experiment_id, child.title, nested)
                points = _points(child.metrics, child.curves, child.vocab_size)
                points = _of_set(points, child.set_number)
                self._log(run, {**child.params, **measured}, points)
                record = json.dumps(dict(child.evaluation), indent=2)
                self._add_text(run.run_id, record, "evaluation.json")
                self._finish(run)
            self._finish(parent)
            return parent

    def dataset_run(self, name: str, manifest_digest: str, output: str) -> TrackedRun | None:
        """The run that shows the dataset with this manifest in this place; None when none does."""
        with self._answering(f"looking for a dataset of {name}"):
            found = self._dataset_runs(name, manifest_digest, output, " and status = 'FINISHED'")
            return found[0] if found else None

    def record_dataset(self, dataset: DatasetRecord) -> TrackedRun:
        """Show an encoded dataset as a run; one that was cut short is continued."""
        with self._answering(f"recording a dataset of {dataset.name}"):
            experiment_id = self._experiment_of(dataset.name)
            unfinished = self._dataset_runs(
                dataset.name, dataset.manifest_digest, dataset.output, " and status = 'RUNNING'"
            )
            tags = {
                "mlflow.source.name": "bpeline",
                "mlflow.note.content": shortened_page(
                    f"{dataset.note}\n\n{STEP_IS_IDS}", f"dataset/{dataset.manifest.name}"
                ),
                "kind": "dataset",
                "version": dataset.version,
                "digest": dataset.digest,
                "output": shortened(dataset.output),
                "manifest_digest": dataset.manifest_digest,
            }
            title = f"{dataset.version} dataset"
            run = unfinished[0] if unfinished else self._new_run(experiment_id, title, tags)
            points = _points(dataset.metrics, {}, dataset.step)
            self._log(run, dataset.params, points)
            source = [dataset_input(dataset.source)]
            insisting(lambda: self._client.log_inputs(run.run_id, source))
            self.add_files(run.run_id, [dataset.manifest], "dataset")
            self._finish(run)
            return run

    def _dataset_runs(
        self, name: str, manifest_digest: str, output: str, further: str
    ) -> list[TrackedRun]:
        experiment = self._experiment_named(name)
        if experiment is None:
            return []
        found = self._client.search_runs(
            [experiment.experiment_id],
            filter_string=f"tags.manifest_digest = '{manifest_digest}'{further}",
            order_by=["attributes.start_time DESC"],
        )
        return [
            TrackedRun(run.info.run_id, run.info.experiment_id)
            for run in found
            if run.data.tags.get("output") == shortened(output)
        ]

    def _new_run(
        self, experiment_id: str, title: str, tags: Mapping[str, str], started_at: str = ""
    ) -> TrackedRun:
        owned = {"mlflow.user": in_utf8(this_user()), **tags, OWNER_TAG: self.settings.owner}
        begin = milliseconds(started_at) if started_at else None
        info = self._client.create_run(experiment_id, begin, owned, title).info
        self._require(info.run_id, "the run that it has just made")
        return TrackedRun(info.run_id, info.experiment_id)

    def _finish(self, run: TrackedRun, end_ms: int | None = None) -> None:
        self._client.set_terminated(run.run_id, end_time=end_ms)
        self._require_status(run.run_id, "FINISHED")

    def _require_status(self, mlflow_run_id: str, status: str) -> None:
        shown = self._client.get_run(mlflow_run_id).info.status
        self._require(shown == status, f"that the run {mlflow_run_id} is {status}")

    def _log_values(self, run: TrackedRun, publication: Publication) -> None:
        curves = {CURVE_METRIC: publication.curve, **publication.curves}
        points = _points(publication.metrics, curves, publication.vocab_size)
        # Beside ``evaluation``, which says what was asked for and not what was measured on.
        params = {**publication.params, "evaluation_set": shown_set(publication.evaluation_set)}
        self._log(run, params, _of_set(points, publication.set_number))

    def add_metrics(
        self, mlflow_run_id: str, metrics: Mapping[str, float], step: int, set_number: int
    ) -> None:
        """Show what was measured of a version later, on another evaluation set of its name."""
        with self._answering(f"adding metrics to the run {mlflow_run_id}"):
            shown = self._client.get_run(mlflow_run_id)
            run = TrackedRun(mlflow_run_id, shown.info.experiment_id)
            named = {shown_metric(name, set_number): value for name, value in metrics.items()}
            self._log(run, {}, _points(named, {}, step))

    def _log(self, run: TrackedRun, params: Mapping[str, Any], points: Points) -> None:
        # A fixed time makes repeating harmless: MLflow keeps one point per key, time and step.
        shown = self._client.get_run(run.run_id)
        time_ms = int(shown.info.start_time)
        metrics = [point(key, value, time_ms, step) for (key, step), value in points.items()]
        # MLflow lets nobody change a parameter: a run that is continued keeps those it began with.
        new = {key: value for key, value in params.items() if key not in shown.data.params}
        listed = [parameter(key, shortened(as_text(value))) for key, value in sorted(new.items())]
        self._log_points(run, metrics)
        for begin in range(0, len(listed), PARAMS_PER_REQUEST):
            batch = listed[begin : begin + PARAMS_PER_REQUEST]
            self._client.log_batch(run.run_id, params=batch)
        if metrics or listed:
            kept = self._client.get_run(run.run_id).data
            self._require(new.keys() <= kept.params.keys(), "the parameters of a run")
            self._require({key for key, _ in points} <= kept.metrics.keys(), "its metrics")

    def _log_points(self, run: TrackedRun, points: Sequence[Any]) -> None:
        for begin in range(0, len(points), METRICS_PER_REQUEST):
            batch = points[begin : begin + METRICS_PER_REQUEST]
            self._client.log_batch(run.run_id, metrics=batch)


def _points(
    metrics: Mapping[str, float], curves: Mapping[str, tuple[tuple[int, float], ...]], size: int
) -> Points:
    """Every point once: what is measured at the full size wins over the end of a curve."""
    points = {(key, step): value for key, curve in curves.items() for step, value in curve}
    return points | {(key, size): value for key, value in metrics.items()}


def _of_set(points: Points, number: int) -> Points:
    """The same under names that tell which evaluation set of the name they were measured on."""
    return {(shown_metric(name, number), step): one for (name, step), one in points.items()}
