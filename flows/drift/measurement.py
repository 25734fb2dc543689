"""Drift measured: a version on new text, and on the text that it was trained for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpeline.flows.drift.new_text import CountedSlice, NewText
from bpeline.flows.requests import OF_PARITY, DriftRequest, TrainingRequest
from bpeline.flows.running import progress
from bpeline.flows.wording import counted
from bpeline.registry.evaluation import (
    Rule,
    Verdict,
    default_rules,
    evaluation_of,
    judge_drift,
    metrics_of,
)
from bpeline.registry.evaluation_sets import has_set, read_documents, read_set
from bpeline.registry.opening import Registry
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.corpus import Reading
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    CONTINUED,
    TOKENS_PER_WORD,
    OwnText,
    TextDrift,
    TextSample,
    drift_of,
    sample_of,
)
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_OWN = 4 << 20  # bytes of held-out text; beyond it documents are left out evenly
_NOT_ABOUT_READING = frozenset(
    (
        *("evaluation", "baselines", "rules", "workers", "engine", "sources", "temperature"),
        *("counts", "count_columns", *OF_PARITY),
        "strict",  # `drift` says what it does not read, and has no such option
    )
)
_HELD_OUT = "documents held out of training"
_RECORDED = "recorded when the version was evaluated"


@dataclass(frozen=True, slots=True)
class KnownText:
    """The version's own text of one slice; ``origin`` is empty where nothing is known."""

    text: OwnText
    origin: str
    documents: int
    bytes: int


def own_request(lineage: Lineage, tokenizer: Tokenizer, paths: list[str]) -> TrainingRequest:
    """How the version's corpus was read, asked of other paths, so that counts serve both.

    A tokenizer that was not trained here reads text by its pattern and special tokens.
    """
    has_superwords = bool(lineage.request.get("transition_size"))
    if tokenizer.pattern.steps or has_superwords:
        cut = "lines, not words" if has_superwords else tokenizer.pattern.title
        raise InvalidOption(
            f"{lineage.version} cuts text in {cut}, and drift counts words that one regex or a "
            "named split pattern cuts",
            "versions whose pattern is one of these: see `bpeline show`",
            f"compare what it makes of two texts: `bpeline count {lineage.version} FILES...`",
        )
    told = {key: value for key, value in lineage.request.items() if key not in _NOT_ABOUT_READING}
    # Those of imported ones may be single bytes, which separate nothing here.
    specials = [one for one in tokenizer.special_tokens if len(one.encode()) > 1]
    read = {
        "name": lineage.version.name, "vocab_size": max(512, tokenizer.vocab_size),
        "pattern": tokenizer.pattern.name or tokenizer.pattern.regex,
        "special_tokens": specials, "held_out": 0.0,
    }  # fmt: skip
    return TrainingRequest.checked(**(told or read) | {"paths": paths, "workers": None})


def own_texts(
    lineage: Lineage, reading: Reading, slices: list[str]
) -> tuple[dict[str, KnownText], list[str]]:
    """The version's own text for every slice, and what people should know of it.

    Of everything that is text held out of training, else what was recorded; of a slice only what
    the version was evaluated on under the same name, for another text would be no measure.
    """
    record = evaluation_of(lineage.registry, lineage.version) or {}
    trained, notes = lineage.words, []
    if trained is None:
        why = "it was imported" if lineage.imported else "swept away, or trained elsewhere"
        notes.append(
            f"the words {lineage.version} was trained on are not in this workspace ({why}): no "
            "divergence, no words unseen or new; bytes/token and words split are compared with "
            "what was recorded"
        )
    found: dict[str, KnownText] = {}
    for name in slices:
        sample, origin = None, _RECORDED
        if name == ALL:
            sample, origin = _held_out(lineage, reading), _HELD_OUT
        elif name in record.get("slices", {}):
            sample, origin = (
                _evaluated(lineage, record, name, reading),
                f"the texts of {name} again",
            )
        metrics = _recorded(lineage, record, name)
        if sample is not None:
            known = KnownText(
                OwnText(trained, sample, metrics), origin, sample.documents, sample.bytes
            )
        else:
            size = [int(metrics.get(f"evaluated/{key}", 0)) for key in ("documents", "bytes")]
            known = KnownText(
                OwnText(trained, None, _comparable(metrics)), _RECORDED if metrics else "", *size
            )
        found[name] = known
    if not found[ALL].origin:
        notes.append(f"nothing is known of text that {lineage.version} was evaluated on")
    elif found[ALL].text.sample is None and record and not record["held_out"]:
        notes.append(
            f"{lineage.version} was evaluated on text it was trained on, which flatters it"
        )
    return found, notes


