"""``bpeline derive``: new versions from a registered one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpeline.flows.cli.commands import DIRECTORY, PATH, SIZE, answer, command
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.requests import ExtensionRequest, PruneRequest, SuperwordsRequest

if TYPE_CHECKING:
    from bpeline.flows.publishing import TrainingSummary

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group(
    epilog="\b\nExamples:\n  bpeline derive extend news@champion --vocab-size 64000\n"
    "  bpeline derive --help\n"
)
def derive() -> None:
    """Make a new version from a registered one: more ids, superwords, fewer tokens, other names."""


def _training_options(request: type[ExtensionRequest]) -> Callable[[Function], Function]:
    """The version, and the options of a training that continues it."""
    options = (
        click.argument("reference", metavar="REF"),
        click.argument("paths", nargs=-1),
        options_of(
            request,
            {
                "vocab_size": {"type": SIZE, "metavar": "NUMBER|auto", "required": True},
                "model_shape": {"metavar": "NAME|FILE"},
            },
            but=("reference", "paths"),
        ),
        click.option(
            "--rules",
            type=click.Path(dir_okay=False),
            help="A .toml file of rules; the new version becomes champion if all hold. Those that "
            "the version itself was trained with are not asked again.",
        ),
        click.option(
            "--dry-run",
            is_flag=True,
            help="Only say what is cached, what would be read and learned, and whether an alias "
            "moves.",
        ),
        click.option(
            "--threads", "workers", type=int, help="Threads for counting.  [default: all cores]"
        ),
    )

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _train(
    parameters_of: Callable[..., dict[str, Any]],
    *,
    rules: str | None,
    workers: int | None,
    dry_run: bool,
    as_json: bool,
    **asked: Any,
) -> TrainingSummary | None:
    """Train what goes on from a version, or say what that would do."""
    from bpeline.flows.cli.train import print_plan, print_summary, run_training

    more = {"rules": rules, "workers": workers}
    parameters = parameters_of(**asked)
    parameters |= {key: value for key, value in more.items() if value is not None}
    if dry_run:
        print_plan(parameters, as_json)
        return None
    summary: TrainingSummary = run_training(parameters)
    print_summary(summary, as_json)
    return summary


@command(
    "bpeline derive extend news@champion --vocab-size 64000",
    "bpeline derive extend news/3 more/*.txt --vocab-size 40000 --json",
    "bpeline derive extend news@champion --vocab-size 64000 --rules rules.toml",
    "bpeline derive extend news@champion --vocab-size auto --model-shape llama-3.2-1b",
    "bpeline derive extend news@champion --vocab-size 64000 --dry-run",
)
@_training_options(ExtensionRequest)
def extend(as_json: bool, **asked: Any) -> None:
    """Continue a version to more ids; every old id keeps its meaning.

    More merges are learned after those of the version, from PATHS, else from the corpus it was
    trained on, whose chunks are not counted again. With them, texts get shorter; ids of new tokens
    follow all old ones, so rows are added at the end of a model's table of embeddings. The new
    version remembers the old one, and a certificate of what was kept.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.deriving import extension_parameters
    from bpeline.flows.publishing import extension_of

    summary = _train(extension_parameters, as_json=as_json, **asked)
    kept = None if summary is None else extension_of(summary.directory)
    if kept is not None and not as_json:
        click.echo(f"kept:    {kept}")


@command(
    "bpeline derive superwords news@champion --vocab-size 32000 --transition-size 28800",
    "bpeline derive superwords news/3 --vocab-size 64000 --name news-super --json",
    "bpeline derive superwords news@champion --vocab-size 32000 --cuts digits --name news-llama",
    "bpeline derive superwords news/3 --vocab-size auto --model-shape llama-3.2-1b --name super",
    "bpeline derive superwords news@champion --vocab-size 64000 --dry-run",
)
@_training_options(SuperwordsRequest)
def superwords(**asked: Any) -> None:
    """Go on from the words of a version to tokens of several words.

    The first ids of the version stay as words; merges across spaces follow, learned from PATHS,
    else from the corpus that the version was trained on, in lines. Ids are others than those of the
    version. The same text takes fewer tokens; `bpeline compare` says how many.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.deriving import superword_parameters

    _train(superword_parameters, **asked)


@command(
    "bpeline derive prune news/3 --drop-unreachable --min-count 5 -o plan.json",
    "bpeline derive prune news/3 our-data/*.jsonl --min-count 100 -o plan.json --save-to pruned/",
)
@click.argument("reference", metavar="REF")
@click.argument("files", nargs=-1)
@click.option("--drop-unreachable", is_flag=True, help="Tokens go that no text leads to.")
@click.option("-o", "--output", required=True, type=PATH, help="The plan, JSON.")
@options_of(
    PruneRequest,
    {"min_count": {"type": click.IntRange(min=0)}, "save_to": {"type": DIRECTORY}},
    but=("reference", "paths", "output", "drop_unreachable"),
)
def prune(
    reference: str,
    files: tuple[str, ...],
    output: Path,
    save_to: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Plan which tokens of a version can go, and how ids change.

    Tokens are counted in FILES, else in the words the version was trained on. Special tokens,
    bytes, and what other tokens are made of stay. The plan maps old ids to new ones and back: a
    table of embeddings E becomes E[old_of_new]. Texts without the tokens that go are encoded as
    before; the plan says how many of a sample are not. Nothing is registered.

    REF is name@alias, name/number, a digest or a path.
    """
    from bpeline.flows.deriving import prune as plan_pruning

    plan = plan_pruning(reference, output, files, save_to=save_to, **asked)
    sizes, tokens, sample = plan["vocab_size"], plan["tokens"], plan["sample"]
    more = 100 * (tokens["after"] / tokens["before"] - 1) if tokens["before"] else 0.0
    answer(as_json, plan, [
        f"{len(plan['dropped']):,} of {sizes['before']:,} tokens can go",
        f"{plan['kept_as_parts']:,} more were to, but other tokens are made of them",
        f"the counted words take {more:.3f} % more tokens",
        f"{sample['changed']:,} of {sample['texts']:,} sample texts change",
        *(f"wrote {path}" for path in (output, save_to) if path is not None),
    ])  # fmt: skip


@command(
    "bpeline derive rename news@champion '<|reserved_0|>=<|tool|>' '<|reserved_1|>=<|image|>'",
    "bpeline derive rename llama3/1 '<|reserved_special_token_0|>=<|think|>' --json",
)
@click.argument("reference", metavar="REF")
@click.argument("names", nargs=-1, required=True, metavar="OLD=NEW...")
def rename(reference: str, names: tuple[str, ...], as_json: bool) -> None:
    """Give special tokens of a version other names, such as slots kept by `train --reserve`.

    No id changes, so a model that was trained with the version goes on with the new one. It is
    registered under the same name, and candidate points to it.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.deriving import names_of
    from bpeline.flows.deriving import rename as rename_tokens

    done = rename_tokens(reference, names_of(names))
    new = "newly registered" if done.version.newly_registered else "registered before: nothing new"
    answer(as_json, done.as_dict(), [
        f"{done.version.reference} ({new}): the ids of {done.base}, with other names",
        *(f"  {done.ids[new]:>8,}  {old} → {new}" for old, new in done.names.items()),
        f"{done.slots_left:,} slots are left",
    ])  # fmt: skip


for _command in (extend, superwords, prune, rename):
    derive.add_command(_command)
