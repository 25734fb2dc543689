"""Drift in MLflow: one run for each tokenizer name, whose metrics are series of observations.

The step of a metric is the number of the observation, so the UI draws a line over time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.registry.records import DriftObservation, ObservedDrift, PastObservation
from bpeline.registry.tracking.descriptions import shortened_page
from bpeline.registry.tracking.mlflow_client import Connection
from bpeline.registry.tracking.mlflow_errors import unshown
from bpeline.registry.tracking.mlflow_runs import Runs
from bpeline.registry.tracking.tracked import TrackedRun, shortened

DRIFT = "drift"
DRIFTED = "drift/drifted"  # every observation has it, so its last step is their number
# What was not judged has a value of its own, which neither a search for 0 nor a chart takes for
# "not drifted", and in whose place no value of an observation before it stands.
DRIFTED_VALUES: dict[str, float] = {"drifted": 1.0, "not drifted": 0.0, "not judged": -1.0}


class Drift:
    """The series of a name; `Runs` has the runs of its versions."""

    def __init__(self, connection: Connection, runs: Runs) -> None:
        self._connection = connection
        self._runs = runs

    @property
    def _client(self) -> Any:
        return self._connection.client

    def record_drift(self, observation: DriftObservation) -> ObservedDrift:
        """Add one observation to the run of its name, which is made for the first.

        ``metrics`` must have `DRIFTED`. An observation that is cut short before its metrics are
        there has not happened: the next one takes its number.
        """
        from mlflow.entities import Metric

        with self._connection.answering(f"recording drift of {observation.name}"):
            run = self._drift_run(observation.name)
            past = self._client.get_metric_history(run.run_id, DRIFTED)
            number = max((one.step for one in past), default=0) + 1
            place = f"observations/{number:06}.json"
            record = {**observation.record, "observation": number}
            self._runs.add_text(run.run_id, json.dumps(record, indent=2), place)
            last = sorted(observation.metrics.items(), key=lambda one: one[0] == DRIFTED)
            time_ms = observation.time_ms
            points = [Metric(key, value, time_ms, number) for key, value in last]
            self._connection.log(run.run_id, points)
            title, _, rest = observation.page.partition("\n")
            page = f"{title}\n\nIn charts of metrics, *Step* is the observation's number.\n{rest}"
            for key, value in (
                (f"observation.{number}", shortened(observation.said)),
                ("mlflow.note.content", shortened_page(page, place)),
            ):
                self._client.set_tag(run.run_id, key, value, synchronous=True)
            self._client.set_terminated(run.run_id)
            series = {
                key: tuple(
                    (one.step, one.value)
                    for one in self._client.get_metric_history(run.run_id, key)
                )
                for key in observation.metrics
            }
            shown = [step for step, _ in series.get(DRIFTED, ())]
            if number not in shown:
                raise unshown(self._connection.settings.place, f"observation {number}")
            return ObservedDrift(run.run_id, run.experiment_id, number, series)

    def past_observations(self, name: str, metrics: Sequence[str]) -> list[PastObservation]:
        """What the series of a name has of some metrics, in order; empty where none was begun."""
        with self._connection.answering(f"reading the drift of {name}"):
            experiment = self._connection.experiment_named(name)
            runs = [] if experiment is None else self._drift_runs(experiment.experiment_id)
            times: dict[int, int] = {}
            found: dict[int, dict[str, float]] = {}
            for run in runs:
                for key in {DRIFTED, *metrics} & run.data.metrics.keys():
                    for one in self._client.get_metric_history(run.info.run_id, key):
                        found.setdefault(one.step, {})[key] = one.value
                        times[one.step] = one.timestamp
            # One that was cut short before its outcome was there has not happened.
            happened = (number for number in sorted(found) if DRIFTED in found[number])
            return [PastObservation(number, times[number], found[number]) for number in happened]

    def show_drift(self, observed: ObservedDrift, figures: Sequence[Path]) -> None:
        """Keep pictures with the run, in the place of those of the observation before."""
        self._runs.add_files(observed.run_id, figures, "figures")

    def _drift_run(self, name: str) -> TrackedRun:
        experiment_id = self._runs.experiment_of(name)
        found = self._drift_runs(experiment_id)
        if found:
            return TrackedRun(found[0].info.run_id, found[0].info.experiment_id)
        about = {"mlflow.source.name": "bpeline", "kind": DRIFT}
        return self._runs.new_run(experiment_id, f"drift {name}", about)

    def _drift_runs(self, experiment_id: str) -> list[Any]:
        """The run of the series, if there is one."""
        found: list[Any] = self._client.search_runs(
            [experiment_id],
            filter_string=f"tags.kind = '{DRIFT}'",
            max_results=1,
            order_by=["attributes.start_time ASC"],
        )
        return found
