"""``bpeline extend``."""

from __future__ import annotations

from typing import Any

import click

from bpeline.flows.cli.options import SIZE, chosen_size_options, command


@command(
    "bpeline extend news@champion --vocab-size 64000",
    "bpeline extend news/3 more/*.txt --vocab-size 40000 --json",
    "bpeline extend news@champion --vocab-size 64000 --rules rules.toml",
    "bpeline extend news@champion --vocab-size auto --model-shape llama-3.2-1b",
    "bpeline extend news@champion --vocab-size 64000 --plan",
)
@click.argument("reference", metavar="REF")
@click.argument("paths", nargs=-1)
@click.option(
    "--vocab-size",
    type=SIZE,
    metavar="NUMBER|auto",
    required=True,
    help="Number of ids of the new version; with auto the one at which text costs a model least.",
)
@chosen_size_options
@click.option("--name", help="Name to register under.  [default: that of the version]")
@click.option("--reserve", type=int, default=0, help="Slots among the new ids, the last ones.")
@click.option(
    "--round-to", type=int, default=1, help="More slots, until the number of ids is a multiple."
)
@click.option(
    "--rules",
    type=click.Path(dir_okay=False),
    help="A .toml file of rules; the new version becomes champion if all hold. Those that the "
    "version itself was trained with are not asked again.",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Only say what is cached, what would be read and learned, and whether an alias moves.",
)
@click.option("--workers", type=int, help="Threads for counting.  [default: all cores]")
def extend(
    reference: str,
    paths: tuple[str, ...],
    vocab_size: int | str,
    largest_size: int | None,
    model_shape: str | None,
    name: str | None,
    reserve: int,
    round_to: int,
    rules: str | None,
    plan: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Continue a version to more ids; every old id keeps its meaning.

    More merges are learned behind those of the version, from PATHS, else from the corpus it was
    trained on, whose chunks are not counted again. With them, texts get shorter; ids of new tokens
    follow all old ones, so rows are added at the end of a model's table of embeddings. The new
    version remembers the old one, and a certificate of what was kept.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.cli.train import print_plan, print_summary, run_training
    from bpeline.flows.extend import extension_of, extension_parameters

    parameters: dict[str, Any] = extension_parameters(
        reference,
        vocab_size,
        paths,
        name,
        reserve,
        round_to,
        largest_size=largest_size,
        model_shape=model_shape,
    )
    if rules is not None:
        parameters["rules"] = rules
    if workers is not None:
        parameters["workers"] = workers
    if plan:
        print_plan(parameters, as_json)
        return
    summary = run_training(parameters)
    print_summary(summary, as_json)
    kept = extension_of(summary.directory)
    if kept is not None and not as_json:
        click.echo(f"kept:    {kept}")
