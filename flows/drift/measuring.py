"""New text counted, sampled and measured beside what is known of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bpeline.flows.drift.new_text import CountedSlice, NewText, combine_slices, sample_slices
from bpeline.flows.drift.own_text import KnownText, own_request, own_texts
from bpeline.flows.requests import DriftRequest
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    MEASURE_DRIFT,
    PLAN_CHUNKS,
    RECALL_VERSION,
    SAMPLE_TEXT,
    WATCH_DRIFT,
    progress,
    step,
    telling,
    tries,
)
from bpeline.flows.steps import count_words, left_out_for, plan_chunks
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.evaluation import Rule, Verdict, default_rules, judge_drift
from bpeline.registry.opening import Registry
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.corpus import SkippedFiles
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import ALL, TextDrift, TextSample, drift_of
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer


def gathered(
    text: NewText,
    lineage: Lineage,
    tokenizer: Tokenizer,
    registry: Registry,
    asked: DriftRequest,
) -> tuple[
    dict[str, CountedSlice], dict[str, TextSample], dict[str, KnownText], list[str], SkippedFiles
]:
    """Count and sample the new text, and find what is known of the version's own.

    Returns:
        Both, what people should know, and what the search for new text did not read.
    """
    workspace = registry.workspace
    own = own_request(lineage, tokenizer, text.paths)
    new = {"special_tokens": separators_of(tokenizer, asked.separator)}
    workers = {} if asked.workers is None else {"workers": asked.workers}
    request = own.model_copy(update={**new, **workers})
    for one in tries(WATCH_DRIFT, progress.current().note):
        with one:
            with telling(PLAN_CHUNKS) as said:
                rule = lineage.left_out_rule  # as its training does
                left_out = left_out_for(request.name, registry.catalogue, workspace, rule)
                plan = plan_chunks(request, registry, left_out)
                said.append(plan.outcome)
            with telling(COUNT_WORDS, plan.bytes_to_read, "bytes") as said:
                corpus = count_words(plan, request, registry)
                said.append(corpus.outcome)
            with telling(COMBINE_COUNTS) as said:
                counts = combine_slices(text, plan, corpus, workspace, request.include)
                said.append(f"{counted(counts[ALL].table.rows, 'distinct word')}")
    with telling(SAMPLE_TEXT) as said:
        samples = sample_slices(counts, request)
        said.append(f"{counted(samples[ALL].documents, 'document')}, "
                    f"{megabytes(samples[ALL].bytes)}")  # fmt: skip
    with telling(RECALL_VERSION) as said:
        known, notes = own_texts(lineage, own.evaluation_reading, list(counts))
        said.append(f"{counted(known[ALL].documents, 'document')} of its own, "
                    f"{megabytes(known[ALL].bytes)}")  # fmt: skip
    return counts, samples, known, [*filter(None, [plan.skipped.remark]), *notes], plan.skipped


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


def judged(
    measured: Mapping[str, TextDrift],
    known: Mapping[str, KnownText],
    rules: Sequence[Rule] | None,
    request: DriftRequest,
) -> tuple[Verdict, ...]:
    """What every rule says; None stands for the usual ones, of what is known of the version."""
    if rules is None:
        rules = default_rules([one for one in measured if one != ALL and known[one].origin])
    figures = {name: one.figures for name, one in measured.items()}
    return judge_drift(rules, figures, _too_little(measured, known, request))


def _too_little(
    measured: Mapping[str, TextDrift], known: Mapping[str, KnownText], request: DriftRequest
) -> dict[str, str]:
    """slice → why nothing can be concluded of it."""
    documents, size = request.least_documents, request.least_bytes
    found = {}
    for name, one in measured.items():
        own = known[name]
        if one.documents < documents or one.bytes < size:
            said = f"{counted(one.documents, 'document')}, {one.bytes:,} bytes of new text"
        elif own.origin and (own.documents < documents or own.bytes < size):
            whose = f"{own.bytes:,} bytes of the version's own text"
            said = f"{counted(own.documents, 'document')}, {whose}"
        else:
            continue
        # Not rounded: 399,688 bytes are too few, and both would be 400 kB.
        needed = f"{counted(documents, 'document')} and {size:,} bytes"
        found[name] = f"{said}; something can be said from {needed} on"
    return found


def check_slices(rules: Sequence[Rule], slices: list[str], path: str) -> None:
    for rule in rules:
        if rule.slice not in slices:
            raise InvalidOption(
                f"{path} has a rule for the slice {rule.slice}, which no text belongs to",
                f"slices of this text are {', '.join(slices)}",
                f"name its text: `--source '{rule.slice}=FILES'`; or other rules: `--rules FILE`",
            )
