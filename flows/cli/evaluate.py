"""``bpeline evaluate``: evaluation sets, and what versions make of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from bpeline.flows.cli.options import (
    answer,
    command,
    model_shape_option,
    project_for,
    project_is_named,
    project_option,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tables import Table


@command(
    "bpeline evaluate --sets                       # which texts versions are measured on",
    "bpeline evaluate news@champion",
    "bpeline evaluate news@champion --model-shape llama-3.1-8b",
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
    reason: str,
    text_field: str | None,
    separator: str | None,
    as_json: bool,
) -> None:
    """Measure a version on the evaluation set of its name.

    Without REF every version that an alias points to, of the name in the project's bpeline.toml.

    A name has one set of texts, on which all of its versions are measured: its first training makes
    it of what was held out, or of `--eval`. Its documents are left out of every later training. One
    below 50 documents or 205 kB is provisional: the next training with enough text replaces it.
    """
    from bpeline.flows import evaluation
    from bpeline.registry.environment import this_user
    from bpeline.tokenizer_core.evaluation import FLOPS_PER_BYTE
    from bpeline.tokenizer_core.evaluation import model_shape as named_shape

    model = None if model_shape is None else named_shape(model_shape)
    if sets and (sources or model is not None):
        raise InvalidOption(
            "--sets was given beside --set-from or --model-shape",
            "--sets lists evaluation sets: it changes none, and measures no version",
            "leave --sets out, or the others",
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
        first, measured, skipped_files = [], evaluation.evaluate(reference), {}
    costs = [{} if model is None else evaluation.serving_costs(one, model) for one in measured]
    lines = [*first]
    cost = "" if model is None else model.metric(FLOPS_PER_BYTE)
    for one, of_slices in zip(measured, costs, strict=True):
        lines += measured_lines(one, {name: figures[cost] for name, figures in of_slices.items()})
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
            **skipped_files,
        }
        for one, of_slices in zip(measured, costs, strict=True)
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
        **asdict(one.named),
        "current": one.current,
        "here": one.made is not None,
        "provisional": None if one.made is None else one.made.provisional,
        "parallel": None if one.made is None else one.made.parallel,
        "texts": texts,
    }
