"""``bpeline sweep``: many sizes and patterns side by side, to choose from."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from bpeline.flows.cli.options import answer, command
from bpeline.flows.requests import BYTE_BPE, CHOICES
from bpeline.tokenizer_core.errors import InvalidOption


@command(
    "bpeline sweep corpus/ --name news --sizes 8000,16000,32000,64000",
    "bpeline sweep corpus/ --name news --sizes 16000,32000 --pattern gpt2 --pattern cl100k --json",
    "bpeline sweep corpus/ --name words --sizes 8000,16000 --algorithm wordpiece",
    "bpeline sweep corpus/ --name news --sizes 32000 --eval 'german:language=de=heldout/de/*.txt'",
)
@click.argument("paths", nargs=-1, required=True)
@click.option("--name", required=True, help="The tokenizer's name: the experiment in MLflow.")
@click.option("--sizes", required=True, metavar="N,N,…", help="Vocabulary sizes.")
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    help="Split pattern: a name or a regex; repeat for more.  [default: that of the algorithm, "
    "gpt2 for byte-bpe]",
)
@click.option(
    "--algorithm",
    type=click.Choice(sorted(CHOICES)),
    default=BYTE_BPE,
    help="As of `bpeline train`, with its usual options.",
)
@click.option("--special-token", "special_tokens", multiple=True, help="As of `bpeline train`.")
@click.option("--eval", "evaluation", multiple=True, metavar="NAME=FILES", help="Likewise.")
@click.option("--baseline", "baselines", multiple=True, metavar="[NAME=]REF", help="Likewise.")
@click.option("--held-out", type=float, default=0.01, help="Likewise.")
@click.option("--min-count", type=int, help="Likewise.  [default: 2]")
@click.option("--deduplicate", is_flag=True, help="Likewise.")
@click.option("--text-field", default="text", help="Likewise.")
@click.option("--workers", type=int, help="Threads for counting.  [default: all cores]")
def sweep(
    paths: tuple[str, ...], name: str, sizes: str, patterns: tuple[str, ...], as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Measure several sizes and patterns on PATHS; register nothing.

    Counting is done once for each pattern, and one training serves all its sizes (of another
    algorithm than byte-bpe, each size is learned). In MLflow the
    sweep is a run with a nested run for each combination. The one you choose is trained by
    `bpeline train` without learning anything again.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.sweep import sweep as sweep_all
    from bpeline.flows.sweep_record import table_of
    from bpeline.flows.wording import aligned
    from bpeline.registry.environment import addresses

    parameters = {key: list(v) if isinstance(v, tuple) else v for key, v in given.items()}
    home = addresses().workspace
    with progress.listening(progress.for_stream(sys.stderr)):
        done = sweep_all(list(paths), name, _numbers(sizes), patterns, home, **parameters)
    algorithm = "" if given["algorithm"] == BYTE_BPE else f" --algorithm {given['algorithm']}"
    once = " --deduplicate" if given["deduplicate"] else ""
    chosen = f"--name {name} --vocab-size N --pattern P{algorithm}{once}"
    lines = ["", *aligned(table_of(done)), f"\n{done.measured_on}", f"MLflow     {done.link}"]
    lines.append(f"register:  bpeline train {' '.join(paths)} {chosen}")
    answer(as_json, asdict(done), lines)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidOption(
            f"--sizes is {text!r}",
            "accepted: whole numbers with commas between them",
            "type `--sizes 8000,16000,32000`",
        ) from None
