"""``bpeline sweep``: sizes, patterns, variants and mixtures side by side, to choose from."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import (
    answer,
    command,
    model_shape_option,
    project_for,
    project_is_named,
    project_option,
    reached,
)
from bpeline.flows.cli.text_arguments import with_standard_input
from bpeline.flows.requests import CHOICES, SUPERBPE, VARIANTS, is_file, is_version, typed
from bpeline.flows.wording import as_typed
from bpeline.registry.environment import addresses
from bpeline.tokenizer_core.errors import InvalidOption

# What a sweep varies, and what only a new version is asked.
_NOT_SWEPT = ("name", "pattern", "vocab_size", "largest_size", "model_shape", "rules", "roles")
# What is chosen of the sweep, said already, or changes no tokenizer.
_NOT_OF_TRAINING = {
    "paths", "name", "sizes", "patterns", "variants", "weights", "temperatures", "workers",
    "model_shape", "as_json",
}  # fmt: skip

if TYPE_CHECKING:
    from bpeline.flows.requests import Project


@command(
    "bpeline sweep corpus/ --name news --sizes 8000,16000,32000,64000",
    "bpeline sweep",
    "bpeline sweep corpus/ --name news --sizes 16000,32000 --pattern gpt2 --pattern cl100k --json",
    "bpeline sweep corpus/ --name news --sizes 32000,64000,128000 --model-shape llama-3.1-8b",
    "bpeline sweep corpus/ --name words --sizes 8000,16000 --algorithm wordpiece",
    "bpeline sweep corpus/ --name news --sizes 32000 --eval 'german:language=de=heldout/de/*.txt'",
    "bpeline sweep --source 'en=en/*.txt' --source 'de=de/*.txt' --name two --sizes 32000 "
    "--variant plain --variant whole-characters --variant parity --variant superbpe",
    "bpeline sweep corpus.toml --sizes 32000 --weights de=2 --weights de=4,en=1 --temperatures 2,5",
    "bpeline sweep news@champion --temperatures 1,1.4,3.3,100 --eval 'code=heldout/*.py'",
)
@click.argument("paths", nargs=-1, metavar="[PATHS|REF]...")
@click.option(
    "--name",
    help="The tokenizer's name: the experiment in MLflow.  [default: that of a corpus file or REF]",
)
@click.option("--sizes", metavar="N,N,…", help="Vocabulary sizes.  [default: that of REF]")
@project_option
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    help="Split pattern: a name or a regex; repeat for more.  [default: that of the algorithm, "
    "gpt2 for byte-bpe]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=click.Choice(list(VARIANTS)),
    help="Also train it so: tokens of whole characters (`bpeline train --characters`), languages "
    "served alike (`bpeline train --parity`, with --source), or superwords; repeat for more.  "
    "[default: plain]",
)
@click.option(
    "--weights",
    multiple=True,
    metavar="SOURCE=W,…",
    help="A mixture of the named sources: those left out keep their weights; repeat for more.",
)
@click.option(
    "--temperatures", metavar="T,T,…", help="Each a mixture, with the weights as they are."
)
@click.option("--source", "sources", multiple=True, metavar="NAME=FILES", help="Instead of PATHS.")
@click.option(
    "--algorithm",
    type=click.Choice(sorted(CHOICES)),
    help="As of `bpeline train`, with its usual options.  [default: byte-bpe]",
)
@click.option("--special-token", "special_tokens", multiple=True, help="As of `bpeline train`.")
@click.option("--eval", "evaluation", multiple=True, metavar="NAME=FILES", help="Likewise.")
@click.option("--baseline", "baselines", multiple=True, metavar="[NAME=]REF", help="Likewise.")
@click.option("--held-out", type=float, help="Likewise.  [default: 0.01]")
@click.option("--min-count", type=int, help="Likewise.  [default: 2]")
@click.option("--deduplicate", is_flag=True, default=None, help="Likewise.")
@click.option("--text-field", help="Likewise.  [default: text]")
@click.option("--threads", "workers", type=int, help="Threads for counting.  [default: all cores]")
@model_shape_option
def sweep(
    paths: tuple[str, ...], name: str | None, sizes: str | None, patterns: tuple[str, ...],
    variants: tuple[str, ...], weights: tuple[str, ...], temperatures: str | None,
    model_shape: str | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Measure several sizes, patterns, variants and mixtures on PATHS; register nothing.

    Without PATHS those of the project's bpeline.toml, with its name, pattern and other parameters;
    what is compared stands in its table [sweep]. PATHS for its name replace its corpus alone.

    Counting is done once for each pattern, and one training serves all its sizes (of another
    algorithm than byte-bpe, each size is learned). In MLflow the
    sweep is a run with a nested run for each combination. The one you choose is trained by
    `bpeline train` without learning anything again.

    With --weights or --temperatures the mixture that there is and each of yours is trained on the
    same counts and measured on every source. In place of PATHS, REF is a version that was trained
    on named sources; its parameters hold where you give no others.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.sweep import sweep as sweep_all
    from bpeline.flows.sweeps import table_of
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    typed_paths, typed_name = paths, name
    compared: dict[str, Any] = {"patterns": patterns, "variants": variants}
    compared |= {"sizes": _sizes(sizes) if sizes else (), "model_shape": model_shape}
    mixtures = [_weights(one) for one in weights], _temperatures(temperatures or "")
    of_version = any(mixtures) and is_version(paths)
    if len(paths) == 1 and is_file(paths[0]):
        name = name or Path(paths[0]).stem.lower()
    project = None
    if not of_version:
        project = project_for(typed_name, needed=not (paths or given["sources"]))
    if project is not None:
        of_project = _merged_with_project(project, typed_name, paths, compared, given)
        name, paths, compared, given = of_project
    if not compared["sizes"] and not of_version:
        raise InvalidOption(
            "no size was named",
            "vocabulary sizes, here or below [sweep] in bpeline.toml",
            "add `--sizes 8000,16000,32000`",
        )
    if name is None and not of_version:
        raise InvalidOption(
            "the sweep needs a name, which its experiment in MLflow has",
            "accepted are names such as news",
            "add `--name news`",
        )
    paths = tuple(with_standard_input(paths, given["text_field"] or "text"))
    parameters = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in given.items()
        if value not in (None, ())
    }
    home = addresses().workspace
    shape = compared["model_shape"]
    named = None if shape is None else named_shape(shape)
    patterns, variants = tuple(compared["patterns"]), tuple(compared["variants"])
    with progress.listening(progress.for_stream(sys.stderr)):
        done = sweep_all(
            list(paths),
            name,
            compared["sizes"],
            patterns,
            home,
            named,
            variants,
            *mixtures,
            **parameters,
        )
    chosen = ["--vocab-size", "N", "--pattern", "P", *_options_given()]
    if project is not None and project_is_named():
        chosen = ["--project", str(project.path), *chosen]
    if project is None or typed_name:
        chosen = ["--name", done.name, *chosen]
    corpus = ("--source", "NAME=FILES") if of_version else typed_paths and paths
    lines = [
        "",
        *table_of(done).lines(),
        f"\n{done.measured_on}",
        f"MLflow     {reached(done.link)}",
    ]
    lines.append(f"register:  bpeline train {shlex.join([*corpus, *chosen])}")
    lines += [f"           {one}: add {typed(one)}" for one in variants if typed(one)]
    if SUPERBPE in variants:
        lines.append(
            f"           {SUPERBPE}: then bpeline derive superwords "
            f"{shlex.quote(done.name)}@candidate --vocab-size N "
            "--transition-size M, with nine tenths of N for M"
        )
    if any(mixtures):
        lines.append("           mixtures: add --temperature T, or :weight=W to names of sources")
    answer(as_json, asdict(done), map(as_typed, lines))


def _merged_with_project(
    project: Project,
    name: str | None,
    paths: tuple[str, ...],
    compared: dict[str, Any],
    given: dict[str, Any],
) -> tuple[str, tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """Name, paths, what is compared, and others: as typed, else as the project's file says."""
    asked = project.with_typed({**given, "paths": paths})
    merged = {**given, **{key: asked[key] for key in asked if key not in _NOT_SWEPT}}
    pattern = project.parameters.get("pattern")
    own = {} if pattern is None else {"patterns": [pattern]}
    own |= {key: value for key, value in project.parameters.items() if key == "model_shape"}
    listed = {**own, **project.sweep}
    compared = {one: value or listed.get(one, value) for one, value in compared.items()}
    return name or project.name, tuple(merged.pop("paths")), compared, merged


def _options_given() -> list[str]:
    """The options of this command that a training must be given too to make the same tokenizers."""
    context = click.get_current_context()
    typed: list[str] = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in _NOT_OF_TRAINING or value == option.get_default(context) or not value:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            typed += [option.opts[0]] if one is True else [option.opts[0], str(one)]
    return typed


def _sizes(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--sizes is {text!r}",
            "accepted: whole numbers with commas between them",
            "type `--sizes 8000,16000,32000`",
        ) from None


def _weights(text: str) -> dict[str, float]:
    pairs = [one.partition("=") for one in text.split(",") if one.strip()]
    try:
        return {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        raise InvalidOption(
            f"--weights is {text!r}",
            "accepted: names of sources with numbers, and commas between them",
            "type `--weights de=2,en=1`",
        ) from None


def _temperatures(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--temperatures is {text!r}",
            "accepted: numbers with commas between them",
            "type `--temperatures 1,2,5`",
        ) from None
