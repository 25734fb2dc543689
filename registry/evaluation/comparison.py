"""Compare two versions: metrics, vocabs, merges, and their tokens for documents.

Loads what is compared; `tokenizer_core.evaluation.comparison` computes the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.evaluation.measured import evaluation_set_of, metrics_of
from bpeline.registry.evaluation_sets import EvaluationSet, texts_of
from bpeline.registry.loading import ResolvedVersion, load_tokenizer, load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import ByPath, DevelopmentText, parse_reference
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus import ReadOptions, SkippedFiles, Source, search_sources
from bpeline.tokenizer_core.counting import documents_of
from bpeline.tokenizer_core.display import number_text
from bpeline.tokenizer_core.errors import CorruptFile, UnknownEvaluationSet
from bpeline.tokenizer_core.evaluation import (
    ALL,
    CONFIDENCE,
    SHOWN_PER_SLICE,
    DivergingMerge,
    DocumentComparison,
    EvaluationText,
    Passage,
    PassageSample,
    VocabDifference,
    compare_measured,
    compare_vocabs,
    depends_on_text,
    evaluate_texts,
    first_diverging_merge,
)
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tables import Table

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.corpus import SourceFile
    from bpeline.tokenizer_core.evaluation import Change, Evaluation, Measured, Opponent
    from bpeline.tokenizer_core.tokenizer import Tokenizer

GIVEN = "text"  # slice of files without a name
GIVEN_TEXT = "the text that was given"
_FIRST = "first"  # label of the first version in the evaluation
MOST_HELD_OUT = 32 << 20  # bytes; more documents are sampled evenly


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric of two versions; None if a version lacks it."""

    key: str
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        if self.first is None or self.second is None:
            return None
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Two versions side by side; in pairs, the first version comes first.

    Attributes:
        first, second: the versions (``news/3``), or paths of tokenizers outside the registry.
        patterns: names or regexes of the split patterns.
        metrics: of either, sorted by name; those that depend on text are of the same documents.
        vocab: tokens that were added, removed or moved.
        diverging: the first merge that differs; None if all are equal.
        documents: comparison on the documents; None if there were none.
        slices: changes per slice of the documents.
        measured_on: description of the documents; empty if there were none.
        normalizers: names of the normalizers.
        remarks: on how each was read from a file.
        passages: parts of the documents with the largest losses and gains of tokens; empty if the
            documents were measured earlier.
        skipped: files skipped in the search for texts; None without a search.
        development: texts that chose the language of each merge in training; usually empty.
    """

    first: str
    second: str
    vocab_sizes: tuple[int, int]
    patterns: tuple[str, str]
    metrics: tuple[MetricPair, ...]
    vocab: VocabDifference
    diverging: DivergingMerge | None
    documents: DocumentComparison | None
    slices: tuple[SliceChange, ...] = ()
    measured_on: str = ""
    normalizers: tuple[str, str] = ("none", "none")
    remarks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    passages: tuple[Passage, ...] = ()
    skipped: SkippedFiles | None = None
    development: tuple[tuple[DevelopmentText, ...], tuple[DevelopmentText, ...]] = ((), ())
    special_tokens: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def called(self, second: str) -> VersionComparison:
        """Return a copy with another name of the second version."""
        return replace(self, second=second)

    def __repr__(self) -> str:
        tokens = next((part.change.value for part in self.slices if part.name == ALL), None)
        figure = "" if tokens is None else f", {tokens:+.2%} tokens on {self.measured_on}"
        return f"<VersionComparison: {self.first} and {self.second}{figure}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: sizes, slices with intervals, metrics that differ."""
        heads = ("", self.first, self.second, "difference")
        rows = [
            ("vocabulary", *(f"{size:,} ids" for size in self.vocab_sizes), ""),
            ("split pattern", *self.patterns, ""),
            ("tokens of its own", f"{len(self.vocab.removed):,}", f"{len(self.vocab.added):,}", ""),
        ]
        differing = [entry for entry in self.metrics if entry.difference != 0]
        rows += [
            (entry.key, number_text(entry.first), number_text(entry.second),
             number_text(entry.difference, "+"))
            for entry in differing
        ]  # fmt: skip
        equal = len(self.metrics) - len(differing)
        notes = [self.measured_on] * bool(self.measured_on)
        if equal:
            notes.append(f"{equal:,} of {len(self.metrics):,} metrics are equal and not shown")
        changes = [
            (entry.name, f"{entry.documents:,}", f"{entry.bytes:,}", f"{entry.change.value:+.2%}",
             " … ".join(f"{end:+.2%}" for end in entry.change.intervals.get(CONFIDENCE, ())))
            for entry in self.slices
        ]  # fmt: skip
        interval = f"{CONFIDENCE:.0%} interval"
        sliced = Table(("slice", "documents", "bytes", "tokens", interval), changes).html()
        return f"{sliced if changes else ''}{Table(heads, rows).html('; '.join(notes))}"


