"""``bpeline steps``: what training does on a small text, merge by merge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import PATH, answer, command
from bpeline.flows.requests import BYTE_BPE, CHOICES, SCORES

if TYPE_CHECKING:
    from collections.abc import Sequence

_MERGES = 10  # shown when nothing is said


@command(
    "bpeline steps lines.txt --algorithm char-bpe --end-of-word _ --merges 10",
    "bpeline steps lines.txt --algorithm wordpiece --score gain --json",
    workspace=False,
)
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--algorithm", type=click.Choice(list(CHOICES)), default=BYTE_BPE)
@click.option("--merges", type=int, default=_MERGES, help="How many at most.")
@click.option("--pattern", help="The split pattern.  [default: that of the algorithm]")
@click.option("--tie-break", help="Which of equally frequent pairs goes first.")
@click.option("--min-count", type=int, help="Rarer pairs are not merged.")
@click.option("--end-of-word", default="</w>", help="With char-bpe.")
@click.option("--joined", is_flag=True, help="With char-bpe: the mark joins the last character.")
@click.option("--score", type=click.Choice(list(SCORES)), default="ratio", help="With wordpiece.")
def steps(
    files: tuple[Path, ...],
    algorithm: str,
    merges: int,
    pattern: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show each iteration of training on small FILES.

    After each merge: its pair and count, the words as they are split then, the tokens, and the
    pairs by what the next merge is chosen by.

    Nothing is stored. Large files are refused: nobody reads so many lines.
    """
    show_steps(files, algorithm, merges, pattern, as_json, **options)


def show_steps(
    files: Sequence[Path | str],
    algorithm: str,
    merges: int | None,
    pattern: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print what training on small files does; see `steps_of` for the options and errors."""
    from bpeline.tokenizer_core import count_words
    from bpeline.tokenizer_core.algorithms import lines_of, steps_of
    from bpeline.tokenizer_core.companions import kind_of

    counts = count_words(
        [str(file) for file in files], pattern or kind_of(algorithm).default_pattern
    )
    shown = list(steps_of(algorithm, counts, _MERGES if merges is None else merges, **options))
    told = [
        {
            "merge": step.merge and [step.merge.left, step.merge.right],
            "makes": step.merge and step.merge.made,
            "count": step.count,
            "tokens": step.tokens,
            "number_of_tokens": len(step.tokens),
            "words": [{"tokens": list(one), "count": count} for one, count in step.words],
            "pairs": [
                {"pair": list(pair), "count": step.pairs[pair], "score": step.scores[pair]}
                for pair in step.best_pairs
            ],
        }
        for step in shown
    ]
    answer(as_json, told, (line for step in shown for line in lines_of(step)))
