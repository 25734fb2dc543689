"""New text is compared with a registered version: has it moved so far that training again pays?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.flows.drift import (
    CountedSlice,
    DriftReport,
    KnownText,
    NewText,
    combine_slices,
    own_request,
    own_texts,
    remember,
    sample_slices,
)
from bpeline.flows.requests import DriftRequest, asks, with_demo
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    MEASURE_DRIFT,
    PLAN_CHUNKS,
    RECALL_VERSION,
    RECORD,
    SAMPLE_TEXT,
    WATCH_DRIFT,
    progress,
    step,
    telling,
    tries,
)
from bpeline.flows.steps import count_words, plan_chunks
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import utc_now
from bpeline.registry.drift_rules import default_rules, judge_drift, read_drift_rules
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.references import ByAlias, validate_alias, validate_name
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN, TextDrift, TextSample, drift_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bpeline.registry.gates import Rule


@asks(DriftRequest)
def watch_drift(request: DriftRequest, workspace: str | None) -> DriftReport:
    """Compare new text with a version, and remember it as one point of a series in MLflow.

    Text is counted as the version's corpus was, through the same cache: what is known is not read
    again, and a training on it finds it counted. Whoever listens hears of drift (`Progress`).

    Raises:
        InvalidOption: a misspelt name, source or rule, or no text at all.
        UnknownVersion: there is no such version.
        CorpusError: no such file, no word in it, or one that cannot be read as declared.
        RegistryUnreachable: MLflow would have to be asked for the version.
        WorkspaceLocked: another run is at work there.
    """
    name, alias = request.name, request.alias
    reference = ByAlias(validate_name(name), validate_alias(alias))
    registry = open_registry(workspace, make=False)
    text = NewText.asked(with_demo(request.paths, registry.workspace), request.sources)
    chosen = None if request.rules is None else read_drift_rules(Path(request.rules))
    if chosen is not None:
        _check_slices(chosen, list(text.slices), str(request.rules))
    version = resolve(registry, reference)
    tokenizer = load_version(registry, version)
    lineage = Lineage.of(registry, version)
    with registry.workspace.lock(f"watching drift of {name!r}"):
        counts, samples, known, notes = _gathered(
            text, lineage, tokenizer, registry, request.workers
        )
        with telling(MEASURE_DRIFT) as said:
            measured = measure_drift(counts, samples, known, tokenizer, registry)
            said.append(f"{measured[ALL].figures[BYTES_PER_TOKEN].new:.4f} "
                        f"bytes/token on {megabytes(measured[ALL].bytes)}")  # fmt: skip
        if chosen is None:
            judged = [one for one in measured if one != ALL and known[one].origin]
            chosen = default_rules(judged)
        too_little = _too_little(measured, known, request.least_documents, request.least_bytes)
        report = DriftReport(
            name=name,
            alias=alias,
            reference=str(version),
            digest=version.digest,
            at=utc_now(),
            verdicts=judge_drift(
                chosen, {name: one.figures for name, one in measured.items()}, too_little
            ),
            slices=measured,
            origins={name: one.origin for name, one in known.items()},
            notes=tuple(notes),
        )
        with telling(RECORD) as said:
            try:
                report = remember(report, registry)
                said.append(f"observation {report.observation} in MLflow")
            except RegistryUnreachable as error:  # what was found is worth telling all the same
                report = replace(report, notes=(*report.notes, f"not recorded: {error.happened}"))
                said.append("not recorded")
    listener = progress.current()
    listener.summary(report.reference, report.markdown())
    if report.drifted:
        listener.drifted(report.name, report.alias, report.event())
    return report


def _gathered(
    text: NewText,
    lineage: Lineage,
    tokenizer: Tokenizer,
    registry: Registry,
    workers: int | None,
) -> tuple[dict[str, CountedSlice], dict[str, TextSample], dict[str, KnownText], list[str]]:
    """Count and sample the new text, and find what is known of the version's own."""
    workspace = registry.workspace
    request = own_request(lineage, tokenizer, text.paths)
    if workers is not None:
        request = request.model_copy(update={"workers": workers})
    for one in tries(WATCH_DRIFT, progress.current().note):
        with one:
            with telling(PLAN_CHUNKS) as said:
                plan = plan_chunks(request, registry)
                said.append(plan.outcome)
            with telling(COUNT_WORDS, plan.bytes_to_read, "bytes") as said:
                corpus = count_words(plan, request, registry)
                said.append(corpus.outcome)
            with telling(COMBINE_COUNTS) as said:
                counts = combine_slices(text, plan, corpus, request, workspace)
                said.append(f"{counted(counts[ALL].table.rows, 'distinct word')}")
    with telling(SAMPLE_TEXT) as said:
        samples = sample_slices(counts, request)
        said.append(f"{counted(samples[ALL].documents, 'document')}, "
                    f"{megabytes(samples[ALL].bytes)}")  # fmt: skip
    with telling(RECALL_VERSION) as said:
        known, notes = own_texts(lineage, request.evaluation_reading, list(counts))
        said.append(f"{counted(known[ALL].documents, 'document')} of its own, "
                    f"{megabytes(known[ALL].bytes)}")  # fmt: skip
    return counts, samples, known, notes


@step(MEASURE_DRIFT)
def measure_drift(
    counts: Mapping[str, CountedSlice],
    samples: Mapping[str, TextSample],
    known: Mapping[str, KnownText],
    tokenizer: Tokenizer,
    registry: Registry,
) -> dict[str, TextDrift]:
    """Measure every slice."""
    store = WordCountStore(registry.workspace)
    return {
        name: drift_of(
            tokenizer, known[name].text, store.open_table(one.table), one.bytes, samples[name]
        )
        for name, one in counts.items()
    }


def _too_little(
    measured: Mapping[str, TextDrift],
    known: Mapping[str, KnownText],
    least_documents: int,
    least_bytes: int,
) -> dict[str, str]:
    """slice → why nothing can be concluded of it."""
    found = {}
    for name, one in measured.items():
        own = known[name]
        if one.documents < least_documents or one.bytes < least_bytes:
            whose, documents, size = "new text", one.documents, one.bytes
        elif own.origin and (own.documents < least_documents or own.bytes < least_bytes):
            whose, documents, size = "the version's own text", own.documents, own.bytes
        else:
            continue
        found[name] = (
            f"{counted(documents, 'document')}, {megabytes(size)} of {whose}; something can be "
            f"said from {least_documents} and {megabytes(least_bytes)} on"
        )
    return found


def _check_slices(rules: Sequence[Rule], slices: list[str], path: str) -> None:
    for rule in rules:
        if rule.slice not in slices:
            raise InvalidOption(
                f"{path} has a rule for the slice {rule.slice}, which no text belongs to",
                f"slices of this text are {', '.join(slices)}",
                "name its text: `--source 'NAME=FILES'`",
            )
