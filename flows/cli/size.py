"""``bpeline size``."""

from __future__ import annotations

from dataclasses import asdict

import click

from bpeline.flows.cli.options import answer, command, model_shape_option
from bpeline.tokenizer_core.errors import InvalidOption


@command(
    "bpeline size news@champion --model-shape llama-3.1-8b",
    "bpeline size news/3 --model-shape config.json --json",
)
@click.argument("reference", metavar="REF")
@model_shape_option
def size(reference: str, model_shape: str | None, as_json: bool) -> None:
    """At which size the vocabulary of a version costs a model least, from one training.

    The first merges of a version are a smaller tokenizer. A larger vocabulary takes fewer tokens
    for the same text, and more FLOPs for each: the cost is FLOPs for a byte of the evaluation set
    of the name. Train a large version once, and take the size that this finds: REF:SIZE.
    """
    from bpeline.flows.evaluation import cheapest_size_of, chosen_size
    from bpeline.flows.wording import aligned
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    if model_shape is None:
        raise InvalidOption(
            "no model was named",
            "what a vocabulary costs depends on the model it is for",
            f"type `bpeline size {reference} --model-shape llama-3.1-8b`",
        )
    named = named_shape(model_shape)
    measured, found = cheapest_size_of(reference, named.shape)
    best = found.best
    rows = [("ids", "bytes/token", "GFLOPs/token", "of it vocab", "MFLOPs/byte", "")]
    rows += [
        (
            f"{cost.vocab_size:,}",
            f"{cost.bytes_per_token:.4f}",
            f"{cost.flops_per_token / 1e9:,.3f}",
            f"{cost.vocab_share:.1%}",
            f"{cost.flops_per_byte / 1e6:,.1f}",
            "least" if cost == best else f"{cost.flops_per_byte / best.flops_per_byte - 1:+.2%}",
        )
        for cost in found.shown
    ]
    loaded = f"{reference}:{best.vocab_size}"
    chosen = chosen_size(measured.version, named)
    if found.at_edge == "largest" and chosen:
        said = chosen
    elif found.at_edge == "largest":
        said = f"{measured.version} has no more ids: a larger vocabulary may cost less"
    elif found.at_edge == "smallest":
        said = "no smaller size was asked about"
    else:
        said = f"load it as {loaded}, which needs no training"
    lines = [
        f"{measured.version} on {measured.made}",
        f"model: {named}",
        *aligned(rows),
        f"least: {best.vocab_size:,} ids; {said}",
    ]
    told = {
        "reference": str(measured.version),
        "set": measured.made.digest,
        "model": named.as_dict(),
        "sizes": [{**asdict(cost), "flops_per_byte": cost.flops_per_byte} for cost in found.shown],
        "least": best.vocab_size,
        "at_edge": found.at_edge or None,
        "chosen": chosen or None,
        "load": loaded,
    }
    answer(as_json, told, lines)
