"""The figures at the top of a report, and the facts at its end: what it is and where it is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bpeline.flows.report.contents import ReportContents, junk_ids
from bpeline.flows.report.token_html import text_html
from bpeline.flows.wording import number_text, statistics_table
from bpeline.registry.screening import ONE_DOCUMENT

_BYTES_PER_TOKEN = "compression/bytes_per_token"


def tiles(contents: ReportContents, unreachable: int) -> str:
    """The few figures that people ask for first."""
    metrics, screening, use = contents.metrics, contents.screening, contents.use
    shown: list[tuple[str, str, str]] = []
    if _BYTES_PER_TOKEN in metrics:
        shown.append((f"{metrics[_BYTES_PER_TOKEN]:.3f}", "bytes per token, evaluated", ""))
    if "words/fertility" in metrics:
        shown.append((f"{metrics['words/fertility']:.3f}", "tokens per word (fertility)", ""))
    if "vocabulary/utilization" in metrics:
        shown.append((f"{metrics['vocabulary/utilization']:.0%}", "of the vocab occurs there", ""))
    if contents.tokenizer.words is None:
        shown.append((f"{unreachable:,}", "tokens that no text reaches", _mark(unreachable)))
    if use is not None and len(use.gains):
        junk = len(junk_ids(contents.tokenizer, use))
        share = junk / contents.tokenizer.vocab_size
        shown.append((f"{junk:,}", f"mostly steps to longer tokens ({share:.1%})", ""))
    suspicious = len(screening.suspicions)
    shown.append((f"{suspicious:,}", "look like personal data", _mark(suspicious)))
    if ONE_DOCUMENT in screening.metrics:
        shown.append((f"{len(screening.one_document):,}", "come from one document alone", ""))
    cells = (
        f'<div class="tile {kind}"><b>{text_html(value)}</b><span>{text_html(name)}</span></div>'
        for value, name, kind in shown
    )
    return f"<div class=tiles>{''.join(cells)}</div>"


def _mark(found: int) -> str:
    return "warn" if found else "good"


def provenance(contents: ReportContents) -> str:
    """What the version is and where it comes from, with the notes of its run."""
    notes = "".join(f"<li>{text_html(note)}</li>" for note in contents.notes)
    listed = f"<h3>Notes of the run</h3><ul>{notes}</ul>" if notes else ""
    return f"<div class=card>{definitions(contents.facts)}{listed}</div>"


def sources(contents: ReportContents) -> str:
    """What the corpus consisted of, and how much each part counted."""
    if not contents.sources:
        return ""
    titles, *rows = statistics_table(contents.sources)
    texts = {"source", "language", "domain"}
    cells = [[text_html(cell) for cell in row] for row in rows]
    return "<h3>Sources</h3>" + table([(title, title not in texts) for title in titles], cells)


def parameters(contents: ReportContents) -> str:
    """What was asked for."""
    given = {
        key: value
        for key, value in contents.parameters.items()
        if value not in (None, [], {}, "") and key != "name"
    }
    if not given:
        return ""
    return f"<h3>Parameters</h3><div class=card>{definitions(given)}</div>"


def definitions(values: Mapping[str, Any]) -> str:
    """Names and values, one below the other; strings of digits in a type that tells them apart."""
    items = (
        f"<dt>{text_html(name.replace('_', ' '))}</dt><dd>{_value(value)}</dd>"
        for name, value in values.items()
        if value != ""
    )
    return f"<dl>{''.join(items)}</dl>"


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, dict):
        return text_html(", ".join(f"{key} {one}" for key, one in value.items()))
    text = text_html(str(value))
    return f"<span class=mono>{text}</span>" if " " not in text and len(text) > 20 else text


def table(
    head: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]], caption: str = ""
) -> str:
    """A table of HTML cells; the first column names its row.

    Args:
        head: titles, and whether the column holds numbers.
        rows: HTML of the cells.
    """
    columns = list(head)
    titles = "".join(
        f"<th scope=col{' class=n' if numeric else ''}>{text_html(title)}</th>"
        for title, numeric in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<th scope=row>{cell}</th>"
            if not place
            else f"<td{' class=n' if columns[place][1] else ''}>{cell}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    said = f"<caption>{text_html(caption)}</caption>" if caption else ""
    return (
        f"<div class=scroll><table>{said}<thead><tr>{titles}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
