"""Measuring drift: a version on new text, compared with its own text.

New text is counted and sampled by slice, with the same cache as training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpeline.flows.counting import CorpusPlan, CountedCorpus
from bpeline.flows.requests import (
    EVALUATION,
    OF_PARITY,
    DriftRequest,
    NamedSource,
    TrainingRequest,
    evaluation_sources,
)
from bpeline.flows.running import progress
from bpeline.flows.wording import counted
from bpeline.registry.catalogue import FileReading
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
from bpeline.registry.word_counts import ShardRef, TableHandle, WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import ReadOptions, SourceFile, search_each
from bpeline.tokenizer_core.counting import sample_documents
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    CONTINUED,
    LABELS,
    TOKENS_PER_WORD,
    OwnText,
    TextDrift,
    TextSample,
    drift_of,
    sample_of,
)
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.urls import absolute_name

MOST_SAMPLED = 4 << 20  # bytes of each slice: about 1,000 sections
UNNAMED = "unnamed"  # source of plain paths
MOST_OWN = 4 << 20  # bytes of held-out text; a larger text is sampled evenly
_NOT_ABOUT_READING = frozenset(
    (
        *("evaluation", "baselines", "rules", "workers", "engine", "sources", "temperature"),
        *("counts", "count_columns", *OF_PARITY),
        "strict",  # `drift` has no such option: it lists the files that it skips
    )
)
_HELD_OUT = "documents held out of training"
_RECORDED = "recorded when the version was evaluated"


@dataclass(frozen=True, slots=True)
class KnownText:
    """The version's own text of one slice; ``origin`` is empty if none is known."""

    text: OwnText
    origin: str
    documents: int
    bytes: int


@dataclass(frozen=True, slots=True)
class NewText:
    """New text as named sources; plain paths form the source `UNNAMED`."""

    sources: tuple[NamedSource, ...]

    @classmethod
    def asked(cls, paths: Sequence[str], sources: Sequence[str]) -> NewText:
        """Create from paths, and from sources in the syntax of ``--eval``."""
        named = evaluation_sources([EVALUATION.absolute(source) for source in sources]).sources
        if paths:
            files = tuple(map(absolute_name, paths))
            named = (NamedSource(UNNAMED, files), *named)
        if not named:
            raise InvalidOption(
                "no new text was named",
                "expected files, directories and globs, or named sources: NAME=FILES",
                "type `bpeline drift news@champion new/*.txt`",
            )
        return cls(named)

    @property
    def paths(self) -> list[str]:
        """All paths, in order."""
        return [path for source in self.sources for path in source.files]

    @property
    def slices(self) -> dict[str, tuple[NamedSource, ...]]:
        """Slices by name, as in an evaluation: ``all``, the named sources, and the labels."""
        slices_found: dict[str, tuple[NamedSource, ...]] = {ALL: self.sources}
        for source in self.sources:
            if source.name != UNNAMED:
                slices_found[source.name] = (source,)
        for kind in LABELS:
            for source in self.sources:
                label = getattr(source, kind)
                if label is not None:
                    name = f"{kind}:{label}"
                    slices_found[name] = (*slices_found.get(name, ()), source)
        return slices_found


@dataclass(frozen=True, slots=True)
class CountedSlice:
    """The word counts of one slice, and its files with their text sizes in bytes."""

    table: TableHandle
    bytes: int
    files: tuple[tuple[SourceFile, int], ...]


def combine_slices(
    text: NewText,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    workspace: Workspace,
    include: Sequence[str] = (),
) -> dict[str, CountedSlice]:
    """Add up the counts of the chunks for every slice."""
    readings = {
        file.state: (file, reading, keys)
        for file, reading, keys in zip(plan.files, corpus.readings, corpus.keys, strict=True)
    }
    return {
        name: _combined(
            name,
            [readings[file.state] for file in _files(sources, include)],
            WordCountStore(workspace),
        )
        for name, sources in text.slices.items()
    }


def _files(sources: Sequence[NamedSource], include: Sequence[str]) -> list[SourceFile]:
    """Return each file once, even if several sources name it."""
    named = (source_files for source in sources for source_files in source.searched)
    searches = [[replace(source_files, include=tuple(include))] for source_files in named]
    return list({file.state: file for found in search_each(searches)[0] for file in found}.values())


