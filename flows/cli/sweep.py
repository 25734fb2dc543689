"""``bpeline sweep``: compare sizes, patterns, variants and mixtures."""

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

# Parameters of a project that a sweep does not take over.
_NOT_SWEPT = ("name", "pattern", "vocab_size", "largest_size", "model_shape", "rules", "roles")
# Options that the printed `bpeline train` command replaces or does not need.
_NOT_OF_TRAINING = {
    "paths", "name", "sizes", "patterns", "variants", "weights", "temperatures", "workers",
    "model_shape", "as_json",
}  # fmt: skip

if TYPE_CHECKING:
    from bpeline.flows.requests import Project


@command(
    "bpeline sweep corpus/ --name news --sizes 8000,16000,32000,64000",
    "bpeline sweep corpus/ --name news --sizes 16000,32000 --pattern gpt2 --pattern cl100k --json",
    "bpeline sweep corpus/ --name news --sizes 32000,64000,128000 --model-shape llama-3.1-8b",
    "bpeline sweep --source 'en=en/*.txt' --source 'de=de/*.txt' --name two --sizes 32000 "
    "--variant plain --variant whole-characters --variant parity --variant superbpe",
    "bpeline sweep corpus.toml --sizes 32000 --weights de=2 --weights de=4,en=1 --temperatures 2,5",
    "bpeline sweep news@champion --temperatures 1,1.4,3.3,100 --eval 'code=heldout/*.py'",
)
@click.argument("paths", nargs=-1, metavar="[PATHS|REF]...")
@click.option(
    "--name",
    help="Name of the experiment in MLflow.  [default: that of a corpus file or REF]",
)
@click.option("--sizes", metavar="N,N,…", help="Vocabulary sizes.  [default: that of REF]")
@project_option
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    help="Split pattern: a name or a regex. Repeatable.  [default: that of the algorithm, gpt2 "
    "for byte-bpe]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=click.Choice(list(VARIANTS)),
    help="Kind of training, see `bpeline train --characters`, `bpeline train --parity` and "
    "`bpeline derive superwords`. Repeatable.  [default: plain]",
)
@click.option(
    "--weights",
    multiple=True,
    metavar="SOURCE=W,…",
    help="Weights of a mixture; other sources keep theirs. Repeatable.",
)
@click.option(
    "--temperatures", metavar="T,T,…", help="Temperatures; each is a mixture of the sources."
)
@click.option(
    "--source", "sources", multiple=True, metavar="NAME=FILES", help="As for `bpeline train`."
)
@click.option(
    "--algorithm",
    type=click.Choice(sorted(CHOICES)),
    help="Algorithm, with its default options.  [default: byte-bpe]",
)
@click.option("--special-token", "special_tokens", multiple=True, help="As for `bpeline train`.")
@click.option(
    "--eval", "evaluation", multiple=True, metavar="NAME=FILES", help="As for `bpeline train`."
)
@click.option(
    "--baseline", "baselines", multiple=True, metavar="[NAME=]REF", help="As for `bpeline train`."
)
@click.option("--held-out", type=float, help="As for `bpeline train`.  [default: 0.01]")
@click.option("--min-count", type=int, help="As for `bpeline train`.  [default: 2]")
@click.option("--deduplicate", is_flag=True, default=None, help="As for `bpeline train`.")
@click.option("--text-field", help="As for `bpeline train`.  [default: text]")
@click.option("--threads", "workers", type=int, help="Number of threads.  [default: one per core]")
@model_shape_option
def sweep(
    paths: tuple[str, ...], name: str | None, sizes: str | None, patterns: tuple[str, ...],
    variants: tuple[str, ...], weights: tuple[str, ...], temperatures: str | None,
    model_shape: str | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Compare sizes, patterns, variants and mixtures on PATHS.

    Nothing is registered. Without PATHS, the corpus, parameters and [sweep] table of bpeline.toml
    are used. With the project's name, PATHS replace only its corpus.

    Text is counted once for each pattern. With byte-bpe, one training serves all sizes. In MLflow a
    sweep is a run with a nested run for each combination. `bpeline train` then reuses the merges.

    --weights and --temperatures compare mixtures with the current one, on the same counts and on
    every source. REF in place of PATHS is a version trained on named sources.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.sweep import sweep as sweep_all
    from bpeline.flows.sweep_record import table_of
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    typed_paths, typed_name = paths, name
    compared: dict[str, Any] = {"patterns": patterns, "variants": variants}
    compared |= {"sizes": _sizes(sizes) if sizes else (), "model_shape": model_shape}
    mixtures = [_weights(item) for item in weights], _temperatures(temperatures or "")
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
            "no vocabulary sizes were given",
            "expected --sizes, or sizes below [sweep] in bpeline.toml",
            "add `--sizes 8000,16000,32000`",
        )
    if name is None and not of_version:
        raise InvalidOption(
            "the sweep has no name",
            "expected a name for its experiment in MLflow, such as news",
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
    model = None if shape is None else named_shape(shape)
    patterns, variants = tuple(compared["patterns"]), tuple(compared["variants"])
    with progress.listening(progress.for_stream(sys.stderr)):
        result = sweep_all(
            list(paths),
            name,
            compared["sizes"],
            patterns,
            home,
            model,
            variants,
            *mixtures,
            **parameters,
        )
    chosen = ["--vocab-size", "N", "--pattern", "P", *_options_given()]
    if project is not None and project_is_named():
        chosen = ["--project", str(project.path), *chosen]
    if project is None or typed_name:
        chosen = ["--name", result.name, *chosen]
    corpus = ("--source", "NAME=FILES") if of_version else typed_paths and paths
    lines = [
        "",
        *table_of(result).lines(),
        f"\n{result.measured_on}",
        f"MLflow     {reached(result.link)}",
    ]
    lines.append(f"register:  bpeline train {shlex.join([*corpus, *chosen])}")
    lines += [f"           {item}: add {typed(item)}" for item in variants if typed(item)]
    if SUPERBPE in variants:
        lines.append(
            f"           {SUPERBPE}: then bpeline derive superwords "
            f"{shlex.quote(result.name)}@candidate --vocab-size N "
            "--transition-size M, with M = 0.9 N"
        )
    if any(mixtures):
        lines.append("           mixtures: add --temperature T, or :weight=W to names of sources")
    answer(as_json, asdict(result), map(as_typed, lines))


def _merged_with_project(
    project: Project,
    name: str | None,
    paths: tuple[str, ...],
    compared: dict[str, Any],
    given: dict[str, Any],
) -> tuple[str, tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """Name, paths, compared values and other parameters: as typed, or from the project file."""
    project_parameters = project.with_typed({**given, "paths": paths})
    merged = {
        **given,
        **{key: project_parameters[key] for key in project_parameters if key not in _NOT_SWEPT},
    }
    pattern = project.parameters.get("pattern")
    own = {} if pattern is None else {"patterns": [pattern]}
    own |= {key: value for key, value in project.parameters.items() if key == "model_shape"}
    defaults = {**own, **project.sweep}
    compared = {field: value or defaults.get(field, value) for field, value in compared.items()}
    return name or project.name, tuple(merged.pop("paths")), compared, merged


def _options_given() -> list[str]:
    """The options that `bpeline train` needs to train the same tokenizer."""
    context = click.get_current_context()
    typed: list[str] = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in _NOT_OF_TRAINING or value == option.get_default(context) or not value:
            continue
        for item in value if isinstance(value, tuple) else (value,):
            typed += [option.opts[0]] if item is True else [option.opts[0], str(item)]
    return typed


def _sizes(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--sizes is {text!r}",
            "expected comma-separated whole numbers",
            "type `--sizes 8000,16000,32000`",
        ) from None


def _weights(text: str) -> dict[str, float]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    try:
        return {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        raise InvalidOption(
            f"--weights is {text!r}",
            "expected comma-separated SOURCE=NUMBER",
            "type `--weights de=2,en=1`",
        ) from None


def _temperatures(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--temperatures is {text!r}",
            "expected comma-separated numbers",
            "type `--temperatures 1,2,5`",
        ) from None
