"""Two versions side by side: their metrics, vocabs and merges, and what both make of documents.

Finds and loads what is to be compared; `tokenizer_core.evaluation.comparison` says how they differ.
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
from bpeline.tokenizer_core.corpus import Reading, SkippedFiles, Source, search_sources
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

GIVEN = "text"  # the slice of files that were given without a name
GIVEN_TEXT = "the text that was given"
_FIRST = "first"  # the label of the one that is compared with
MOST_HELD_OUT = 32 << 20  # bytes; beyond it documents are left out evenly


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric of two versions; None where a version does not have it."""

    key: str
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        """Second minus first, when both exist."""
        if self.first is None or self.second is None:
            return None
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Two versions side by side.

    Attributes:
        first, second: the versions (``news/3``), or the paths of tokenizers outside the registry.
        vocab_sizes: numbers of ids.
        patterns: names or regexes of the split patterns.
        normalizers: what is done to texts before they are cut, for people.
        remarks: what people should know of how either was read from a file.
        passages: pieces of the documents that both cut, those that cost most more and most fewer
            tokens; none where the documents were measured earlier.
        development: the texts that said which language the training of either served; empty of
            most trainings.
        skipped: files that a search for texts to compare on did not read; None where none was made.
        special_tokens: of either.
        metrics: every metric either has, sorted by name; those that depend on text are of the same
            documents.
        vocab: tokens that came, went and moved.
        diverging: where the merges part; None when they are the same.
        documents: what both make of the documents compared on; None when there were none.
        slices: the same in short for every slice, where the documents have any.
        measured_on: what all figures that depend on text are of, for people; empty when there were
            no documents.
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
        """The same under another name of the second one, which has its number now."""
        return replace(self, second=second)

    def __repr__(self) -> str:
        tokens = next((one.change.value for one in self.slices if one.name == ALL), None)
        said = "" if tokens is None else f", {tokens:+.2%} tokens on {self.measured_on}"
        return f"<VersionComparison: {self.first} and {self.second}{said}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, slices with intervals, metrics that differ."""
        heads = ("", self.first, self.second, "difference")
        both = [
            ("vocabulary", *(f"{size:,} ids" for size in self.vocab_sizes), ""),
            ("split pattern", *self.patterns, ""),
            ("tokens of its own", f"{len(self.vocab.removed):,}", f"{len(self.vocab.added):,}", ""),
        ]
        differing = [one for one in self.metrics if one.difference != 0]
        both += [
            (one.key, number_text(one.first), number_text(one.second),
             number_text(one.difference, "+"))
            for one in differing
        ]  # fmt: skip
        equal = len(self.metrics) - len(differing)
        said = [self.measured_on] * bool(self.measured_on)
        if equal:
            said.append(f"{equal:,} of {len(self.metrics):,} metrics are equal and not shown")
        changes = [
            (one.name, f"{one.documents:,}", f"{one.bytes:,}", f"{one.change.value:+.2%}",
             " … ".join(f"{end:+.2%}" for end in one.change.intervals.get(CONFIDENCE, ())))
            for one in self.slices
        ]  # fmt: skip
        interval = f"{CONFIDENCE:.0%} interval"
        sliced = Table(("slice", "documents", "bytes", "tokens", interval), changes).html()
        return f"{sliced if changes else ''}{Table(heads, both).html('; '.join(said))}"