def _combined(
    name: str,
    readings: Sequence[tuple[SourceFile, FileReading, Sequence[str]]],
    store: WordCountStore,
) -> CountedSlice:
    refs, files, base = [], [], 0
    for file, reading, keys in readings:
        for chunk, key in zip(reading.chunks, keys, strict=True):
            refs.append(ShardRef(key, position_base=base + chunk.begin))
        size = reading.chunks[-1].end if reading.chunks else 0
        files.append((file, size))
        base += size
    seen = store.statistics([ref.key for ref in refs])
    if not seen.words:
        raise EmptyCorpus(
            f"there is not a single word in {'the new text' if name == ALL else name}",
            "expected files with text besides special tokens and documents of the evaluation set",
            "check the files that were named",
        )
    return CountedSlice(store.combine(refs), seen.bytes_counted, tuple(files))


def sample_slices(
    slices: Mapping[str, CountedSlice], request: TrainingRequest
) -> dict[str, TextSample]:
    """Sample documents of every slice evenly, read as for training, none held out."""
    reading = request.evaluation_reading
    return {
        name: sample_of(
            list(sample_documents(part.files, reading, MOST_SAMPLED)), request.reading.pattern
        )
        for name, part in slices.items()
    }


def own_request(lineage: Lineage, tokenizer: Tokenizer, paths: list[str]) -> TrainingRequest:
    """Return the version's training request for other paths, to share cached counts.

    For a tokenizer that was not trained here, pattern and special tokens decide.
    """
    has_superwords = bool(lineage.request.get("transition_size"))
    if tokenizer.pattern.steps or has_superwords:
        cut = "lines, not words" if has_superwords else tokenizer.pattern.title
        raise InvalidOption(
            f"{lineage.version} cuts text into {cut}, which drift cannot count",
            "expected a version whose pattern is one regex or a named pattern: see `bpeline show`",
            f"compare token counts of texts instead: `bpeline count {lineage.version} FILES...`",
        )
    parameters = {
        key: value for key, value in lineage.request.items() if key not in _NOT_ABOUT_READING
    }
    # Special tokens of an imported version may be single bytes, which separate no documents.
    specials = [token for token in tokenizer.special_tokens if len(token.encode()) > 1]
    read = {
        "name": lineage.version.name, "vocab_size": max(512, tokenizer.vocab_size),
        "pattern": tokenizer.pattern.name or tokenizer.pattern.regex,
        "special_tokens": specials, "held_out": 0.0,
    }  # fmt: skip
    return TrainingRequest.checked(**(parameters or read) | {"paths": paths, "workers": None})


def own_texts(
    lineage: Lineage, reading: ReadOptions, slices: list[str]
) -> tuple[dict[str, KnownText], list[str]]:
    """Return the version's own text for every slice, and notes on it.

    For ``all`` this is the text held out of training, otherwise the recorded figures. For another
    slice it is the text that the version was evaluated on under the same name.
    """
    record = evaluation_of(lineage.registry, lineage.version) or {}
    trained, notes = lineage.words, []
    if trained is None:
        why = "it was imported" if lineage.imported else "removed, or trained elsewhere"
        notes.append(
            f"the words {lineage.version} was trained on are not in this workspace ({why}): "
            "divergence, unseen and new words are not measured; bytes/token and split words are "
            "compared with the recorded figures"
        )
    texts: dict[str, KnownText] = {}
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
        texts[name] = known
    if not texts[ALL].origin:
        notes.append(f"{lineage.version} has no recorded evaluation")
    elif texts[ALL].text.sample is None and record and not record["held_out"]:
        notes.append(
            f"{lineage.version} was evaluated on training text, so its figures are optimistic"
        )
    return texts, notes


def _held_out(lineage: Lineage, reading: ReadOptions) -> TextSample | None:
    store = WordCountStore(lineage.registry.workspace)
    try:
        documents = store.held_out_documents(lineage.shards_kept, MOST_OWN)
    except CorruptFile as error:
        progress.current().note(f"held-out text cannot be used: {error.happened}")
        return None
    return sample_of(documents, reading.pattern) if documents else None


