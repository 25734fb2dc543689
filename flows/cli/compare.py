"""Commands: compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.options import FILE, PATH, command, echo_json, model_shape_option
from bpeline.flows.cli.text_arguments import with_standard_input
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
            "add `--on FILES`, or leave --separator out",
        )
    reading: dict[str, Any] = {"text_field": text_field, "separator": separator}
    named = [one for one in on if is_named(one)]
    if not named:
        return compare_versions(first, second, on=on, shown=shown, **reading)
    if len(named) < len(on):
        (other, *_) = (one for one in on if one not in named)
        raise InvalidOption(
            f"--on names the source {named[0]!r}, and files without a name: {other!r}",
            "accepted are files alone, or named sources alone, each a slice",
            f"type `--on 'other={other}'`",
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
        path: see `tokenizer_core.evaluation.morphology.read_gold`.

    Raises:
        InvalidOption: not such a file.
        BpelineError: one of the tokenizers cannot be loaded.
    """
    gold = read_gold(path)
    before, after = (
        boundary_scores(load_tokenizer(reference), gold).metrics for reference in (first, second)
    )
    pairs = (MetricPair(key, before.get(key), after.get(key)) for key in {**before, **after})
    metrics = (*compared.metrics, *pairs)
    return replace(compared, metrics=tuple(sorted(metrics, key=lambda one: one.key)))


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
            "add `--on FILES`",
        )
    figures = measured.first, measured.second
    first, second = map(model.figures, compared.vocab_sizes, figures)
    pairs = (MetricPair(key, first[key], second[key]) for key in first)
    metrics = (*compared.metrics, *pairs)
    return replace(compared, metrics=tuple(sorted(metrics, key=lambda one: one.key)))


@command(
    "bpeline compare news@champion news@candidate",
    "bpeline compare news/3 news/4 --on 'fresh/*.jsonl' --html difference.html",
    "bpeline compare news@candidate ./gpt2/tokenizer.json --on held-out.txt --json",
    "bpeline compare news/3 news/4 --morphology morphs.tsv",
    "bpeline compare news/3 news/4 --model-shape llama-3.1-8b",
    "bpeline compare news/3 news/4 --on 'english=en/*.txt' --on 'german:language=de=de/*.txt'",
)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--on",
    "files",
    multiple=True,
    metavar="FILES",
    help="Text to encode with both: files, directories or globs; may be repeated. As named "
    "sources (NAME=FILES, or a .toml file, as of `bpeline train --eval`) each is a slice.  "
    "[default: the evaluation set of B's name, else of A's]",
)
@click.option(
    "--words",
    type=click.IntRange(0, 10_000),
    default=10,
    help="How many words of each kind to show.",
)
@click.option(
    "--morphology",
    type=PATH,
    metavar="FILE",
    help="Words and their morphs (unhappiness<tab>un happi ness on each line): do tokens end where "
    "morphs do?",
)
@model_shape_option
@click.option("--text-field", default="text", help="Field of .jsonl lines.")
@click.option(
    "--separator",
    metavar="TEXT|none",
    help="With --on: what stands between the documents of a text file; none: each is one "
    "document.  [default: the special tokens of A and B]",
)
@click.option("--html", type=FILE, help="Also write a page to read.")
def compare(
    first: str,
    second: str,
    files: tuple[str, ...],
    words: int,
    text_field: str,
    separator: str | None,
    morphology: Path | None,
    model_shape: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Compare two tokenizers: metrics, vocabs, merges, and text that both encode.

    A and B are name@alias, name/number, a digest, or the path of a tokenizer.json, a .tiktoken
    file or a directory. The difference in tokens comes with an interval: documents are resampled
    in pairs.
    """
    files = tuple(with_standard_input(files, text_field))
    from bpeline.flows.pages import comparison_page
    from bpeline.flows.wording import comparison_json, comparison_lines
    from bpeline.tokenizer_core.durable_files import DURABLE
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    named = None if model_shape is None else named_shape(model_shape)
    compared = compare_on(first, second, files, text_field, separator, words)
    if morphology is not None:
        compared = with_morphology(compared, first, second, morphology)
    if named is not None:
        compared = with_serving_cost(compared, named)
    if html is not None:
        DURABLE.write(html, comparison_page(compared).encode(errors="backslashreplace"))
    if as_json:
        model = {} if named is None else {"model": named.as_dict()}
        echo_json({**comparison_json(compared), **model})
        return
    for line in comparison_lines(compared, words):
        click.echo(line)
    if named is not None:
        click.echo(f"model      {named}")
    if compared.documents is None:
        click.echo("text       none was compared: name some with `--on FILES`")
    if html is not None:
        click.echo(f"\nwrote {html}")
