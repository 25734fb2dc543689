"""``bpeline derive``: make new versions from a registered one."""

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
    """Extend a version, add superwords, prune it or rename tokens."""


def _training_options(request: type[ExtensionRequest]) -> Callable[[Function], Function]:
    """Add the arguments and options that ``extend`` and ``superwords`` share."""
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
            help="Promotion rules (.toml): the new version becomes champion if all hold. The rules "
            "of REF are not reused.",
        ),
        click.option(
            "--dry-run",
            is_flag=True,
            help="Show what is cached, what would be read and learned, and which alias would move.",
        ),
        click.option(
            "--threads", "workers", type=int, help="Number of threads.  [default: one per core]"
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
    """Extend a version with more merges; every old id keeps its meaning.

    New merges are appended to the version's, learned from PATHS or, without PATHS, from its own
    corpus, whose word counts are reused. New ids follow all old ones, so a model's embedding table
    only gets more rows. The new version records its base version and a certificate of what was
    kept.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.deriving import extension_parameters
    from bpeline.flows.publishing import extension_of

    summary = _train(extension_parameters, as_json=as_json, **asked)
    certificate = None if summary is None else extension_of(summary.directory)
    if certificate is not None and not as_json:
        click.echo(f"kept:    {certificate}")


@command(
    "bpeline derive superwords news@champion --vocab-size 32000 --transition-size 28800",
    "bpeline derive superwords news/3 --vocab-size 64000 --name news-super --json",
    "bpeline derive superwords news@champion --vocab-size 32000 --cuts digits --name news-llama",
    "bpeline derive superwords news/3 --vocab-size auto --model-shape llama-3.2-1b --name super",
    "bpeline derive superwords news@champion --vocab-size 64000 --dry-run",
)
@_training_options(SuperwordsRequest)
def superwords(**asked: Any) -> None:
    """Add superwords, tokens of several words, to a version.

    Keeps the first merges of the version, then learns merges across spaces, within lines of PATHS
    or, without PATHS, of the version's own corpus. Ids differ from those of the version, because
    unused merges are dropped. Text takes fewer tokens; `bpeline compare` shows how many.

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
@click.option("--drop-unreachable", is_flag=True, help="Drop tokens that no text produces.")
@click.option("-o", "--output", required=True, type=PATH, help="File for the plan (JSON).")
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
    """Plan which tokens of a version to drop, and how ids change.

    Tokens are counted in FILES or, without FILES, in the words the version was trained on. Special
    tokens, bytes and parts of other tokens stay. The plan maps old ids to new ones and back: an
    embedding table E becomes E[old_of_new]. Text without dropped tokens is encoded as before; the
    plan says how many texts of a sample change. Nothing is registered.

    REF is name@alias, name/number, a digest or a path.
    """
    from bpeline.flows.deriving import prune as plan_pruning

    plan = plan_pruning(reference, output, files, save_to=save_to, **asked)
    sizes, tokens, sample = plan["vocab_size"], plan["tokens"], plan["sample"]
    more = 100 * (tokens["after"] / tokens["before"] - 1) if tokens["before"] else 0.0
    answer(as_json, plan, [
        f"{len(plan['dropped']):,} of {sizes['before']:,} tokens can be dropped",
        f"{plan['kept_as_parts']:,} more are kept as parts of other tokens",
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
    """Rename special tokens of a version, such as those reserved by `train --reserve`.

    No id changes, so a model trained with the version also works with the new one. The new version
    is registered under the same name, and candidate points to it.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.deriving import names_of
    from bpeline.flows.deriving import rename as rename_tokens

    renamed = rename_tokens(reference, names_of(names))
    new = "newly registered" if renamed.version.newly_registered else "already registered"
    answer(as_json, renamed.as_dict(), [
        f"{renamed.version.reference} ({new}): the ids of {renamed.base} with other names",
        *(f"  {renamed.ids[new]:>8,}  {old} → {new}" for old, new in renamed.names.items()),
        f"{renamed.slots_left:,} reserved ids are left",
    ])  # fmt: skip


for _command in (extend, superwords, prune, rename):
    derive.add_command(_command)
