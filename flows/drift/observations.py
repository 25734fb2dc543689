"""An observation of drift goes to MLflow: a point of each series, a record, a picture."""

from __future__ import annotations

from calendar import timegm
from dataclasses import replace
from time import strptime

from bpeline.flows.drift.drift_report import DriftReport
from bpeline.flows.name_page import show_name_page
from bpeline.flows.running import RECORD, step, telling
from bpeline.registry.aliases import WATCHED
from bpeline.registry.figures import draw_observations
from bpeline.registry.opening import Registry
from bpeline.registry.records import DriftObservation
from bpeline.registry.tracking import run_link
from bpeline.tokenizer_core.errors import RegistryUnreachable
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN, of_slice


def recorded(report: DriftReport, registry: Registry) -> DriftReport:
    """Tell MLflow; where it does not answer, what was found is worth telling all the same."""
    with telling(RECORD) as said:
        try:
            report = remember(report, registry)
            said.append(f"observation {report.observation} in MLflow")
            show_name_page(registry, report.name)
        except RegistryUnreachable as error:
            report = replace(report, notes=(*report.notes, f"not recorded: {error.happened}"))
            said.append("not recorded")
    return report


@step(RECORD)
def remember(report: DriftReport, registry: Registry) -> DriftReport:
    """Tell MLflow.

    Returns:
        The report with the number of the observation and a link to the series.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    why = ", ".join(str(one.rule) for one in report.broken or report.not_judged)
    observed = registry.tracker.drift.record_drift(
        DriftObservation(
            name=report.name,
            said=f"{report.reference}: {report.outcome}{': ' if why else ''}{why}",
            time_ms=timegm(strptime(report.at[:19], "%Y-%m-%dT%H:%M:%S")) * 1000,
            metrics=report.metrics(),
            record=report.as_dict(),
            page=report.markdown(),
        )
    )
    lines = {
        name: observed.series[f"drift/{of_slice(BYTES_PER_TOKEN, name)}"] for name in report.slices
    }
    own = report.slices[ALL].figures[BYTES_PER_TOKEN].own
    with registry.workspace.temporary_directory("drift") as directory:
        title = f"{report.name}: {observed.number} observations"
        place, watched = directory / "bytes-per-token.svg", dict(observed.series.get(WATCHED, ()))
        picture = draw_observations(lines, watched, place, title, own)
        registry.tracker.drift.show_drift(observed, [picture])
    link = run_link(registry.tracker.settings.ui, observed.experiment_id, observed.run_id)
    return replace(report, observation=observed.number, link=link)
