"""``bpeline superwords``."""

from __future__ import annotations

from typing import Literal

import click

from bpeline.flows.cli.options import SIZE, chosen_size_options, command


@command(
    "bpeline superwords news@champion --vocab-size 32000 --transition-size 28800",
    "bpeline superwords news/3 --vocab-size 64000 --name news-super --json",
    "bpeline superwords news@champion --vocab-size 32000 --cuts digits --name news-llama",
    "bpeline superwords news/3 --vocab-size auto --model-shape llama-3.2-1b --name news-super",
    "bpeline superwords news@champion --vocab-size 64000 --plan",
)
@click.argument("reference", metavar="REF")
@click.argument("paths", nargs=-1)
@click.option(
    "--vocab-size",
    type=SIZE,
    metavar="NUMBER|auto",
    required=True,
    help="Number of ids, superwords included; with auto the one at which text costs a model least.",
)
@chosen_size_options
@click.option(
    "--transition-size",
    type=int,
    help="How many of its ids the version gives.  [default: all]",
)
@click.option(
    "--cuts",
    type=click.Choice(["punctuation", "digits"]),
    default="punctuation",
    show_default=True,
    help="Where superwords end: at numbers and runs of punctuation, or at numbers alone, digits by "
    "three from the right, which llama.cpp reads (--format gguf).",
)
@click.option("--name", help="Name to register under.  [default: that of the version]")
@click.option("--reserve", type=int, default=0, help="Slots among the new ids, the last ones.")
@click.option(
    "--round-to", type=int, default=1, help="More slots, until the number of ids is a multiple."
)
@click.option(
    "--rules",
    type=click.Path(dir_okay=False),
    help="A .toml file of rules; the new version becomes champion if all hold.",
)
@click.option("--plan", is_flag=True, help="Only say what would be read, reused and learned.")
@click.option("--workers", type=int, help="Threads for counting.  [default: all cores]")
def superwords(
    reference: str,
    paths: tuple[str, ...],
    vocab_size: int | str,
    largest_size: int | None,
    model_shape: str | None,
    transition_size: int | None,
    cuts: Literal["punctuation", "digits"],
    name: str | None,
    reserve: int,
    round_to: int,
    rules: str | None,
    plan: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Go on from the words of a version to tokens of several words.

    The first ids of the version stay as words; merges across spaces follow, learned from PATHS,
    else from the corpus that the version was trained on, in lines. Ids are others than those of the
    version. The same text takes fewer tokens; `bpeline compare` says how many.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.cli.train import print_plan, print_summary, run_training
    from bpeline.flows.superwords import superword_parameters

    parameters = superword_parameters(
        reference,
        vocab_size,
        transition_size,
        paths,
        name,
        reserve,
        round_to,
        largest_size=largest_size,
        model_shape=model_shape,
        cuts=cuts,
    )
    asked = {"rules": rules, "workers": workers}
    parameters |= {key: value for key, value in asked.items() if value is not None}
    if plan:
        print_plan(parameters, as_json)
        return
    print_summary(run_training(parameters), as_json)
