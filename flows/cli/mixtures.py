"""``bpeline mixtures``: weights and temperatures of sources side by side, to choose from."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.options import FILE, SIZE, answer, command, project_for, reached
from bpeline.tokenizer_core.errors import InvalidOption


@command(
    "bpeline mixtures news@champion --weights de=2 --weights de=4,en=1 --temperatures 2,5",
    "bpeline mixtures corpus.toml --vocab-size 32000 --temperatures 1,1.4,3.3,100",
    "bpeline mixtures corpus.toml --weights code=0 --eval 'code=heldout/*.py' --json",
)
@click.argument("corpus", metavar="REF|CORPUS.TOML")
@click.option(
    "--weights",
    multiple=True,
    metavar="SOURCE=W,…",
    help="A choice: sources that are not named keep their weights; repeat for more.",
)
@click.option(
    "--temperatures", metavar="T,T,…", help="Each a choice, with the weights as they are."
)
@click.option("--name", help="The experiment in MLflow.  [default: that of REF, or of the file]")
@click.option(
    "--vocab-size",
    type=SIZE,
    metavar="NUMBER",
    help="As of `bpeline train`.  [default: REF's, or 32000]",
)
@click.option("--pattern", help="Likewise.")
@click.option("--special-token", "special_tokens", multiple=True, help="Likewise.")
@click.option("--eval", "evaluation", multiple=True, metavar="NAME=FILES", help="Likewise.")
@click.option("--held-out", type=float, help="Likewise.")
@click.option("--deduplicate", is_flag=True, default=None, help="Likewise.")
@click.option("--workers", type=int, help="Threads for counting.  [default: all cores]")
@click.option(
    "--picture",
    type=FILE,
    help="Where to draw it, a .svg file.  [default: NAME-mixtures.svg here]",
)
def mixtures(
    corpus: str,
    weights: tuple[str, ...],
    temperatures: str | None,
    picture: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure what other weights of the sources would do to each language; register nothing.

    REF is a version that was trained on named sources; CORPUS.TOML lists such sources. What they
    hold is counted once; each choice is trained on these counts in seconds and measured on what
    every source holds out, or on --eval. The one you choose is trained by `bpeline train` with
    --source NAME:weight=… or --temperature, without counting again.
    """
    from bpeline.flows.mixtures import compare_mixtures
    from bpeline.flows.mixtures_record import draw_mixtures, table_of
    from bpeline.flows.running import progress
    from bpeline.flows.wording import aligned
    from bpeline.registry.environment import addresses

    if picture is not None and picture.suffix != ".svg":
        raise InvalidOption(
            f"--picture is {picture}", "expected a .svg file", "type `--picture m.svg`"
        )
    parameters = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in given.items()
        if value not in (None, ())
    }
    if corpus.endswith(".toml") and (name := given["name"]):  # a version says all of it itself
        project = project_for(name, needed=False)
        below = {} if project is None else project.parameters
        parameters = {key: below[key] for key in given if key in below} | parameters
    home = str(addresses().home.absolute())
    choices = [_weights(one) for one in weights]
    with progress.listening(progress.for_stream(sys.stderr)):
        done = compare_mixtures(corpus, choices, _numbers(temperatures), home, **parameters)
    drawn = draw_mixtures(done, picture or Path(f"{done.name}-mixtures.svg"))
    places = [f"\npicture    {drawn}", f"MLflow     {reached(done.link)}"]
    told = {**asdict(done), "picture": str(drawn)}
    answer(as_json, told, ["", *aligned(table_of(done)), *places])


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


def _numbers(text: str | None) -> list[float]:
    try:
        return [float(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--temperatures is {text!r}",
            "accepted: numbers with commas between them",
            "type `--temperatures 1,2,5`",
        ) from None
