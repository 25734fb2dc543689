"""Evaluation of registered versions, on the evaluation sets of names or on given texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.pages import show_name_page
from bpeline.flows.requests import SMALLEST_SIZE, evaluation_sources, files_of_each, is_named
from bpeline.registry.catalogue import NamedSet
from bpeline.registry.evaluation import (
    ROBUSTNESS_COLUMNS,
    Measured,
    MetricPair,
    NamedFiles,
    VersionComparison,
    change_set,
    chosen_size_of,
    compare_on_slices,
    compare_versions,
    evaluate_version,
    evaluation_of,
    measure_anew,
    robustness_on_set,
    versions_with_aliases,
)
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    Text,
    as_set,
    has_set,
    read_set,
    texts_of,
)
from bpeline.registry.loading import ResolvedVersion, load_tokenizer, load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered, validate_name
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus import ReadOptions, SkippedFiles
from bpeline.tokenizer_core.counting import count_texts, evaluation_documents
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, UnknownVersion
from bpeline.tokenizer_core.evaluation import (
    BYTES_PER_TOKEN,
    CheapestSize,
    ModelShape,
    NamedShape,
    boundary_scores,
    bytes_per_token_at,
    cheapest_size,
    has_curve,
    read_gold,
    sizes_between,
)
from bpeline.tokenizer_core.shards import NO_SEPARATOR
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tables import Table

UNNAMED = "text"  # the slice of files without a name


@dataclass(frozen=True, slots=True)
class ListedSet:
    """A current or former evaluation set of a name.

    Attributes:
        made: the set; None if its documents are not in this workspace.
    """

    named: NamedSet
    made: EvaluationSet | None
    current: bool


def list_sets(name: str | None = None) -> list[ListedSet]:
    """List the evaluation sets of all names, or of one, by name and number."""
    if name is not None:
        validate_name(name)
    registry = open_registry(make=False)
    named_sets = registry.catalogue.evaluation_sets(name)
    latest = {named_set.name: named_set.number for named_set in named_sets}
    return [
        ListedSet(
            named_set,
            _known(registry, named_set.digest),
            named_set.number == latest[named_set.name],
        )
        for named_set in named_sets
    ]


def evaluate_registered(reference: str) -> list[Measured]:
    """Measure a version; for a name, measure all versions with an alias."""
    checks.text("reference", reference, "news@champion")
    registry = open_registry(make=False)
    if "/" not in reference and "@" not in reference:
        validate_name(reference)
        measured = measure_anew(registry, reference)
        if measured:
            show_name_page(registry, reference)
            return measured
    measured = [evaluate_version(registry, resolve(registry, parse_registered(reference)))]
    show_name_page(registry, measured[0].version.name)
    return measured


def robustness(measured: Measured) -> list[dict[str, Any]]:
    """Measure robustness by kind and language; errors as in `robustness_on_set`."""
    rows = robustness_on_set(open_registry(make=False), measured)
    return Table(ROBUSTNESS_COLUMNS, rows).json()


def serving_costs(measured: Measured, model: NamedShape) -> dict[str, dict[str, float]]:
    """Return the cost of text for a model with the version's vocabulary, by slice."""
    size = load_version(open_registry(make=False), measured.version).vocab_size
    return {
        name: model.figures(size, part.metrics[BYTES_PER_TOKEN])
        for name, part in measured.found.slices.items()
    }


def cheapest_size_of(measured: Measured, shape: ModelShape) -> CheapestSize:
    """Find the size of a version that costs a model least, on its evaluation set."""
    registry = open_registry(make=False)
    tokenizer = load_version(registry, measured.version)
    if not has_curve(tokenizer):
        raise InvalidOption(
            f"the smaller sizes of {measured.version} cannot be measured in one pass",
            "expected byte-level BPE, whose first merges are a tokenizer too",
            "measure other versions with `bpeline evaluate`, or sizes with `bpeline sweep`",
        )
    texts = texts_of(registry.workspace, measured.made)
    documents = (text.decode() for text_of_set in texts for text in text_of_set.documents)
    counts = count_texts(documents, tokenizer.pattern, tuple(tokenizer.special_tokens))
    gains, full = tokenizer.merge_gains(counts), tokenizer.vocab_size
    sizes = sizes_between(max(SMALLEST_SIZE, full - len(gains)), full)
    return cheapest_size(shape, bytes_per_token_at(tokenizer, counts.total_bytes, gains, sizes))


def chosen_size(version: ResolvedVersion, model: NamedShape) -> str:
    """Describe how the training chose its size for this model; empty if it did not."""
    chosen = chosen_size_of(evaluation_of(open_registry(make=False), version), version.name)
    if chosen is None or chosen["model"]["label"] != model.label:
        return ""
    return f"its training chose it of {chosen['smallest']:,} to {chosen['reached']:,} ids"


