"""Comparing two tokenizers on files, on named sources as slices, and on morphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpeline.flows.requests import evaluation_sources, files_of_each, is_named
from bpeline.registry.evaluation import (
    MetricPair,
    NamedFiles,
    VersionComparison,
    compare_on_slices,
    compare_versions,
)
from bpeline.registry.loading import load_tokenizer
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import (
    BYTES_PER_TOKEN,
    NamedShape,
    boundary_scores,
    read_gold,
)


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
        first, second, text_field, separator, shown: see `registry.comparison.compare_versions`.
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
