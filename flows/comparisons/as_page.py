"""A comparison of two versions as one page of HTML that needs nothing else. Computes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from bpeline.flows.comparisons.as_text import (
    SLICE_TITLES,
    compared_metrics,
    facts,
    slice_rows,
    word_lists,
)
from bpeline.flows.wording import number_text, token_text
from bpeline.registry.comparison import VersionComparison
from bpeline.tokenizer_core.evaluation import WordChange

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --more: #b3402a; --less: #1f7a4d; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
         vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.token { font: 13px ui-monospace, monospace; border: 1px solid var(--line); border-radius: 3px;
         padding: 0 .25rem; margin-right: .2rem; white-space: pre-wrap; display: inline-block }
.facts td { white-space: pre-wrap }
.more { color: var(--more) } .less { color: var(--less) }
"""


def comparison_page(compared: VersionComparison) -> str:
    """The page; words and tokens are text of somebody's corpus, so all of it is escaped."""
    title = f"{escape(compared.first)} → {escape(compared.second)}"
    parts = [f"<h1>{title}</h1>", _facts(compared), _slices(compared), _metrics(compared)]
    if compared.documents is not None:
        parts += [
            f"<h2>{escape(heading.capitalize())}</h2>{_changes(changes)}"
            for heading, changes in word_lists(compared.documents.segmentation)
            if changes
        ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _facts(compared: VersionComparison) -> str:
    rows = (
        f"<tr><th>{escape(subject)}</th><td>{escape(statement)}</td></tr>"
        for subject, statement in facts(compared)
    )
    return _table(rows, "facts")


def _slices(compared: VersionComparison) -> str:
    if len(compared.slices) < 2:
        return ""
    head = "".join(
        f"<th{' class=number' if place else ''}>{title}</th>"
        for place, title in enumerate(SLICE_TITLES)
    )
    rows = (
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td class=number>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in slice_rows(compared)
    )
    return "<h2>Slices</h2>" + _table([f"<tr>{head}</tr>", *rows])


def _metrics(compared: VersionComparison) -> str:
    pairs = compared_metrics(compared.metrics)
    if not pairs:
        return ""
    titles = ("metric", compared.first, compared.second, "difference")
    head = "".join(
        f"<th{' class=number' if place else ''}>{escape(title)}</th>"
        for place, title in enumerate(titles)
    )
    rows = (
        f"<tr><td>{escape(one.key)}</td>"
        + "".join(
            f"<td class=number>{text}</td>"
            for text in (
                number_text(one.first),
                number_text(one.second),
                number_text(one.difference, "+"),
            )
        )
        + "</tr>"
        for one in pairs
    )
    return "<h2>Metrics</h2>" + _table([f"<tr>{head}</tr>", *rows])


def _changes(changes: Iterable[WordChange]) -> str:
    head = (
        "<tr><th class=number>tokens</th><th class=number>occurrences</th>"
        "<th>before</th><th>after</th></tr>"
    )
    return _table([head, *map(_change, changes)])


def _change(change: WordChange) -> str:
    kind = "more" if change.cost > 0 else "less" if change.cost < 0 else "same"
    return (
        f'<tr><td class="number {kind}">{change.cost:+,}</td>'
        f"<td class=number>{change.count:,}</td>"
        f"<td>{_tokens(change.first)}</td><td>{_tokens(change.second)}</td></tr>"
    )


def _tokens(tokens: Iterable[bytes]) -> str:
    return "".join(f"<span class=token>{escape(token_text(token))}</span>" for token in tokens)


def _table(rows: Iterable[str], kind: str = "list") -> str:
    return f"<table class={kind}>" + "\n".join(rows) + "</table>"
