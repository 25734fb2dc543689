"""``bpeline evaluate``: evaluation sets, and what versions make of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import (
    answer,
    command,
    model_shape_option,
    project_for,
    project_is_named,
    project_option,
)
from bpeline.registry.environment import this_user
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tables import Table

if TYPE_CHECKING:
    from bpeline.tokenizer_core.evaluation import NamedShape


@command(
    "bpeline evaluate --sets                       # which texts versions are measured on",
    "bpeline evaluate news@champion",
    "bpeline evaluate news@champion --model-shape llama-3.1-8b",
    "bpeline evaluate news@champion --sizes --model-shape llama-3.1-8b   # the cheapest size",
    "bpeline evaluate news                         # every version that an alias points to",
    "bpeline evaluate news --set-from 'german:language=de=held-out/de/*.txt'",
    "bpeline evaluate --set-from bpeline.toml      # what its tables [[evaluation]] say",
)
@click.argument("reference", metavar="[REF]", required=False)
@click.option("--sets", is_flag=True, help="List the evaluation sets (of a name).")
@click.option(
    "--set-from",
    "sources",
    multiple=True,
    metavar="[NAME=]FILES",
    help="Give the name another evaluation set: files, or named sources as of `bpeline train "
    "--eval`, or a .toml file with tables [[evaluation]], such as bpeline.toml; may be "
    "repeated. Versions with an alias are measured on it at once.",
)
@project_option
@model_shape_option
@click.option(
    "--sizes",
    is_flag=True,
    help="Also say which of its sizes costs the model of --model-shape least. The first merges of "
    "a version are a smaller tokenizer; the cost is FLOPs for a byte of the evaluation set.",
)
@click.option("--reason", default="", show_default=False, help="Why, for the record.")
@click.option(
    "--text-field",
    help="Field of .jsonl lines.  [default: that of the project, else text]",
)
@click.option(
    "--separator",
    metavar="TEXT|none",
    help="What stands between the documents of a text file; none: each is one document.  "
    "[default: the versions' special tokens]",
)
def evaluate(
    reference: str | None,
    sets: bool,
    sources: tuple[str, ...],
    model_shape: str | None,
    sizes: bool,
    reason: str,
    text_field: str | None,
    separator: str | None,
    as_json: bool,
) -> None:
    """Measure a version on the evaluation set of its name.

    Without REF every version that an alias points to, of the name in the project's bpeline.toml.

    A name has one set of texts, on which all of its versions are measured: its first training makes
    it of what was held out, or of `train --eval`. Its documents are left out of every later
    training. One below 50 documents or 205 kB is provisional: the next training with enough text
    replaces it.
    """
    from bpeline.flows import evaluation
    from bpeline.tokenizer_core.evaluation import FLOPS_PER_BYTE
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    model = None if model_shape is None else named_shape(model_shape)
    if sets and (sources or sizes or model is not None):
        raise InvalidOption(
            "--sets was given beside --set-from, --sizes or --model-shape",
            "--sets lists evaluation sets: it changes none, and measures no version",
            "leave --sets out, or the others",
        )
    if sizes and model is None:
        raise InvalidOption(
            "--sizes names no model",
            "what a vocabulary costs depends on the model it is for",
            f"type `bpeline evaluate {reference or 'news'} --sizes --model-shape llama-3.1-8b`",
        )
    if sets:
        listed = evaluation.list_sets(reference)
        answer(as_json, [_set_json(one) for one in listed], _set_lines(listed))
        return
    if reference is None or sources or project_is_named():
        project = project_for(reference, needed=reference is None)
        if project is not None:
            reference = reference or project.name
            text_field = text_field or project.parameters.get("text_field")
    assert reference is not None
    if sources:
        named, measured, skipped = evaluation.set_from(
            reference,
            sources,
            by=this_user(),
            reason=reason,
            text_field=text_field or "text",
            separator=separator,
        )
        first = [
            f"{reference} has the evaluation set {named.digest[:8]} now (number {named.number})",
        ]
        if skipped.remark:
            click.echo(f"note: {skipped.remark}", err=True)
        skipped_files = {"skipped": skipped.as_dict()}
    else:
        first, measured, skipped_files = [], evaluation.evaluate_registered(reference), {}
    costs = [{} if model is None else evaluation.serving_costs(one, model) for one in measured]
    cheapest: list[dict[str, Any]] = [
        _cheapest_size(one, reference, model) if sizes and model is not None else {}
        for one in measured
    ]
    lines = [*first]
    cost = "" if model is None else model.metric(FLOPS_PER_BYTE)
    for one, of_slices, of_sizes in zip(measured, costs, cheapest, strict=True):
        lines += measured_lines(one, {name: figures[cost] for name, figures in of_slices.items()})
        lines += _size_lines(one, of_sizes) if of_sizes else []
    if model is not None:
        lines.append(f"model: {model}")
    told = [
        {
            "reference": str(one.version),
            "digest": one.version.digest,
            "set": one.made.digest,
            **({} if model is None else {"model": model.as_dict()}),
            "slices": {
                name: {**part.metrics, **of_slices.get(name, {})}
                for name, part in one.found.slices.items()
            },
            "robustness": evaluation.robustness(one) if as_json else [],
            **({"sizes": of_sizes} if of_sizes else {}),
            **skipped_files,
        }
        for one, of_slices, of_sizes in zip(measured, costs, cheapest, strict=True)
    ]
    answer(as_json, told, lines)


def measured_lines(one: Any, costs: dict[str, float]) -> list[str]:
    """What a version measured on its set, slice by slice, for people."""
    from bpeline.flows.wording import megabytes
    from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN

    columns = ("", "text", "bytes/token", "tokens/word", *["MFLOPs/byte"] * bool(costs))
    rows = []
    for name, part in one.found.slices.items():
        metrics = part.metrics
        rows.append((
            name,
            megabytes(int(metrics["evaluated/bytes"])),
            f"{metrics[BYTES_PER_TOKEN]:.4f}",
            f"{metrics['words/fertility']:.4f}",
            *([f"{costs[name] / 1e6:,.1f}"] if costs else []),
        ))  # fmt: skip
    return [f"{one.version} on {one.made}", *(f"  {line}" for line in Table(columns, rows).lines())]


def _cheapest_size(measured: Any, reference: str, model: NamedShape) -> dict[str, Any]:
    """What the sizes of a version cost a model, and which costs least."""
    from bpeline.flows.evaluation import cheapest_size_of, chosen_size

    found, version = cheapest_size_of(measured, model.shape), measured.version
    least = found.best.vocab_size
    return {
        "sizes": [{**asdict(cost), "flops_per_byte": cost.flops_per_byte} for cost in found.shown],
        "least": least,
        "at_edge": found.at_edge or None,
        "chosen": chosen_size(version, model) or None,
        "load": f"{version if reference == version.name else reference}:{least}",
    }


def _size_lines(measured: Any, found: dict[str, Any]) -> list[str]:
    least = min(cost["flops_per_byte"] for cost in found["sizes"])
    columns = ("ids", "bytes/token", "GFLOPs/token", "of it vocab", "MFLOPs/byte", "")
    rows = [
        (
            f"{cost['vocab_size']:,}",
            f"{cost['bytes_per_token']:.4f}",
            f"{cost['flops_per_token'] / 1e9:,.3f}",
            f"{cost['vocab_share']:.1%}",
            f"{cost['flops_per_byte'] / 1e6:,.1f}",
            "least"
            if cost["vocab_size"] == found["least"]
            else f"{cost['flops_per_byte'] / least - 1:+.2%}",
        )
        for cost in found["sizes"]
    ]
    said = f"load it as {found['load']}, which needs no training"
    if found["at_edge"] == "largest":
        said = f"{measured.version} has no more ids: a larger vocabulary may cost less"
        said = found["chosen"] or said
    elif found["at_edge"] == "smallest":
        said = "no smaller size was asked about"
    lines = [*Table(columns, rows).lines(), f"least: {found['least']:,} ids; {said}"]
    return [f"  {line}" for line in lines]


def _set_lines(listed: list[Any]) -> list[str]:
    from bpeline.flows.wording import megabytes

    if not listed:
        return ["no name has an evaluation set yet: the first training of a name makes it"]
    columns = ("name", "set", "text", "documents", "size", "since (UTC)", "why")
    rows = []
    for one in listed:
        named, when = one.named, one.named.at[:16].replace("T", " ")
        which = f"{named.digest[:8]}{'' if one.current else ' (before)'}"
        why = f"{named.by}: {named.reason}".strip(": ")
        if one.made is None:
            rows.append((named.name, which, "not in this workspace", "", "", when, why))
            continue
        provisional = ", provisional" if one.made.provisional else ""
        for text in one.made.texts:
            labels = "".join(f" {label}" for label in (text.language, text.domain) if label)
            rows.append((
                named.name, which, f"{text.name}{labels}", f"{text.documents:,}",
                f"{megabytes(text.bytes)}{provisional}", when, why,
            ))  # fmt: skip
    return Table(columns, rows).lines()


def _set_json(one: Any) -> dict[str, Any]:
    texts = [] if one.made is None else [asdict(text) for text in one.made.texts]
    return {
        **one.named.as_values(),
        "current": one.current,
        "here": one.made is not None,
        "provisional": None if one.made is None else one.made.provisional,
        "parallel": None if one.made is None else one.made.parallel,
        "texts": texts,
    }