def set_from(
    name: str,
    sources: Sequence[str | Path],
    *,
    by: str,
    reason: str,
    text_field: str = "text",
    separator: str | None = None,
) -> tuple[NamedSet, list[Measured], SkippedFiles]:
    """Give a name a new evaluation set, and measure its versions with an alias on it.

    Args:
        sources: files, directories and globs, or named sources as in ``--eval``.
        text_field: the JSON member that contains the document of a line.
        separator: separator of documents in a text file; None stands for the special tokens of
            versions with an alias, ``none`` for one document per file.
    """
    validate_name(name)
    sources = checks.rows("sources", sources, "paths")
    checks.text("by", by)
    checks.text("reason", reason)
    checks.text("text_field", text_field)
    if separator is not None:
        checks.text("separator", separator)
    registry = open_registry(make=False)
    if not registry.tracker.versions(name):
        raise UnknownVersion(
            f"no tokenizer is called {name} in MLflow at {registry.tracker.settings.place}",
            "expected a name with versions; the first training of a name creates its set",
            "type `bpeline versions` to see the names, or pass the texts to the first training: "
            f"`bpeline train … --name {name} --eval 'NAME=FILES'`",
        )
    versions = versions_with_aliases(registry, name)
    tokenizers = [load_version(registry, item) for item in versions]
    separators = dict.fromkeys(token for item in tokenizers for token in item.special_tokens)
    if separator is not None:
        separators = {} if separator == NO_SEPARATOR else {separator: None}
    pattern = tokenizers[0].pattern if tokenizers else SplitPattern.named("gpt2")
    reading = ReadOptions(pattern, tuple(separators), text_field=text_field)
    paths = map(str, sources)
    evaluation = evaluation_sources(
        item if is_named(item) else f"{UNNAMED}={item}" for item in paths
    )
    files_found, skipped = files_of_each(evaluation.sources)
    texts = [
        Text(
            item.name, list(evaluation_documents(files, reading)), item.language, item.domain,
            item.files,
        )
        for item, files in zip(evaluation.sources, files_found, strict=True)
    ]  # fmt: skip
    made, documents = as_set(texts, parallel=evaluation.parallel)
    if len(made.texts) < len(texts):
        raise EmptyCorpus(
            "a source of the evaluation set has no document",
            "expected at least one document in each source",
            "name files that contain text",
        )
    named = change_set(registry, name, made, documents, by=by, reason=reason)
    measured = measure_anew(registry, name)
    show_name_page(registry, name)
    return named, measured, skipped


def _known(registry: Registry, digest: str) -> EvaluationSet | None:
    return read_set(registry.workspace, digest) if has_set(registry.workspace, digest) else None


def compare_on(
    first: str,
    second: str,
    on: Sequence[str],
    text_field: str = "text",
    separator: str | None = None,
    shown: int = 20,
) -> VersionComparison:
    """Compare two tokenizers.

    Args:
        first, second, text_field, separator, shown: as for `compare_versions` of the registry.
        on: files, directories and globs; or only named sources, in the syntax of
            `evaluation_sources`. An existing file is always read as a file.
    """
    if separator is not None and not on:
        raise InvalidOption(
            "--separator was given without files to compare on",
            "expected files, and the separator of their documents",
            "add `--eval FILES`, or leave --separator out",
        )
    reading: dict[str, Any] = {"text_field": text_field, "separator": separator}
    named = [path for path in on if is_named(path)]
    if not named:
        return compare_versions(first, second, on=on, shown=shown, **reading)
    if len(named) < len(on):
        (other, *_) = (path for path in on if path not in named)
        raise InvalidOption(
            f"--eval names the source {named[0]!r}, and files without a name: {other!r}",
            "expected either files, or only named sources, each of which is a slice",
            f"type `--eval 'other={other}'`",
        )
    evaluation = evaluation_sources(named)
    files_found, skipped = files_of_each(evaluation.sources)
    sources = [
        NamedFiles(path.name, files, path.language, path.domain)
        for path, files in zip(evaluation.sources, files_found, strict=True)
    ]
    compared = compare_on_slices(
        first, second, sources, parallel=evaluation.parallel, shown=shown, **reading
    )
    return replace(compared, skipped=skipped)


def with_morphology(
    compared: VersionComparison, first: str, second: str, path: Path
) -> VersionComparison:
    """Add both tokenizers' scores on a segmentation into morphs, see `read_gold`."""
    gold = read_gold(path)
    before, after = (
        boundary_scores(load_tokenizer(reference), gold).metrics for reference in (first, second)
    )
    pairs = (MetricPair(key, before.get(key), after.get(key)) for key in {**before, **after})
    return _with_metrics(compared, pairs)


def with_serving_cost(compared: VersionComparison, model: NamedShape) -> VersionComparison:
    """Add the cost of a byte of text for a model with either vocabulary."""
    candidates = (metric for metric in compared.metrics if metric.key == BYTES_PER_TOKEN)
    measured = next(candidates, None)
    if measured is None or measured.first is None or measured.second is None:
        raise InvalidOption(
            "a model shape was given, but no text to measure its cost on",
            "expected both tokenizers to be measured on the same text",
            "add `--eval FILES`",
        )
    figures = measured.first, measured.second
    first, second = map(model.figures, compared.vocab_sizes, figures)
    return _with_metrics(compared, (MetricPair(key, first[key], second[key]) for key in first))


def _with_metrics(compared: VersionComparison, pairs: Iterable[MetricPair]) -> VersionComparison:
    metrics = sorted((*compared.metrics, *pairs), key=lambda metric: metric.key)
    return replace(compared, metrics=tuple(metrics))
