"""``bpeline compare``: two versions side by side."""

from __future__ import annotations

from pathlib import Path

import click

from bpeline.flows.cli.commands import FILE, PATH, command, echo_json, model_shape_option
from bpeline.flows.cli.text_arguments import with_standard_input
from bpeline.tokenizer_core.durable_files import DURABLE


@command(
    "bpeline compare news@champion news@candidate",
    "bpeline compare news/3 news/4 --eval 'fresh/*.jsonl' -o difference.html",
    "bpeline compare news@candidate ./gpt2/tokenizer.json --eval held-out.txt --json",
    "bpeline compare news/3 news/4 --morphology morphs.tsv",
    "bpeline compare news/3 news/4 --model-shape llama-3.1-8b",
    "bpeline compare news/3 news/4 --eval 'english=en/*.txt' --eval 'german:language=de=de/*.txt'",
)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--eval",
    "files",
    multiple=True,
    metavar="FILES",
    help="Text to encode with both: files, directories, globs, or named sources "
    "(NAME=FILES, see `bpeline train --eval`). Repeatable.  "
    "[default: the evaluation set of B, else of A]",
)
@click.option(
    "--words",
    type=click.IntRange(0, 10_000),
    default=10,
    help="Number of words of each kind to show.",
)
@click.option(
    "--morphology",
    type=PATH,
    metavar="FILE",
    help="Compare token ends with the morphs in FILE: lines of unhappiness<tab>un happi ness.",
)
@model_shape_option
@click.option("--text-field", default="text", help="Field or column that holds the text.")
@click.option(
    "--separator",
    metavar="TEXT|none",
    help="With --eval: separator of documents in text files; none: one document per file.  "
    "[default: the special tokens of A and B]",
)
@click.option("-o", "--output", type=FILE, help="Also write an HTML page.")
def compare(
    first: str,
    second: str,
    files: tuple[str, ...],
    words: int,
    text_field: str,
    separator: str | None,
    morphology: Path | None,
    model_shape: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compare two tokenizers: metrics, vocabs, merges and text.

    A and B are name@alias, name/number, a digest, or the path of a tokenizer.json, a .tiktoken
    file or a directory. The difference in tokens has a confidence interval from a paired bootstrap
    over documents.
    """
    files = tuple(with_standard_input(files, text_field))
    from bpeline.flows.evaluation import compare_on, with_morphology, with_serving_cost
    from bpeline.flows.pages import comparison_page
    from bpeline.flows.wording import comparison_json, comparison_lines
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    shape = None if model_shape is None else named_shape(model_shape)
    compared = compare_on(first, second, files, text_field, separator, words)
    if morphology is not None:
        compared = with_morphology(compared, first, second, morphology)
    if shape is not None:
        compared = with_serving_cost(compared, shape)
    if output is not None:
        DURABLE.write(output, comparison_page(compared).encode(errors="backslashreplace"))
    if as_json:
        model = {} if shape is None else {"model": shape.as_dict()}
        echo_json({**comparison_json(compared), **model})
        return
    for line in comparison_lines(compared, words):
        click.echo(line)
    if shape is not None:
        click.echo(f"model      {shape}")
    if compared.documents is None:
        click.echo("text       not compared: add `--eval FILES`")
    if output is not None:
        click.echo(f"\nwrote {output}")