@dataclass(frozen=True, slots=True)
class SliceChange:
    """How many tokens a part of the documents takes.

    Attributes:
        name: of the slice.
        documents, bytes: how much text.
        change: from the first version to the second.
        metrics: those that are shown of every slice (`SHOWN_PER_SLICE`).
    """

    name: str
    documents: int
    bytes: int
    change: Change
    metrics: tuple[MetricPair, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files to compare on that make a slice of their own.

    Attributes:
        name: of the slice.
        files: as `find_source_files` found them.
        language, domain: labels, which make slices too.
    """

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
    """Compare two tokenizers, each a registered version or any file that can be loaded.

    Args:
        first, second: as for :func:`registry.load_tokenizer`.
        workspace: likewise.
        on: files, directories or globs to encode with both, cut into documents at either's special
            tokens. Without any, the evaluation set of ``second``'s name, else of ``first``'s, else
            the documents held out when ``second`` was trained, as far as they are here.
        text_field: the member of a JSON line that holds its document.
        separator: what the documents of ``on`` are cut at instead; ``none``: each file is one.
        shown: words of each kind in the result, at most.

    Raises:
        UnknownVersion, InvalidOption, CorruptFile: one of them cannot be loaded.
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
    one, other = (_side(registry, reference) for reference in (first, second))
    compared = _on_texts(registry, one, other, on, text_field, separator, shown)
    return replace(compared, development=(one.development, other.development))


def _on_texts(
    registry: Registry | None,
    one: _Side,
    other: _Side,
    on: Sequence[str | Path],
    text_field: str,
    separator: str | None,
    shown: int,
) -> VersionComparison:
    """Both on what was given, else on the first texts of either that there are."""
    if on:
        found = search_sources([Source(str(pattern)) for pattern in on])
        reading = _reading((one.tokenizer, other.tokenizer), text_field, separator)
        texts = [EvaluationText(GIVEN, documents_of(found.files, reading))]
        compared = _compared(one, other, texts, GIVEN_TEXT, False, shown)
        return replace(compared, skipped=found.skipped)
    for version, beside in ((other.version, one.version), (one.version, other.version)):
        with suppress(UnknownEvaluationSet, CorruptFile):
            if registry is not None and version is not None and version.name:
                made = evaluation_set_of(registry, version.name)
                texts = texts_of(registry.workspace, made)
                said = f"{made} of {version.name}{_perhaps_read(registry, made, beside)}"
                return _compared(one, other, texts, said, made.parallel, shown)
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
    """Both on the same texts, with what is known of both whatever the text."""
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
    # What a tokenizer alone decides is among both; what was measured now counts.
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
    """The comparison of a new tokenizer with one that its evaluation measured beside it.

    Args:
        first, second: title, tokenizer, and what it made of all documents; the second is new.
        evaluation: of the second.
        label: of the first in it.
        measured_on: which documents, for people.
        shown: words of each kind in the result, at most.
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
    """What there is to say without a text."""
    one, other = first[1], second[1]
    return VersionComparison(
        first=first[0],
        second=second[0],
        vocab_sizes=(one.vocab_size, other.vocab_size),
        patterns=(_pattern(one), _pattern(other)),
        metrics=metrics,
        vocab=compare_vocabs(one, other),
        diverging=first_diverging_merge(one, other),
        documents=None,
        normalizers=(one.spec.normalizer_name, other.spec.normalizer_name),
        remarks=(one.spec.remarks, other.spec.remarks),
        special_tokens=(tuple(one.special_tokens), tuple(other.special_tokens)),
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
    """Compare two tokenizers on named texts: all figures are of these, and of every slice.

    Args:
        first, second, workspace, text_field, separator, shown: as for `compare_versions`.
        sources: at least one; names differ.
        parallel: the texts of all languages say the same.

    Raises:
        UnknownVersion, InvalidOption, CorruptFile: one of them cannot be loaded.
        CorpusError: the files cannot be used.
    """
    registry = _registry_of(workspace, first, second)
    one, other = (_side(registry, reference) for reference in (first, second))
    reading = _reading((one.tokenizer, other.tokenizer), text_field, separator)
    texts = [
        EvaluationText(
            source.name, documents_of(source.files, reading), source.language, source.domain
        )
        for source in sources
    ]
    compared = _compared(one, other, texts, GIVEN_TEXT, parallel, shown)
    return replace(compared, development=(one.development, other.development))


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
    """The registry, if one of them is registered; files are compared without a workspace."""
    files = all(isinstance(parse_reference(one), ByPath) for one in references)
    return None if files else open_registry(workspace, make=False)


def _side(registry: Registry | None, reference: str | Path) -> _Side:
    parsed = parse_reference(reference)
    if registry is None or isinstance(parsed, ByPath):
        return _Side(str(parsed), load_tokenizer(reference), None, {})
    version = resolve(registry, parsed)
    known = metrics_of(registry, version)
    return _Side(
        str(version),
        load_version(registry, version),
        version,
        {name: value for name, value in known.items() if not depends_on_text(name)},
        Lineage.of(registry, version).development,
    )


def _perhaps_read(registry: Registry, made: EvaluationSet, beside: ResolvedVersion | None) -> str:
    """That a version of another name is at an advantage, whose trainings did not know the set."""
    if beside is None or not beside.name:
        return ""
    named = registry.catalogue.evaluation_sets(beside.name)
    known = any(one.digest == made.digest for one in named)
    return "" if known else f", which trainings of {beside.name} may have read"


def _held_out(registry: Registry, version: ResolvedVersion) -> list[bytes]:
    """The documents held out when a version was trained, as far as the workspace still has them."""
    row = registry.catalogue.find_version(version.name, version.digest)
    table = next(iter(registry.catalogue.count_tables(row.counts_digest)), None) if row else None
    if table is None:
        return []
    store = WordCountStore(registry.workspace)
    with suppress(CorruptFile):  # swept away, or made in another workspace
        return store.held_out_documents(store.shards_of(table.key), MOST_HELD_OUT)
    return []


def _reading(
    tokenizers: tuple[Tokenizer, Tokenizer], text_field: str, separator: str | None
) -> Reading:
    """Documents end at the special tokens of either, unless a separator was asked for."""
    separators = dict.fromkeys(one for each in tokenizers for one in separators_of(each, separator))
    return Reading(tokenizers[0].pattern, tuple(separators), text_field=text_field)


def _pattern(tokenizer: Tokenizer) -> str:
    return tokenizer.pattern.title
