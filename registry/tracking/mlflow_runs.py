"""MLflow experiments and runs of trainings and drift.

Each tokenizer name has one experiment. The step of a metric is the vocab size, so that MLflow
overlays the runs as compression curves. One run per name records drift; its steps are observation
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bpeline.registry.environment import this_user
from bpeline.registry.records import (
    CURVE_METRIC,
    CorpusInput,
    DriftObservation,
    PastObservation,
    Publication,
    RunRecord,
    as_text,
)
from bpeline.registry.tracking import descriptions, tracked
from bpeline.registry.tracking.mlflow_client import Connection
from bpeline.registry.tracking.mlflow_errors import (
    MISSING,
    THERE,
    answering,
    fine_if,
    insisting,
    unshown,
)
from bpeline.registry.tracking.tracked import TrackedVersion, run_page
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.evaluation import depends_on_text
from bpeline.tokenizer_core.urls import is_url

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Run, RunInfo

MODEL_FOLDER = "tokenizer"
METRICS_FILE = "metrics.json"
DRIFTED = "drift/drifted"  # in every observation, so its last step is the number of observations
# "not judged" has its own value, so that charts and searches do not take it for "not drifted".
DRIFTED_VALUES: dict[str, float] = {"drifted": 1.0, "not drifted": 0.0, "not judged": -1.0}
_KNOWN_LATER = 4  # params known at the end: the evaluation set and the compared versions
_DIGEST_DIGITS = 36  # width of MLflow's column for dataset digests

# Decisive metrics and params are logged; the others are in artifacts: a table of a hundred columns
# would hide the important ones.
MOST_METRICS = 40
MOST_PARAMS = 15

# Most important first; names that match one pattern are sorted.
_METRICS = (
    "compression/bytes_per_token",
    "vs_champion_percent/all*",
    "vs_champion_beyond_chance/all",
    "evaluated/roundtrip_failures",
    "privacy/suspicious_tokens",
    "words/fertility",
    "words/distinct_in_one_token",
    "vocabulary/utilization",
    "vocabulary/unreachable_tokens",
    "training/dead_tokens",
    "training/rare_tokens",
    "training/junk_tokens",
    "distribution/renyi_efficiency_2.5",
    "compression/unigram_bits_per_byte",
    "robustness/case_inflation",
    "robustness/styling_inflation",
    "robustness/white_space_inflation",
    "evaluated/encode_mb_per_second",
    "evaluated/decode_mb_per_second",
    "serving/flops_per_byte*",
    "corpus/bytes",
    "corpus/documents",
    "corpus/words",
    "corpus/distinct_words",
    "parity/*",
    "vs_*_percent/all",
    "bytes_per_token/*",
    "vs_champion_percent/*",
    "vs_champion_beyond_chance/*",
    "fertility/*",
    "premium/*",
    # Of sweeps, datasets and drift.
    "sweep_*",
    "dataset/*",
    "encode/*",
    "drift/*",
    "new_text/*",
)
_INTERVAL = ("_low", "_high")
_PARAMS = (
    "champion", "evaluation_set", "extends", "renamed_from", "paths", "sources", "algorithm",
    "vocab_size", "pattern", "special_tokens", "weights", "temperature", "required_tokens",
    "min_count", "held_out", "tie_break", "evaluation", "baselines", "invalid_utf8",
)  # fmt: skip
# Technical settings, and values shown elsewhere.
_NOT_SHOWN = {
    "compared_with.champion", "measured_on", "min_word_count", "table_memory", "text_field",
    "workers",
}  # fmt: skip


@answering
class Runs:
    """Experiments and runs; recording a run again continues it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def _client(self) -> Any:
        return self._connection.client

    def open_run(self, record: RunRecord) -> RunInfo:
        """Start the MLflow run of a training, or set an existing one to running."""
        run = self._run_of(record)
        if run.status != "RUNNING":
            self._client.update_run(run.run_id, status="RUNNING")
        self._log(run, record, MOST_PARAMS - _KNOWN_LATER)
        return run

    def close_run(self, name: str, run_id: str, status: str, error: str = "", at: str = "") -> None:
        """End the run of a training that published nothing, unless it has ended.

        Args:
            status: ``FAILED`` or ``KILLED``.
            at: end time, UTC, ISO 8601; by default now.
        """
        run = self._find_run(name, run_id)
        if run is None or run.status != "RUNNING":
            return
        if error:
            self._client.set_tag(run.run_id, "error", tracked.shortened(error))
        self._client.set_terminated(run.run_id, status, tracked.milliseconds(at) if at else None)

    def record_run(
        self, publication: Publication, files: Sequence[Path], made: TrackedVersion | None = None
    ) -> RunInfo:
        """Record the result of a training in the run of `open_run`, or in a new one.

        Args:
            made: the existing version that the training reproduced.
        """
        record = _record_of(publication, files)
        run = self._run_of(record)
        if made is not None and made.mlflow_run_id != run.run_id:
            again = {"mlflow.runName": f"{made.name}/{made.number} again"}
            record = replace(record, tags={**record.tags, **again})
        page = run_page(run.experiment_id, run.run_id, "report/report.html")
        return self.record(
            replace(record, note=descriptions.description_of(publication, page)), run
        )

    def log_model_metrics(self, run: RunInfo, model_id: str, publication: Publication) -> None:
        """Log the decisive metrics on the page of a stored model, with their datasets."""
        record = replace(_record_of(publication), curves={})
        self._client.log_batch(run.run_id, _metrics(record, run, model_id), synchronous=True)

    def withdraw_run(self, name: str, run_id: str) -> None:
        """Delete the run of a training that reproduced a rejected version."""
        if run := self._find_run(name, run_id):
            self.remove_run(run.run_id)

    def record(self, record: RunRecord, run: RunInfo | None = None) -> RunInfo:
        """Record a finished run."""
        run = run or self._run_of(record)
        self._log(run, record)
        inputs = [_dataset_input(source) for source in record.inputs]
        insisting(lambda: self._client.log_inputs(run.run_id, inputs))
        self._write_files(run, record.files)
        for child in record.children:
            tags = {**child.tags, "mlflow.parentRunId": run.run_id}
            self.record(replace(child, tags=tags))
        end = tracked.milliseconds(record.ended_at) if record.ended_at else None
        self._client.set_terminated(run.run_id, end_time=end)
        return run

    def dataset_run(
        self, name: str, manifest_digest: str, output: str, status: str = "FINISHED"
    ) -> RunInfo | None:
        """Return the latest run of a dataset by its manifest and output path, or None."""
        chosen = f"tags.manifest_digest = '{manifest_digest}' and status = '{status}'"
        shown = [
            run.info
            for run in self._search(name, chosen)
            if run.data.tags.get("output") == tracked.in_utf8(output)
        ]
        return shown[-1] if shown else None

    def artifact_locations(self) -> dict[str, str]:
        """Return experiment name → artifact location."""
        return {
            experiment.name: experiment.artifact_location
            for experiment in self._client.search_experiments()
        }

    def metrics_of(self, mlflow_run_id: str) -> dict[str, float]:
        """Return the last value of each metric of a run; empty if the run is gone."""
        with fine_if(MISSING):
            run = self._client.get_run(mlflow_run_id)
            return {**self._whole_metrics(run.info), **tracked.plain_metrics(run.data.metrics)}
        return {}

    def lineage_of(self, mlflow_run_id: str) -> tuple[str, str]:
        """Return the digests of the corpus and the word counts of a run; else empty."""
        with fine_if(MISSING):
            tags = self._client.get_run(mlflow_run_id).data.tags
            return tags.get("corpus_digest", ""), tags.get("counts_digest", "")
        return "", ""

    def add_metrics(
        self, mlflow_run_id: str, metrics: Mapping[str, float], step: int, set_number: int
    ) -> None:
        """Log metrics of a version that was measured later on another evaluation set."""
        run = self._client.get_run(mlflow_run_id).info
        record = RunRecord(name="", metrics=metrics, step=step, set_number=set_number)
        self._log(run, record)
        self._write_files(run, {METRICS_FILE: _json({**self._whole_metrics(run), **metrics})})

    def add_files(self, mlflow_run_id: str, files: Mapping[str, Path | str]) -> RunInfo:
        """Upload files to a run, see `RunRecord`; existing artifacts are replaced."""
        run = self._client.get_run(mlflow_run_id).info
        self._write_files(run, files)
        return run

    def unended_runs(self) -> list[tracked.Unended]:
        """Return the runs of this workspace that MLflow shows as running."""
        experiments = [experiment.experiment_id for experiment in self._client.search_experiments()]
        owner = f"tags.{tracked.OWNER_TAG} = '{self._connection.settings.owner}'"
        runs = self._client.search_runs(experiments, f"attributes.status = 'RUNNING' and {owner}")
        return [
            tracked.Unended(run.info.run_id, run.data.tags.get("run_id", ""), run.info.start_time)
            for run in runs
        ]

    def remove_run(self, mlflow_run_id: str) -> None:
        """Delete a run; MLflow only hides it."""
        with fine_if(MISSING):  # another process was faster
            self._client.delete_run(mlflow_run_id)

    def record_drift(self, observation: DriftObservation) -> tuple[RunInfo, int]:
        """Add an observation to the drift run of its name, created for the first one.

        ``metrics`` must contain `DRIFTED`, which is logged last: if the call is interrupted before
        that, the next observation takes the same number.

        Returns:
            The run, and the number of the observation, from 1.
        """
        from mlflow.entities import Metric, RunTag

        name = observation.name
        runs = self._drift_runs(name)
        drift = RunRecord(name=name, title=f"drift {name}", tags={"kind": "drift"})
        run = runs[0].info if runs else self._begin_run(drift)
        past = self._client.get_metric_history(run.run_id, DRIFTED)
        number = max((point.step for point in past), default=0) + 1
        place = f"observations/{number:06}.json"
        record = json.dumps({**observation.record, "observation": number}, indent=2)
        self._write_files(run, {place: record})
        last = sorted(observation.metrics.items(), key=lambda metric: metric[0] == DRIFTED)
        points = [Metric(key, value, observation.time_ms, number) for key, value in last]
        title, _, rest = observation.page.partition("\n")
        page = f"{title}\n\nIn charts of metrics, *Step* is the observation's number.\n{rest}"
        verdict = RunTag(f"observation.{number}", tracked.shortened(observation.said))
        note = RunTag("mlflow.note.content", descriptions.shortened_page(page, place))
        self._log_batch(run.run_id, points, [], [verdict, note])
        self._client.set_terminated(run.run_id)
        shown = self._client.get_metric_history(run.run_id, DRIFTED)
        if number not in (point.step for point in shown):
            raise unshown(self._connection.settings.place, f"observation {number}")
        return run, number

    def past_observations(self, name: str, metrics: Sequence[str]) -> list[PastObservation]:
        """Return the drift observations of a name with some of their metrics, in order."""
        times: dict[int, int] = {}
        values: dict[int, dict[str, float]] = {}
        for run in self._drift_runs(name):
            for key in {DRIFTED, *metrics} & run.data.metrics.keys():
                for point in self._client.get_metric_history(run.info.run_id, key):
                    values.setdefault(point.step, {})[key] = point.value
                    times[point.step] = point.timestamp
        # Without `DRIFTED`, recording was interrupted: skip it.
        happened = (number for number in sorted(values) if DRIFTED in values[number])
        return [PastObservation(number, times[number], values[number]) for number in happened]

    def _drift_runs(self, name: str) -> list[Run]:
        """Return the drift run of a name, or an empty list."""
        return self._search(name, "tags.kind = 'drift'")[:1]

    def _make_experiment(self, name: str) -> str:
        """Return the experiment id of a name; creates a missing experiment."""
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            # Without an absolute location MLflow writes to ./mlruns of the current directory.
            location = self._connection.settings.artifact_location
            place = None if location is None else f"{location.rstrip('/')}/{name}"
            note = {"mlflow.note.content": descriptions.description_of_experiment(name)}
            with fine_if(THERE):  # another process was faster
                return str(self._client.create_experiment(name, place, note))
            experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            raise unshown(self._connection.settings.place, f"the experiment {name}")
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)

    def _search(self, name: str, chosen: str) -> list[Run]:
        """Return the runs of a name, oldest first."""
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            return []
        order = ["attributes.start_time ASC"]
        return list(self._client.search_runs([experiment.experiment_id], chosen, order_by=order))

    def _run_of(self, record: RunRecord) -> RunInfo:
        """Return the run of a training, or a new one."""
        return self._find_run(record.name, record.run_id) or self._begin_run(record)

    def _find_run(self, name: str, run_id: str) -> RunInfo | None:
        """Return the MLflow run of a bpeline run; deletes duplicates of lost replies."""
        matches = self._search(name, f"tags.run_id = '{run_id}'") if run_id else []
        # The run with the most tags, since a version may be registered from it; then the oldest.
        runs = [run.info for run in sorted(matches, key=lambda run: -len(run.data.tags))]
        for other in runs[1:]:
            self.remove_run(other.run_id)
        return runs[0] if runs else None

    def _begin_run(self, record: RunRecord) -> RunInfo:
        """Create a run exactly once, although MLflow's client may retry or lose the reply."""
        tags = {
            "mlflow.user": tracked.in_utf8(record.started_by or this_user()),
            "mlflow.source.name": "bpeline",
            tracked.OWNER_TAG: self._connection.settings.owner,
            **_tags(record),
        }
        begin = tracked.milliseconds(record.started_at) if record.started_at else None
        title = record.title or f"{record.name}-{record.run_id}"
        experiment_id = self._make_experiment(record.name)
        failure: Exception = unshown(
            self._connection.settings.place, "the run that it has just created"
        )
        created: RunInfo | None = None
        try:
            created = self._client.create_run(experiment_id, begin, tags, title).info
        except Exception as error:  # the reply may be lost although the run exists
            failure = error
        run = self._find_run(record.name, record.run_id) or created
        if run is None or not run.run_id:
            raise failure
        return run

    def _log(self, run: RunInfo, record: RunRecord, most_params: int = MOST_PARAMS) -> None:
        """Log tags, and the decisive parameters and metrics."""
        from mlflow.entities import Param, RunTag

        # MLflow's params are immutable: a continued run keeps its first ones.
        existing = self._client.get_run(run.run_id).data.params
        params = decisive_params(record.params, most_params)
        self._log_batch(
            run.run_id,
            _metrics(record, run),
            [
                Param(key, tracked.shortened(as_text(value)))
                for key, value in sorted(params.items())
                if key not in existing
            ],
            [RunTag(key, value) for key, value in _tags(record).items()],
        )

    def _log_batch(self, mlflow_run_id: str, *batch: Sequence[Any]) -> None:
        # In another thread, because MLflow links metrics to the active model of this one.
        with ThreadPoolExecutor(1) as thread:
            log = self._client.log_batch
            thread.submit(log, mlflow_run_id, *batch, synchronous=True).result()

    def _write_files(self, run: RunInfo, files: Mapping[str, Path | str]) -> None:
        store = self._connection.artifacts_at(run.artifact_uri)
        with TemporaryDirectory(prefix="bpeline-") as aside, DURABLE.passing(Path(aside)):
            for place, content in files.items():
                folder, _, name = place.rpartition("/")
                if isinstance(content, str):
                    text, content = content, Path(aside) / name
                    DURABLE.write(content, tracked.in_utf8(text).encode())
                store.log_artifact(str(content), folder or None)

    def _whole_metrics(self, run: RunInfo) -> dict[str, float]:
        """Read `METRICS_FILE` of a run; empty for runs of earlier releases."""
        store = self._connection.artifacts_at(run.artifact_uri)
        if METRICS_FILE not in {file.path for file in store.list_artifacts()}:
            return {}
        with TemporaryDirectory(prefix="bpeline-") as aside:
            store.download_artifacts(METRICS_FILE, dst_path=aside)
            metrics = read_json(Path(aside) / METRICS_FILE)
        return {str(key): float(value) for key, value in metrics.items()}