def _evaluated(
    lineage: Lineage, record: Mapping[str, Any], name: str, reading: ReadOptions
) -> TextSample | None:
    """Return the documents of a slice, if the version's evaluation set is stored here."""
    workspace, digest = lineage.registry.workspace, (record.get("set") or {}).get("digest", "")
    if not digest or not has_set(workspace, digest):
        return None
    try:
        stored = read_documents(workspace, read_set(workspace, digest))
    except CorruptFile as error:  # the recorded figures are used instead
        progress.current().note(f"an evaluation set cannot be used: {error.happened}")
        return None
    texts = record["slices"][name]["texts"]
    documents = [document for text in texts for document in stored.get(text, ())]
    return sample_of(list(_evenly(documents)), reading.pattern) if documents else None


def _evenly(documents: list[bytes]) -> Iterator[bytes]:
    """Select documents evenly, `MOST_OWN` bytes at most."""
    size, seen, selected = sum(map(len, documents)), 0, 0
    for document in documents:
        seen += len(document)
        if (selected + len(document)) * max(size, MOST_OWN) <= MOST_OWN * seen:
            selected += len(document)
            yield document


def _recorded(lineage: Lineage, record: Mapping[str, Any], name: str) -> dict[str, float]:
    if name in record.get("slices", {}):
        return dict(record["slices"][name]["metrics"])
    return metrics_of(lineage.registry, lineage.version) if name == ALL else {}


def _comparable(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the recorded figures that are defined as for new text."""
    figures = {name: metrics[name] for name in (BYTES_PER_TOKEN, CONTINUED) if name in metrics}
    if metrics.get("evaluated/pre_tokens"):
        figures[TOKENS_PER_WORD] = metrics["evaluated/tokens"] / metrics["evaluated/pre_tokens"]
    return figures


def requests_of(
    text: NewText, lineage: Lineage, tokenizer: Tokenizer, asked: DriftRequest
) -> tuple[TrainingRequest, TrainingRequest]:
    """Return the requests that read the version's own text and the new text."""
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
    """Measure the drift of every slice."""
    store = WordCountStore(registry.workspace)
    return {
        name: drift_of(
            tokenizer, known[name].text, store.open_table(part.table), part.bytes, samples[name]
        )
        for name, part in counts.items()
    }


def judged(
    measured: Mapping[str, TextDrift],
    known: Mapping[str, KnownText],
    drift_rules: Sequence[Rule] | None,
    request: DriftRequest,
) -> tuple[Verdict, ...]:
    """Judge the drift by the rules; None stands for the default rules."""
    if drift_rules is None:
        drift_rules = default_rules(
            [part for part in measured if part != ALL and known[part].origin]
        )
    figures = {name: part.figures for name, part in measured.items()}
    return judge_drift(drift_rules, figures, _too_little(measured, known, request))


def _too_little(
    measured: Mapping[str, TextDrift], known: Mapping[str, KnownText], request: DriftRequest
) -> dict[str, str]:
    """Return slice → why its text is too small to judge."""
    documents, size = request.least_documents, request.least_bytes
    reasons = {}
    for name, drift in measured.items():
        own = known[name]
        if drift.documents < documents or drift.bytes < size:
            size_of_text = (
                f"{counted(drift.documents, 'document')}, {drift.bytes:,} bytes of new text"
            )
        elif own.origin and (own.documents < documents or own.bytes < size):
            whose = f"{own.bytes:,} bytes of the version's own text"
            size_of_text = f"{counted(own.documents, 'document')}, {whose}"
        else:
            continue
        # Not rounded: 399,688 bytes would be shown as 400 kB, like the limit.
        needed = f"{counted(documents, 'document')} and {size:,} bytes"
        reasons[name] = f"{size_of_text}; judged from {needed} on"
    return reasons


def check_slices(drift_rules: Sequence[Rule], slices: list[str], path: str) -> None:
    for rule in drift_rules:
        if rule.slice not in slices:
            raise InvalidOption(
                f"{path} has a rule for the slice {rule.slice}, which no text belongs to",
                f"expected one of the slices of this text: {', '.join(slices)}",
                f"name its text: `--source '{rule.slice}=FILES'`; or other rules: `--rules FILE`",
            )
