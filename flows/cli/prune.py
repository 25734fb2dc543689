"""``bpeline prune``."""

from __future__ import annotations

from pathlib import Path

import click

from bpeline.flows.cli.options import DIRECTORY, PATH, answer, command


@command(
    "bpeline prune news/3 --drop-unreachable --min-count 5 -o plan.json",
    "bpeline prune news/3 our-data/*.jsonl --min-count 100 -o plan.json --save-to pruned/",
)
@click.argument("reference", metavar="REF")
@click.argument("files", nargs=-1)
@click.option("--drop-unreachable", is_flag=True, help="Tokens go that no text leads to.")
@click.option(
    "--min-count",
    type=click.IntRange(min=0),
    default=0,
    show_default=False,
    help="Tokens go that occur less often.",
)
@click.option("-o", "--output", required=True, type=PATH, help="The plan, JSON.")
@click.option(
    "--save-to", type=DIRECTORY, help="Save the tokenizer that is left in this directory."
)
def prune(
    reference: str,
    files: tuple[str, ...],
    drop_unreachable: bool,
    min_count: int,
    output: Path,
    save_to: Path | None,
    as_json: bool,
) -> None:
    """Plan which tokens of a version can go, and how ids change.

    Tokens are counted in FILES, else in the words the version was trained on. Special tokens,
    bytes, and what other tokens are made of stay. The plan maps old ids to new ones and back: a
    table of embeddings E becomes E[old_of_new]. Texts without the tokens that go are encoded as
    before; the plan says how many of a sample are not. Nothing is registered.

    REF is name@alias, name/number, a digest or a path.
    """
    from bpeline.flows.prune import prune as plan_pruning

    plan = plan_pruning(
        reference,
        output,
        files,
        min_count=min_count,
        drop_unreachable=drop_unreachable,
        save_to=save_to,
    )
    sizes, tokens, sample = plan["vocab_size"], plan["tokens"], plan["sample"]
    more = 100 * (tokens["after"] / tokens["before"] - 1) if tokens["before"] else 0.0
    answer(as_json, plan, [
        f"{len(plan['dropped']):,} of {sizes['before']:,} tokens can go",
        f"{plan['kept_as_parts']:,} more were to, but other tokens are made of them",
        f"the counted words take {more:.3f} % more tokens",
        f"{sample['changed']:,} of {sample['texts']:,} sample texts change",
        *(f"wrote {path}" for path in (output, save_to) if path is not None),
    ])  # fmt: skip
