"""Two tokenizers compared on what was typed: files, named sources that make slices, and morphs."""

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
        on: files, directories and globs; or all of them named sources, as `evaluation_sources`
            spells them. What is a file, whatever its name, is that file.

    Raises:
        InvalidOption: some are named and others are not; a separator, and no files.
        BpelineError: see `compare_versions`.
    """
    if separator is not None and not on:
        raise InvalidOption(
            "--separator was given, and no files to compare on",
            "files, and what separates their documents",
            "add `--eval FILES`, or leave --separator out",
        )
    reading: dict[str, Any] = {"text_field": text_field, "separator": separator}
    named = [one for one in on if is_named(one)]
    if not named:
        return compare_versions(first, second, on=on, shown=shown, **reading)
    if len(named) < len(on):
        (other, *_) = (one for one in on if one not in named)
        raise InvalidOption(
            f"--eval names the source {named[0]!r}, and files without a name: {other!r}",
            "accepted are files alone, or named sources alone, each a slice",
            f"type `--eval 'other={other}'`",
        )
    asked = evaluation_sources(named)
    found, skipped = files_of_each(asked.sources)
    sources = [
        NamedFiles(one.name, files, one.language, one.domain)
        for one, files in zip(asked.sources, found, strict=True)
    ]
    compared = compare_on_slices(
        first, second, sources, parallel=asked.parallel, shown=shown, **reading
    )
    return replace(compared, skipped=skipped)


def with_morphology(
    compared: VersionComparison, first: str, second: str, path: Path
) -> VersionComparison:
    """A comparison with both tokenizers' figures of a segmentation into morphs.

    Args:
        first, second: what is compared.
        path: see `tokenizer_core.evaluation.metrics.read_gold`.

    Raises:
        InvalidOption: not such a file.
        BpelineError: one of the tokenizers cannot be loaded.
    """
    gold = read_gold(path)
    before, after = (
        boundary_scores(load_tokenizer(reference), gold).metrics for reference in (first, second)
    )
    pairs = (MetricPair(key, before.get(key), after.get(key)) for key in {**before, **after})
    return _with_metrics(compared, pairs)


def with_serving_cost(compared: VersionComparison, model: NamedShape) -> VersionComparison:
    """A comparison with what a byte of the texts costs a model with either vocabulary.

    Raises:
        InvalidOption: there were no texts to measure on.
    """
    found = (one for one in compared.metrics if one.key == BYTES_PER_TOKEN)
    measured = next(found, None)
    if measured is None or measured.first is None or measured.second is None:
        raise InvalidOption(
            "a model shape was given, and no text to tell what it costs",
            "both tokenizers measured on the same text",
            "add `--eval FILES`",
        )
    figures = measured.first, measured.second
    first, second = map(model.figures, compared.vocab_sizes, figures)
    return _with_metrics(compared, (MetricPair(key, first[key], second[key]) for key in first))


def _with_metrics(compared: VersionComparison, pairs: Iterable[MetricPair]) -> VersionComparison:
    metrics = sorted((*compared.metrics, *pairs), key=lambda one: one.key)
    return replace(compared, metrics=tuple(metrics))
