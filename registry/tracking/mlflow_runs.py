"""MLflow's experiments and runs: what was asked of a training, and what came of it.

One experiment for each name. Metrics carry the vocab size as step, so that the runs of a name
overlay as compression curves. Knows no workspace and no catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bpeline.registry.environment import this_user
from bpeline.registry.records import (
    CURVE_METRIC,
    CorpusInput,
    DatasetRecord,
    Publication,
    SweepRecord,
    as_text,
)
from bpeline.registry.tracking.decisive import MOST_PARAMS, decisive_metrics, decisive_params
from bpeline.registry.tracking.descriptions import (
    STEP_IS_IDS,
    description_of,
    description_of_experiment,
    shortened_page,
)
from bpeline.registry.tracking.mlflow_client import Connection
from bpeline.registry.tracking.mlflow_errors import already_exists, insisting, unshown
from bpeline.registry.tracking.tracked import (
    COMPARED,
    OWNER_TAG,
    StartedRun,
    TrackedRun,
    TrackedVersion,
    UnendedRun,
    in_utf8,
    lineage_tags,
    milliseconds,
    plain_metrics,
    shortened,
    shown_metric,
    shown_set,
)
from bpeline.registry.tracking.ui_links import run_page
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.evaluation import depends_on_text
from bpeline.tokenizer_core.urls import is_url

MODEL_FOLDER = "tokenizer"
METRICS_FILE = "metrics.json"
_KNOWN_LATER = 4  # parameters: the evaluation set, and what it was compared with
DATASET_DIGEST_DIGITS = 36  # the width of MLflow's column

Points = dict[tuple[str, int], float]  # by name and step


class Runs:
    """Runs, each recorded once however often that is tried."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = connection.settings.owner
        self._stores: dict[str, Any] = {}  # of runs, by their ids in MLflow, where their files are

    @property
    def _client(self) -> Any:
        return self._connection.client

    # ---- a training --------------------------------------------------------------------------

    def open_run(self, run: StartedRun) -> TrackedRun:
        """Show that a training runs: since when, who started it, what was asked for.

        One that was shown before, and perhaps had ended, runs again.
        """
        with self._connection.answering(f"showing a run of {run.name}"):
            experiment_id = self.experiment_of(run.name)
            shown = self._find_run(experiment_id, run.run_id)
            if shown is None:
                shown = self._begin_run(experiment_id, run)
            else:
                self._client.update_run(shown.run_id, status="RUNNING")
            # What is known later has its places left.
            self._log(shown, decisive_params(run.params, MOST_PARAMS - _KNOWN_LATER), {})
            return shown

    def close_run(self, name: str, run_id: str, status: str, error: str = "", at: str = "") -> None:
        """Show how a training ended that published nothing; one that is not shown stays so.

        Args:
            status: ``FAILED`` or ``KILLED``; what ended otherwise meanwhile stays as it is.
            error: why.
            at: when, UTC, ISO 8601; by default now.
        """
        with self._connection.answering(f"showing the end of a run of {name}"):
            experiment = self._connection.experiment_named(name)
            shown = None if experiment is None else self._find_run(experiment.experiment_id, run_id)
            if shown is None or self._client.get_run(shown.run_id).info.status != "RUNNING":
                return
            self.end_run(shown.run_id, status, error, at)

    def record_run(
        self, publication: Publication, files: Sequence[Path], made: TrackedVersion | None = None
    ) -> TrackedRun:
        """Show what came of a training: parameters, metrics, curve, inputs, files, figures, report.

        The run is the one that `open_run` has shown, or is made now. Repeating it after an
        interruption continues the same run. ``files`` are the tokenizer's, shown under
        ``tokenizer/``. ``made`` is the version that it made once more.
        """
        with self._connection.answering(f"recording a run of {publication.name}"):
            run = self._run_of(publication)
            if made is not None and made.mlflow_run_id != run.run_id:
                called = f"{made.name}/{made.number} again"
                self._client.set_tag(run.run_id, "mlflow.runName", called)
            curves = {CURVE_METRIC: publication.curve, **publication.curves}
            points = _points(publication.metrics, curves, publication.vocab_size)
            # Beside ``evaluation``, which says what was asked for and not what was measured on.
            measured = {"evaluation_set": shown_set(publication.evaluation_set)}
            about = {k: v for k, v in publication.tags.items() if not k.startswith("mlflow.")}
            params = {**publication.params, **measured, **about}
            self._log(run, params, points, publication.set_number)
            self._log_inputs(run, publication.inputs)
            self.add_files(run.run_id, files, MODEL_FOLDER)
            self.add_files(run.run_id, publication.figures, "figures")
            for page in publication.pages:
                self.add_files(run.run_id, [page], page.stem)
            if publication.report:
                self.add_report(run.run_id, publication.report)
            self._add_json(run.run_id, publication.params, "params.json")
            self._add_json(run.run_id, publication.metrics, METRICS_FILE)
            ended = publication.created_at
            end = milliseconds(ended) if ended else None
            self._client.set_terminated(run.run_id, end_time=end)
            return run

    def log_model_metrics(self, run: TrackedRun, model_id: str, publication: Publication) -> None:
        """Show the decisive metrics on the page of a stored model, with the texts they are of."""
        from mlflow.entities import Metric

        time_ms = int(self._client.get_run(run.run_id).info.start_time)
        texts = next((one for one in publication.inputs if one.context == "evaluation"), None)
        metrics = []
        for name in decisive_metrics(publication.metrics):
            of_text = texts is not None and depends_on_text(name)
            metrics.append(Metric(
                shown_metric(name, publication.set_number), publication.metrics[name], time_ms,
                publication.vocab_size, model_id=model_id,
                dataset_name=in_utf8(texts.name) if of_text and texts else None,
                dataset_digest=texts.digest[:DATASET_DIGEST_DIGITS] if of_text and texts else None,
            ))  # fmt: skip
        self._client.log_batch(run.run_id, metrics, synchronous=True)

    def _run_of(self, publication: Publication) -> TrackedRun:
        experiment_id = self.experiment_of(publication.name)
        shown = self._find_run(experiment_id, publication.run_id)
        if shown is None:
            started = publication.started_at or publication.created_at
            run = StartedRun(publication.name, publication.run_id, started, publication.started_by)
            shown = self._begin_run(experiment_id, run)
        page = run_page(shown.experiment_id, shown.run_id, "report/report.html")
        shown_by_mlflow = {k: v for k, v in publication.tags.items() if k.startswith("mlflow.")}
        self._set_tags(shown, {
            **shown_by_mlflow,
            **lineage_tags(publication),
            "mlflow.note.content": description_of(publication, page),
        })  # fmt: skip
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
            made = self.new_run(experiment_id, f"{run.name}-{run.run_id}", tags, run.started_at)
        except Exception as error:  # the reply may be lost and the run there all the same
            failure = error
        shown = self._find_run(experiment_id, run.run_id)
        if shown is None and failure is not None:
            raise failure
        return shown or made

    def withdraw_run(self, name: str, run_id: str) -> None:
        """Take away the run of a training that only made again what was refused before."""
        with self._connection.answering(f"removing a run of {name}"):
            if shown := self._find_run(self.experiment_of(name), run_id):
                self.remove_run(shown.run_id)

    # ---- any run -----------------------------------------------------------------------------

    def metrics_of(self, mlflow_run_id: str) -> dict[str, float]:
        """The last value of every metric of a run; empty when the run is gone."""
        with self._connection.answering(f"reading the run {mlflow_run_id}"):
            with self._connection.fine_if_missing():
                shown = self._client.get_run(mlflow_run_id).data.metrics
                return {**self._whole_metrics(mlflow_run_id), **plain_metrics(shown)}
            return {}

    def _whole_metrics(self, mlflow_run_id: str) -> dict[str, float]:
        """What `METRICS_FILE` of a run holds; nothing where an earlier release recorded it."""
        store = self._files_of(mlflow_run_id)
        if METRICS_FILE not in {one.path for one in store.list_artifacts()}:
            return {}
        with TemporaryDirectory(prefix="bpeline-") as aside:
            store.download_artifacts(METRICS_FILE, dst_path=aside)
            found = read_json(Path(aside) / METRICS_FILE)
        return {str(key): float(value) for key, value in found.items()}

    def lineage_of(self, mlflow_run_id: str) -> tuple[str, str]:
        """The digests of the corpus and of the word counts of a run; empty where not known."""
        with self._connection.answering(f"reading the run {mlflow_run_id}"):
            with self._connection.fine_if_missing():
                tags = self._client.get_run(mlflow_run_id).data.tags
                return tags.get("corpus_digest", ""), tags.get("counts_digest", "")
            return "", ""

    def add_metrics(
        self, mlflow_run_id: str, metrics: Mapping[str, float], step: int, set_number: int
    ) -> None:
        """Show what was measured of a version later, on another evaluation set of its name."""
        with self._connection.answering(f"adding metrics to the run {mlflow_run_id}"):
            shown = self._client.get_run(mlflow_run_id)
            run = TrackedRun(mlflow_run_id, shown.info.experiment_id)
            self._log(run, {}, _points(metrics, {}, step), set_number)
            whole = {**self._whole_metrics(mlflow_run_id), **metrics}
            self._add_json(mlflow_run_id, whole, METRICS_FILE)

    def add_files(self, mlflow_run_id: str, files: Sequence[Path], folder: str) -> None:
        """Show files with a run, in a folder of its artifacts."""
        with self._connection.answering(f"adding files to the run {mlflow_run_id}"):
            for path in files:
                self._files_of(mlflow_run_id).log_artifact(str(path), folder)

    def add_page(self, mlflow_run_id: str, page: Path) -> str:
        """Show an HTML file with a run; one of the same name is replaced.

        Returns:
            Where the UI shows it, below its own address.
        """
        self.add_files(mlflow_run_id, [page], page.stem)
        with self._connection.answering(f"reading the run {mlflow_run_id}"):
            experiment = self._client.get_run(mlflow_run_id).info.experiment_id
            return run_page(experiment, mlflow_run_id, f"{page.stem}/{page.name}")

    def add_report(self, mlflow_run_id: str, report: str) -> None:
        """Show a text with a run, in Markdown; the one that was there is replaced."""
        with self._connection.answering(f"adding the report of the run {mlflow_run_id}"):
            self.add_text(mlflow_run_id, in_utf8(report), "report.md")

    def unended_runs(self) -> list[UnendedRun]:
        """The runs that this workspace began to show and has not ended."""
        with self._connection.answering("looking for runs that have not ended"):
            experiments = [one.experiment_id for one in self._client.search_experiments()]
            owner = f"tags.{OWNER_TAG} = '{self._owner}'"
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
        with self._connection.answering("showing the end of a run"):
            if error:
                self._client.set_tag(mlflow_run_id, "error", shortened(error))
            end = milliseconds(at) if at else None
            self._client.set_terminated(mlflow_run_id, status, end)

    def remove_run(self, mlflow_run_id: str) -> None:
        """Take a run away; MLflow keeps it among its deleted ones."""
        with (
            self._connection.answering("removing a run"),
            self._connection.fine_if_missing(),  # another was faster
        ):
            self._client.delete_run(mlflow_run_id)

    # ---- sweeps and data sets ----------------------------------------------------------------

    def record_sweep(self, sweep: SweepRecord) -> TrackedRun:
        """Show a sweep: a run with the table and the picture, and a nested run for each child."""
        with self._connection.answering(f"recording a sweep of {sweep.name}"):
            experiment_id = self.experiment_of(sweep.name)
            about = {"mlflow.source.name": "bpeline", "kind": "sweep"}
            said = shortened_page(f"{STEP_IS_IDS}\n\n{sweep.table}", "sweep.md")
            note = {"mlflow.note.content": said}
            first = sweep.children[0]  # all are measured on the same texts
            measured = {"evaluation_set": shown_set(first.evaluation_set)}
            about |= {  # as of trainings
                f"{COMPARED}{label}": in_utf8(one["reference"])
                for label, one in first.evaluation.get("compared", {}).items()
            }
            parent = self.new_run(experiment_id, sweep.title, {**about, **note, **measured})
            points = _points({}, sweep.curves, 0)
            self._log(parent, {**sweep.params, **measured}, points, first.set_number)
            self._log_inputs(parent, sweep.inputs)
            self.add_files(parent.run_id, sweep.figures, "figures")
            self.add_text(parent.run_id, in_utf8(sweep.table), "sweep.md")
            for child in sweep.children:
                measured = {"evaluation_set": shown_set(child.evaluation_set)}
                nested = {**about, **measured, "mlflow.parentRunId": parent.run_id}
                run = self.new_run(experiment_id, child.title, nested)
                points = _points(child.metrics, child.curves, child.vocab_size)
                self._log(run, {**child.params, **measured}, points, child.set_number)
                record = json.dumps(dict(child.evaluation), indent=2)
                self.add_text(run.run_id, record, "evaluation.json")
                self._client.set_terminated(run.run_id)
            self._client.set_terminated(parent.run_id)
            return parent

    def dataset_run(self, name: str, manifest_digest: str, output: str) -> TrackedRun | None:
        """The run that shows the dataset with this manifest in this place; None when none does."""
        with self._connection.answering(f"looking for a dataset of {name}"):
            return self._dataset_run(name, manifest_digest, output, "FINISHED")

    def record_dataset(self, dataset: DatasetRecord) -> TrackedRun:
        """Show an encoded dataset as a run; one that was cut short is continued."""
        with self._connection.answering(f"recording a dataset of {dataset.name}"):
            experiment_id = self.experiment_of(dataset.name)
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
            run = self._dataset_run(
                dataset.name, dataset.manifest_digest, dataset.output, "RUNNING"
            ) or self.new_run(experiment_id, f"{dataset.version} dataset", tags)
            self._log(run, dataset.params, _points(dataset.metrics, {}, dataset.step))
            self._log_inputs(run, [dataset.source])
            self.add_files(run.run_id, [dataset.manifest], "dataset")
            self._client.set_terminated(run.run_id)
            return run

    def _dataset_run(
        self, name: str, manifest_digest: str, output: str, status: str
    ) -> TrackedRun | None:
        experiment = self._connection.experiment_named(name)
        if experiment is None:
            return None
        found = self._client.search_runs(
            [experiment.experiment_id],
            filter_string=f"tags.manifest_digest = '{manifest_digest}' and status = '{status}'",
            order_by=["attributes.start_time DESC"],
        )
        for run in found:
            if run.data.tags.get("output") == shortened(output):
                return TrackedRun(run.info.run_id, run.info.experiment_id)
        return None

    def artifact_locations(self) -> dict[str, str]:
        """The address under which MLflow keeps the files of each experiment, by its name."""
        with self._connection.answering("asking where files are"):
            return {one.name: one.artifact_location for one in self._client.search_experiments()}

    # ---- for the other files of this room ----------------------------------------------------

    def experiment_of(self, name: str) -> str:
        """The id of the experiment of a name, which is made where there is none."""
        found = self._connection.experiment_named(name)
        if found is None:
            # Without an absolute location MLflow writes to ./mlruns of the current directory.
            location = self._connection.settings.artifact_location
            place = None if location is None else f"{location.rstrip('/')}/{name}"
            said = {"mlflow.note.content": description_of_experiment(name)}
            try:
                return str(self._client.create_experiment(name, place, said))
            except Exception as error:
                found = self._connection.experiment_named(name)
                if found is None or not already_exists(error):  # else another process was faster
                    raise
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def new_run(
        self, experiment_id: str, title: str, tags: Mapping[str, str], started_at: str = ""
    ) -> TrackedRun:
        """Begin a run."""
        owned = {"mlflow.user": in_utf8(this_user()), **tags, OWNER_TAG: self._owner}
        begin = milliseconds(started_at) if started_at else None
        info = self._client.create_run(experiment_id, begin, owned, title).info
        if not info.run_id:
            raise unshown(self._connection.settings.place, "the run that it has just made")
        return TrackedRun(info.run_id, info.experiment_id)

    def _set_tags(self, run: TrackedRun, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        listed = [RunTag(key, in_utf8(value)) for key, value in tags.items()]
        self._client.log_batch(run.run_id, tags=listed, synchronous=True)

    def _log(
        self, run: TrackedRun, params: Mapping[str, Any], points: Points, set_number: int = 1
    ) -> None:
        """Show the decisive ones; names of metrics tell which evaluation set they are of."""
        from mlflow.entities import Metric, Param

        # A fixed time makes repeating harmless: MLflow keeps one point per key, time and step.
        shown = self._client.get_run(run.run_id)
        time_ms = int(shown.info.start_time)
        decisive = set(decisive_metrics({name for name, _ in points}))
        metrics = [
            Metric(shown_metric(name, set_number), value, time_ms, step)
            for (name, step), value in points.items()
            if name in decisive
        ]
        # MLflow lets nobody change a parameter: a run that is continued keeps those it began with.
        known = shown.data.params
        chosen = decisive_params(params, MOST_PARAMS)
        new = {key: value for key, value in chosen.items() if key not in known}
        listed = [Param(key, shortened(as_text(value))) for key, value in sorted(new.items())]
        self._connection.log(run.run_id, metrics, listed)

    def _log_inputs(self, run: TrackedRun, sources: Sequence[CorpusInput]) -> None:
        inputs = [_dataset_input(one) for one in sources]
        insisting(lambda: self._client.log_inputs(run.run_id, inputs))

    def _add_json(self, mlflow_run_id: str, values: Mapping[str, Any], place: str) -> None:
        text = json.dumps(dict(values), indent=2, sort_keys=True, default=as_text)
        self.add_text(mlflow_run_id, text, place)

    def add_text(self, mlflow_run_id: str, text: str, place: str) -> None:
        """Show a text with a run, at a place among its artifacts."""
        with TemporaryDirectory(prefix="bpeline-") as aside, DURABLE.passing(Path(aside)):
            file = Path(aside) / Path(place).name
            DURABLE.write(file, text.encode())
            folder = str(Path(place).parent) if Path(place).parent.name else None
            self._files_of(mlflow_run_id).log_artifact(str(file), folder)

    def _files_of(self, mlflow_run_id: str) -> Any:
        if mlflow_run_id not in self._stores:
            location = self._client.get_run(mlflow_run_id).info.artifact_uri
            self._stores[mlflow_run_id] = self._connection.artifacts_at(location)
        return self._stores[mlflow_run_id]


def _dataset_input(source: CorpusInput) -> Any:
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


def _points(
    metrics: Mapping[str, float], curves: Mapping[str, tuple[tuple[int, float], ...]], size: int
) -> Points:
    """Every point once: what is measured at the full size wins over the end of a curve."""
    points = {(key, step): value for key, curve in curves.items() for step, value in curve}
    return points | {(key, size): value for key, value in metrics.items()}
