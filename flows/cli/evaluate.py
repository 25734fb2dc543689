"""``bpeline evaluate``: measure versions on evaluation sets."""

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
    "bpeline evaluate --sets                       # list evaluation sets",
    "bpeline evaluate news@champion",
    "bpeline evaluate news@champion --model-shape llama-3.1-8b",
    "bpeline evaluate news@champion --sizes --model-shape llama-3.1-8b   # the cheapest size",
    "bpeline evaluate news                         # all versions with an alias",
    "bpeline evaluate news --set-from 'german:language=de=held-out/de/*.txt'",
)
@click.argument("reference", metavar="[REF]", required=False)
@click.option("--sets", is_flag=True, help="List evaluation sets, of one name or of all.")
@click.option(
    "--set-from",
    "sources",
    multiple=True,
    metavar="[NAME=]FILES",
    help="Replace the evaluation set: files, named sources as for `bpeline train --eval`, or a "
    ".toml file with [[evaluation]] tables. Repeatable. Versions with an alias are measured at "
    "once.",
)
@project_option
@model_shape_option
@click.option(
    "--sizes",
    is_flag=True,
    help="With --model-shape: also show which smaller size of the version needs the fewest FLOPs "
    "for each byte of the evaluation set.",
)
@click.option("--reason", default="", show_default=False, help="Reason, recorded with the set.")
@click.option(
    "--text-field",
    help="Field or column that holds the text.  [default: that of the project, else text]",
)
@click.option(
    "--separator",
    metavar="TEXT|none",
    help="Separator of documents in text files; none: one document per file.  "
    "[default: the special tokens of the versions]",
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

    Without REF, measure all versions of the project's name that have an alias.

    All versions of a name are measured on one evaluation set. The first training creates it from
    held-out documents or from `train --eval`, and later trainings leave out its documents. A set
    below 50 documents or 205 kB is provisional: the next training with enough text replaces it.
    """
    from bpeline.flows import evaluation
    from bpeline.tokenizer_core.evaluation import FLOPS_PER_BYTE
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    model = None if model_shape is None else named_shape(model_shape)
    if sets and (sources or sizes or model is not None):
        raise InvalidOption(
            "--sets was given together with --set-from, --sizes or --model-shape",
            "expected --sets alone: it only lists evaluation sets",
            "leave out --sets or the other options",
        )
    if sizes and model is None:
        raise InvalidOption(
            "--sizes was given without --model-shape",
            "expected a model shape: the cost of a vocabulary depends on the model",
            f"type `bpeline evaluate {reference or 'news'} --sizes --model-shape llama-3.1-8b`",
        )
    if sets:
        evaluation_sets = evaluation.list_sets(reference)
        answer(as_json, [_set_json(item) for item in evaluation_sets], _set_lines(evaluation_sets))
        return
    if reference is None or sources or project_is_named():
        project = project_for(reference, needed=reference is None)
        if project is not None:
            reference = reference or project.name
            text_field = text_field or project.parameters.get("text_field")
    assert reference is not None
    if sources:
        newest, measured, skipped = evaluation.set_from(
            reference,
            sources,
            by=this_user(),
            reason=reason,
            text_field=text_field or "text",
            separator=separator,
        )
        first = [
            f"{reference} now has the evaluation set {newest.digest[:8]} (number {newest.number})",
        ]
        if skipped.remark:
            click.echo(f"note: {skipped.remark}", err=True)
        skipped_files = {"skipped": skipped.as_dict()}
    else:
        first, measured, skipped_files = [], evaluation.evaluate_registered(reference), {}
    costs = [{} if model is None else evaluation.serving_costs(item, model) for item in measured]
    cheapest: list[dict[str, Any]] = [
        _cheapest_size(item, reference, model) if sizes and model is not None else {}
        for item in measured
    ]
    lines = [*first]
    cost = "" if model is None else model.metric(FLOPS_PER_BYTE)
    for item, of_slices, of_sizes in zip(measured, costs, cheapest, strict=True):
        lines += measured_lines(item, {name: figures[cost] for name, figures in of_slices.items()})
        lines += _size_lines(item, of_sizes) if of_sizes else []
    if model is not None:
        lines.append(f"model: {model}")
    results = [
        {
            "reference": str(item.version),
            "digest": item.version.digest,
            "set": item.made.digest,
            **({} if model is None else {"model": model.as_dict()}),
            "slices": {
                name: {**part.metrics, **of_slices.get(name, {})}
                for name, part in item.found.slices.items()
            },
            "robustness": evaluation.robustness(item) if as_json else [],
            **({"sizes": of_sizes} if of_sizes else {}),
            **skipped_files,
        }
        for item, of_slices, of_sizes in zip(measured, costs, cheapest, strict=True)
    ]
    answer(as_json, results, lines)


def measured_lines(one: Any, costs: dict[str, float]) -> list[str]:
    """The figures of a version on its evaluation set, as lines of a table."""
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
    from bpeline.flows.evaluation import cheapest_size_of, chosen_size

    cheapest, version = cheapest_size_of(measured, model.shape), measured.version
    least = cheapest.best.vocab_size
    return {
        "sizes": [
            {**asdict(cost), "flops_per_byte": cost.flops_per_byte} for cost in cheapest.shown
        ],
        "least": least,
        "at_edge": cheapest.at_edge or None,
        "chosen": chosen_size(version, model) or None,
        "load": f"{version if reference == version.name else reference}:{least}",
    }


def _size_lines(measured: Any, found: dict[str, Any]) -> list[str]:
    least = min(cost["flops_per_byte"] for cost in found["sizes"])
    columns = ("ids", "bytes/token", "GFLOPs/token", "vocab share", "MFLOPs/byte", "")
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
    advice = f"load it as {found['load']}, without training"
    if found["at_edge"] == "largest":
        advice = f"{measured.version} has no more ids; a larger vocabulary may cost less"
        advice = found["chosen"] or advice
    elif found["at_edge"] == "smallest":
        advice = "smaller sizes were not tried"
    lines = [*Table(columns, rows).lines(), f"least: {found['least']:,} ids; {advice}"]
    return [f"  {line}" for line in lines]


def _set_lines(listed: list[Any]) -> list[str]:
    from bpeline.flows.wording import megabytes

    if not listed:
        return ["no evaluation set yet: the first training of a name creates it"]
    columns = ("name", "set", "text", "documents", "size", "since (UTC)", "reason")
    rows = []
    for entry in listed:
        assignment, when = entry.named, entry.named.at[:16].replace("T", " ")
        set_name = f"{assignment.digest[:8]}{'' if entry.current else ' (before)'}"
        reason = f"{assignment.by}: {assignment.reason}".strip(": ")
        if entry.made is None:
            rows.append((assignment.name, set_name, "not in this workspace", "", "", when, reason))
            continue
        provisional = ", provisional" if entry.made.provisional else ""
        for text in entry.made.texts:
            labels = "".join(f" {label}" for label in (text.language, text.domain) if label)
            rows.append((
                assignment.name, set_name, f"{text.name}{labels}", f"{text.documents:,}",
                f"{megabytes(text.bytes)}{provisional}", when, reason,
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