def decisive_metrics(names: Iterable[str]) -> list[str]:
    """Return the metric names to log, most important first."""
    remaining, chosen = sorted(names), list[str]()
    for pattern in _METRICS:
        fitting = [name for name in remaining if fnmatchcase(name, pattern) and name not in chosen]
        if pattern.endswith("/*"):  # slices without their intervals, which the pages show
            fitting = [name for name in fitting if not name.endswith(_INTERVAL)]
        chosen += fitting
    return chosen[:MOST_METRICS]


def decisive_params(params: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return up to ``most`` params to log: the decisive ones, then others."""
    present = {key: value for key, value in params.items() if value not in (None, "", [], {}, ())}
    first = [key for key in _PARAMS if key in present]
    others = sorted(present.keys() - set(first) - _NOT_SHOWN)
    return {key: present[key] for key in [*first, *others][:most]}


def _record_of(publication: Publication, files: Sequence[Path] = ()) -> RunRecord:
    shown_by_mlflow = {k: v for k, v in publication.tags.items() if k.startswith("mlflow.")}
    about = {k: v for k, v in publication.tags.items() if k not in shown_by_mlflow}
    # ``evaluation`` is the requested option; this is the set that was measured on.
    measured = {"evaluation_set": tracked.shown_set(publication.evaluation_set)}
    return RunRecord(
        name=publication.name,
        run_id=publication.run_id,
        started_at=publication.started_at or publication.created_at,
        started_by=publication.started_by,
        ended_at=publication.created_at,
        tags={
            **shown_by_mlflow,
            "digest": publication.digest,
            "corpus_digest": publication.corpus_digest,
            "counts_digest": publication.counts_digest,
        },
        params={**publication.params, **measured, **about},
        metrics=publication.metrics,
        curves={CURVE_METRIC: publication.curve, **publication.curves},
        step=publication.vocab_size,
        set_number=publication.set_number,
        inputs=publication.inputs,
        files={
            **{f"{MODEL_FOLDER}/{path.name}": path for path in files},
            **{f"figures/{path.name}": path for path in publication.figures},
            **{f"{path.stem}/{path.name}": path for path in publication.pages},
            **({"report.md": publication.report} if publication.report else {}),
            "params.json": _json(publication.params),
            METRICS_FILE: _json(publication.metrics),
        },
        note_file="report.md",
    )


def _tags(record: RunRecord) -> dict[str, str]:
    tags = {key: tracked.in_utf8(value) for key, value in record.tags.items()}
    if record.run_id:
        tags["run_id"] = record.run_id
    if record.note:
        tags["mlflow.note.content"] = descriptions.shortened_page(record.note, record.note_file)
    return tags


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), indent=2, sort_keys=True, default=as_text)


def _metrics(record: RunRecord, run: RunInfo, model_id: str | None = None) -> list[Metric]:
    """Return the decisive metrics of a record; those of a model name their dataset."""
    from mlflow.entities import Metric

    decisive = set(decisive_metrics({name for name, _ in record.points}))
    texts = next((source for source in record.inputs if source.context == "evaluation"), None)
    metrics = []
    for (name, step), value in record.points.items():
        if name not in decisive:
            continue
        measured_on = texts if model_id and depends_on_text(name) else None
        metrics.append(
            Metric(
                tracked.shown_metric(name, record.set_number),
                value,
                # With a fixed time, retries add no points: MLflow keeps one per key, time, step.
                int(run.start_time),
                step,
                model_id=model_id,
                dataset_name=measured_on and tracked.in_utf8(measured_on.name),
                dataset_digest=measured_on and measured_on.digest[:_DIGEST_DIGITS],
            )
        )
    return metrics


def _dataset_input(source: CorpusInput) -> DatasetInput:
    # Built by hand, because MLflow warns when it guesses the type of a local path.
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return DatasetInput(
        Dataset(
            name=tracked.in_utf8(source.name),
            digest=source.digest[:_DIGEST_DIGITS],
            source_type=source.source.split("://")[0] if is_url(source.source) else "local",
            source=json.dumps({"uri": source.source}),
            profile=json.dumps({"digest": source.digest}),
        ),
        [InputTag("mlflow.data.context", source.context)],
    )