def _held_out(lineage: Lineage, reading: Reading) -> TextSample | None:
    store = WordCountStore(lineage.registry.workspace)
    try:
        documents = store.held_out_documents(lineage.shards_kept, MOST_OWN)
    except CorruptFile as error:
        progress.current().note(f"held-out text cannot be used: {error.happened}")
        return None
    return sample_of(documents, reading.pattern) if documents else None


def _evaluated(
    lineage: Lineage, record: Mapping[str, Any], name: str, reading: Reading
) -> TextSample | None:
    """The documents of a slice, if the evaluation set that the version was measured on is here."""
    workspace, digest = lineage.registry.workspace, (record.get("set") or {}).get("digest", "")
    if not digest or not has_set(workspace, digest):
        return None
    try:
        kept = read_documents(workspace, read_set(workspace, digest))
    except CorruptFile as error:  # the record speaks for them
        progress.current().note(f"an evaluation set cannot be used: {error.happened}")
        return None
    texts = record["slices"][name]["texts"]
    documents = [one for text in texts for one in kept.get(text, ())]
    return sample_of(list(_evenly(documents)), reading.pattern) if documents else None


def _evenly(documents: list[bytes]) -> Iterator[bytes]:
    """Documents left out evenly, where there are more than are needed."""
    size, seen, taken = sum(map(len, documents)), 0, 0
    for document in documents:
        seen += len(document)
        if (taken + len(document)) * max(size, MOST_OWN) <= MOST_OWN * seen:
            taken += len(document)
            yield document


def _recorded(lineage: Lineage, record: Mapping[str, Any], name: str) -> dict[str, float]:
    if name in record.get("slices", {}):
        return dict(record["slices"][name]["metrics"])
    return metrics_of(lineage.registry, lineage.version) if name == ALL else {}


def _comparable(metrics: Mapping[str, float]) -> dict[str, float]:
    """Recorded figures that new text has by the same definition."""
    found = {name: metrics[name] for name in (BYTES_PER_TOKEN, CONTINUED) if name in metrics}
    if metrics.get("evaluated/pre_tokens"):
        found[TOKENS_PER_WORD] = metrics["evaluated/tokens"] / metrics["evaluated/pre_tokens"]
    return found


def requests_of(
    text: NewText, lineage: Lineage, tokenizer: Tokenizer, asked: DriftRequest
) -> tuple[TrainingRequest, TrainingRequest]:
    """How the version's own text was read, and how new text is."""
    own = own_request(lineage, tokenizer, text.paths)
    new = {"special_tokens": separators_of(tokenizer, asked.separator)}
    workers = {} if asked.workers is None else {"workers": asked.workers}
    return own, own.model_copy(update={**new, **workers})


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
    drift_rules: Sequence[Rule] | None,
    request: DriftRequest,
) -> tuple[Verdict, ...]:
    """What every rule says; None stands for the usual ones, of what is known of the version."""
    if drift_rules is None:
        drift_rules = default_rules([one for one in measured if one != ALL and known[one].origin])
    figures = {name: one.figures for name, one in measured.items()}
    return judge_drift(drift_rules, figures, _too_little(measured, known, request))


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


def check_slices(drift_rules: Sequence[Rule], slices: list[str], path: str) -> None:
    for rule in drift_rules:
        if rule.slice not in slices:
            raise InvalidOption(
                f"{path} has a rule for the slice {rule.slice}, which no text belongs to",
                f"slices of this text are {', '.join(slices)}",
                f"name its text: `--source '{rule.slice}=FILES'`; or other rules: `--rules FILE`",
            )
