"""The flow that measures how far new text has drifted from a registered version.

Its tasks follow below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bpeline.flows import counting, drift
from bpeline.flows.counting import CorpusPlan, CountedCorpus
from bpeline.flows.drift import CountedSlice, DriftReport, KnownText, NewText
from bpeline.flows.evaluation import left_out_for
from bpeline.flows.pages import show_name_page
from bpeline.flows.requests import DriftRequest, TrainingRequest, request_parameters, with_demo
from bpeline.flows.running import attempts, progress, steps, telling
from bpeline.flows.serving import find_version, flow, run_names, task
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.aliases import stuck_on
from bpeline.registry.catalogue import utc_now
from bpeline.registry.evaluation import read_drift_rules
from bpeline.registry.loading import load_version
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import ByAlias, validate_alias, validate_name
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.errors import RegistryError, RegistryUnreachable
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN, TextDrift, TextSample
from bpeline.tokenizer_core.tokenizer import Tokenizer


@flow(
    steps.WATCH_DRIFT,
    run_name=run_names.watching,
    about=run_names.tokenizer,
    called=lambda report: report.title,
    state=lambda report: ("Stuck" if report.stuck else "", report.stuck),
)
@request_parameters(DriftRequest)
def watch_drift(request: DriftRequest, workspace: str | None) -> DriftReport:
    """Measure the drift of new text from a version, and record it in MLflow.

    The text is counted like the version's corpus, with the same cache, so that later trainings
    reuse the counts. Drift is reported to the listener, see `Progress.drifted`.

    Raises:
        RegistryUnreachable: MLflow does not answer.
        WorkspaceLocked: another run uses the workspace.
    """
    name, alias = request.name, request.alias
    reference = ByAlias(validate_name(name), validate_alias(alias))
    registry = open_registry(workspace, make=False)
    text = NewText.asked(with_demo(request.paths, registry.workspace), request.sources)
    drift_rules = None if request.rules is None else read_drift_rules(Path(request.rules))
    if drift_rules is not None:
        drift.check_slices(drift_rules, list(text.slices), str(request.rules))
    with registry.workspace.lock(f"watching drift of {name!r}"):
        version = find_version(registry, reference)
        tokenizer = load_version(registry, version)
        lineage = Lineage.of(registry, version)
        own, new = drift.requests_of(text, lineage, tokenizer, request)
        for attempt in attempts(steps.WATCH_DRIFT, progress.current().note):
            with attempt:
                plan = plan_chunks(new, lineage, registry)
                corpus = count_words(new, plan, registry)
                counts = combine_counts(new, text, plan, corpus, registry)
        samples = sample_text(new, counts)
        known, notes = recall_version(own, lineage, list(counts))
        measured = measure_drift(counts, samples, known, tokenizer, registry)
        report = DriftReport(
            name=name,
            alias=alias,
            reference=str(version),
            digest=version.digest,
            at=utc_now(),
            verdicts=drift.judged(measured, known, drift_rules, request),
            slices=measured,
            origins={name: text_known.origin for name, text_known in known.items()},
            notes=(*filter(None, [plan.skipped.remark]), *notes),
            skipped=plan.skipped,
        )
        shards = WordCountStore(registry.workspace).shards_of(counts[ALL].table.key)
        with suppress(RegistryError):  # without MLflow no refusals are known
            stuck = stuck_on(registry, version, alias, shards, report.drifted)
            report = replace(report, stuck=stuck)
        report = record(report, registry)
    listener = progress.current()
    listener.summary(report.reference, report.markdown())
    if report.drifted and not report.stuck:
        listener.drifted(report.name, report.alias, report.event())
    return report


@task(name=steps.PLAN_CHUNKS.name)
def plan_chunks(request: TrainingRequest, lineage: Lineage, registry: Registry) -> CorpusPlan:
    """Find the files of the new text, and the chunks that still have to be read."""
    with telling(steps.PLAN_CHUNKS) as outcome:
        rule = lineage.left_out_rule
        left_out = left_out_for(request.name, registry.catalogue, registry.workspace, rule)
        plan = counting.plan_chunks(request, registry, left_out)
        outcome(plan.outcome)
    return plan


count_bundle = task(name=steps.COUNT_WORDS.name)(counting.count_bundle)


def count_words(request: TrainingRequest, plan: CorpusPlan, registry: Registry) -> CountedCorpus:
    """Count new chunks: `count_bundle` is mapped over the bundles of the plan."""
    with telling(steps.COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = counting.count_words(plan, request, registry, count_bundle)
        outcome(corpus.outcome)
    return corpus


@task(name=steps.COMBINE_COUNTS.name)
def combine_counts(
    request: TrainingRequest,
    text: NewText,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    registry: Registry,
) -> dict[str, CountedSlice]:
    """Add up the counts of the chunks for every slice."""
    with telling(steps.COMBINE_COUNTS) as outcome:
        counts = drift.combine_slices(text, plan, corpus, registry.workspace, request.include)
        outcome(f"{counted(counts[ALL].table.rows, 'distinct word')}")
    return counts


@task(name=steps.SAMPLE_TEXT.name)
def sample_text(
    request: TrainingRequest, counts: Mapping[str, CountedSlice]
) -> dict[str, TextSample]:
    """Sample documents of every slice evenly."""
    with telling(steps.SAMPLE_TEXT) as outcome:
        samples = drift.sample_slices(counts, request)
        documents, size = samples[ALL].documents, samples[ALL].bytes
        outcome(f"{counted(documents, 'document')}, {megabytes(size)}")
    return samples


@task(name=steps.RECALL_VERSION.name)
def recall_version(
    request: TrainingRequest, lineage: Lineage, slices: Sequence[str]
) -> tuple[dict[str, KnownText], list[str]]:
    """Return the version's own text, and notes on it."""
    with telling(steps.RECALL_VERSION) as outcome:
        known, notes = drift.own_texts(lineage, request.evaluation_reading, list(slices))
        documents, size = known[ALL].documents, known[ALL].bytes
        outcome(f"{counted(documents, 'document')} of its own, {megabytes(size)}")
    return known, notes


@task(name=steps.MEASURE_DRIFT.name)
def measure_drift(
    counts: Mapping[str, CountedSlice],
    samples: Mapping[str, TextSample],
    known: Mapping[str, KnownText],
    tokenizer: Tokenizer,
    registry: Registry,
) -> dict[str, TextDrift]:
    """Measure the drift of every slice."""
    with telling(steps.MEASURE_DRIFT) as outcome:
        measured = drift.measure_drift(counts, samples, known, tokenizer, registry)
        per_token = measured[ALL].figures[BYTES_PER_TOKEN].new
        outcome(f"{per_token:.4f} bytes/token on {megabytes(measured[ALL].bytes)}")
    return measured


@task(name=steps.RECORD.name)
def record(report: DriftReport, registry: Registry) -> DriftReport:
    """Record the report in MLflow; without MLflow, the report gets a note."""
    with telling(steps.RECORD) as outcome:
        try:
            report = drift.remember(report, registry)
            outcome(f"observation {report.observation} in MLflow")
            show_name_page(registry, report.name)
        except RegistryUnreachable as error:
            report = replace(report, notes=(*report.notes, f"not recorded: {error.happened}"))
            outcome("not recorded")
    return report