@dataclass(frozen=True, slots=True)
class SliceChange:
    """How the tokens of a slice change; metrics are those in `SHOWN_PER_SLICE`."""

    name: str
    documents: int
    bytes: int
    change: Change
    metrics: tuple[MetricPair, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files that make a slice; their labels, language and domain, make slices too."""

    name: str
    files: tuple[SourceFile, ...]
    language: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class _Side:
    title: str
    tokenizer: Tokenizer
    version: ResolvedVersion | None
    metrics: dict[str, float]
    development: tuple[DevelopmentText, ...] = ()


def compare_versions(
    first: str | Path,
    second: str | Path,
    workspace: Workspace | Path | str | None = None,
    *,
    on: Sequence[str | Path] = (),
    text_field: str = "text",
    separator: str | None = None,
    shown: int = 20,
) -> VersionComparison:
    """Compare two tokenizers: registered versions or files.

    Args:
        first, second: as for :func:`registry.load_tokenizer`.
        on: files, directories or globs to encode, cut into documents at the special tokens of
            either. If empty, uses the evaluation set of ``second``'s name, else of ``first``'s,
            else the documents held out when ``second`` was trained, if they are here.
        text_field: the member of a JSON line with the document.
        separator: cuts the documents of ``on`` instead; ``none``: each file is one document.
        shown: maximum number of words of each kind in the result.

    Raises:
        UnknownVersion, InvalidOption, CorruptFile: a tokenizer cannot be loaded.
        CorpusError: the files cannot be used.
    """
    checks.location("first", first)
    checks.location("second", second)
    on = checks.rows("on", on, "paths")
    checks.text("text_field", text_field)
    if separator is not None:
        checks.text("separator", separator)
    shown = checks.whole_number("shown", shown, 0)
    registry = _registry_of(workspace, first, second)
    left, right = (_side(registry, reference) for reference in (first, second))
    compared = _on_texts(registry, left, right, on, text_field, separator, shown)
    return replace(compared, development=(left.development, right.development))


def _on_texts(
    registry: Registry | None,
    one: _Side,
    other: _Side,
    on: Sequence[str | Path],
    text_field: str,
    separator: str | None,
    shown: int,
) -> VersionComparison:
    """Compare on the given texts, else on the first set of texts that exists."""
    if on:
        search = search_sources([Source(str(pattern)) for pattern in on])
        reading = _reading((one.tokenizer, other.tokenizer), text_field, separator)
        texts = [EvaluationText(GIVEN, documents_of(search.files, reading))]
        compared = _compared(one, other, texts, GIVEN_TEXT, False, shown)
        return replace(compared, skipped=search.skipped)
    for version, beside in ((other.version, one.version), (one.version, other.version)):
        with suppress(UnknownEvaluationSet, CorruptFile):
            if registry is not None and version is not None and version.name:
                test_set = evaluation_set_of(registry, version.name)
                texts = texts_of(registry.workspace, test_set)
                description = (
                    f"{test_set} of {version.name}{_perhaps_read(registry, test_set, beside)}"
                )
                return _compared(one, other, texts, description, test_set.parallel, shown)
    held_out: list[bytes] = []
    if registry is not None and other.version is not None:
        held_out = _held_out(registry, other.version)
    texts = [EvaluationText("held-out", held_out)] if held_out else []
    return _compared(one, other, texts, f"what {other.title} held out", False, shown)


def _compared(
    one: _Side,
    other: _Side,
    texts: Sequence[EvaluationText],
    measured_on: str,
    parallel: bool,
    shown: int,
) -> VersionComparison:
    if not texts:
        pairs = _pairs(one.metrics, other.metrics)
        return _side_by_side((one.title, one.tokenizer), (other.title, other.tokenizer), pairs)
    sample = PassageSample()
    texts = [replace(text, documents=sample.watching(text.documents)) for text in texts]
    evaluation, measured = evaluate_texts(other.tokenizer, {_FIRST: one.tokenizer}, texts, parallel)
    compared = compare_evaluated(
        (one.title, one.tokenizer, measured[_FIRST]),
        (other.title, other.tokenizer, measured[""]),
        evaluation,
        _FIRST,
        measured_on,
        shown,
    )
    # Both sides have metrics of the tokenizer alone; new measurements override them.
    metrics = {pair.key: pair for pair in (*_pairs(one.metrics, other.metrics), *compared.metrics)}
    return replace(
        compared,
        metrics=tuple(metrics[key] for key in sorted(metrics)),
        passages=tuple(sample.compared(one.tokenizer, other.tokenizer)),
    )


def _pairs(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[MetricPair, ...]:
    keys = sorted(first.keys() | second.keys())
    return tuple(MetricPair(key, first.get(key), second.get(key)) for key in keys)


def compare_evaluated(
    first: tuple[str, Tokenizer, Measured],
    second: tuple[str, Tokenizer, Measured],
    evaluation: Evaluation,
    label: str,
    measured_on: str,
    shown: int = 20,
) -> VersionComparison:
    """Compare a new tokenizer with one that was measured in its evaluation.

    Args:
        first, second: title, tokenizer, and its measurement of all documents; the second is new.
        label: of the first in the evaluation.
        measured_on: description of the documents.
    """
    opponent = evaluation.opponents[label]
    before, after = opponent.slices[ALL].metrics, evaluation.slices[ALL].metrics
    return replace(
        _side_by_side(first[:2], second[:2], _pairs(before, after)),
        documents=compare_measured(first[1], second[1], first[2], second[2], shown),
        measured_on=measured_on,
        slices=tuple(
            _slice_change(part.name, evaluation, opponent) for part in evaluation.distinct_parts
        ),
    )


def _side_by_side(
    first: tuple[str, Tokenizer], second: tuple[str, Tokenizer], metrics: tuple[MetricPair, ...]
) -> VersionComparison:
    left, right = first[1], second[1]
    return VersionComparison(
        first=first[0],
        second=second[0],
        vocab_sizes=(left.vocab_size, right.vocab_size),
        patterns=(_pattern(left), _pattern(right)),
        metrics=metrics,
        vocab=compare_vocabs(left, right),
        diverging=first_diverging_merge(left, right),
        documents=None,
        normalizers=(left.spec.normalizer_name, right.spec.normalizer_name),
        remarks=(left.spec.remarks, right.spec.remarks),
        special_tokens=(tuple(left.special_tokens), tuple(right.special_tokens)),
    )


def compare_on_slices(
    first: str | Path,
    second: str | Path,
    sources: Sequence[NamedFiles],
    workspace: Workspace | Path | str | None = None,
    *,
    parallel: bool = False,
    text_field: str = "text",
    separator: str | None = None,
    shown: int = 20,
) -> VersionComparison:
    """Compare two tokenizers on named texts, in total and per slice.

    Args:
        sources: at least one; names must differ.
        parallel: the texts are translations of each other.
        first, second, workspace, text_field, separator, shown: as for `compare_versions`.
    """
    registry = _registry_of(workspace, first, second)
    left, right = (_side(registry, reference) for reference in (first, second))
    reading = _reading((left.tokenizer, right.tokenizer), text_field, separator)
    texts = [
        EvaluationText(
            source.name, documents_of(source.files, reading), source.language, source.domain
        )
        for source in sources
    ]
    compared = _compared(left, right, texts, GIVEN_TEXT, parallel, shown)
    return replace(compared, development=(left.development, right.development))


def _slice_change(name: str, evaluation: Evaluation, opponent: Opponent) -> SliceChange:
    before, after = opponent.slices[name].metrics, evaluation.slices[name].metrics
    return SliceChange(
        name,
        int(after["evaluated/documents"]),
        int(after["evaluated/bytes"]),
        opponent.changes[name],
        tuple(MetricPair(key, before.get(key), after.get(key)) for key in SHOWN_PER_SLICE),
    )


def _registry_of(
    workspace: Workspace | Path | str | None, *references: str | Path
) -> Registry | None:
    """The registry; None if both references are paths."""
    files = all(isinstance(parse_reference(reference), ByPath) for reference in references)
    return None if files else open_registry(workspace, make=False)


def _side(registry: Registry | None, reference: str | Path) -> _Side:
    parsed = parse_reference(reference)
    if registry is None or isinstance(parsed, ByPath):
        return _Side(str(parsed), load_tokenizer(reference), None, {})
    version = resolve(registry, parsed)
    metrics = metrics_of(registry, version)
    return _Side(
        str(version),
        load_version(registry, version),
        version,
        {name: value for name, value in metrics.items() if not depends_on_text(name)},
        Lineage.of(registry, version).development,
    )


def _perhaps_read(registry: Registry, made: EvaluationSet, beside: ResolvedVersion | None) -> str:
    """A note that trainings of another name may have read the set."""
    if beside is None or not beside.name:
        return ""
    sets = registry.catalogue.evaluation_sets(beside.name)
    has_set = any(entry.digest == made.digest for entry in sets)
    return "" if has_set else f", which trainings of {beside.name} may have read"


def _held_out(registry: Registry, version: ResolvedVersion) -> list[bytes]:
    """The documents held out in the training of a version, if they are here."""
    row = registry.catalogue.find_version(version.name, version.digest)
    table = next(iter(registry.catalogue.count_tables(row.counts_digest)), None) if row else None
    if table is None:
        return []
    store = WordCountStore(registry.workspace)
    with suppress(CorruptFile):  # removed, or made in another workspace
        return store.held_out_documents(store.shards_of(table.key), MOST_HELD_OUT)
    return []


def _reading(
    tokenizers: tuple[Tokenizer, Tokenizer], text_field: str, separator: str | None
) -> ReadOptions:
    """Documents end at the separator, else at the special tokens of either."""
    separators = dict.fromkeys(
        text for each in tokenizers for text in separators_of(each, separator)
    )
    return ReadOptions(tokenizers[0].pattern, tuple(separators), text_field=text_field)


def _pattern(tokenizer: Tokenizer) -> str:
    return tokenizer.pattern.title
