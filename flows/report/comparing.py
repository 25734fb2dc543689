"""The difference between a version and another one, in a report."""

from __future__ import annotations

from collections.abc import Iterable

from bpeline.flows.comparisons import compared_metrics, facts, word_lists
from bpeline.flows.report.contents import ReportContents
from bpeline.flows.report.facts import definitions, table
from bpeline.flows.report.token_html import text_html, token_html
from bpeline.flows.wording import number_text
from bpeline.registry.comparison import VersionComparison
from bpeline.tokenizer_core.evaluation import WordChange

_WORDS = 12


def difference(contents: ReportContents) -> str:
    """Facts, words and metrics; a sentence where there is nothing to compare with."""
    compared = contents.comparison
    if compared is None:
        remark = contents.comparison_remark
        return f"<p>{text_html(remark)}</p>" if remark else ""
    said = {
        subject: statement
        for subject, statement in facts(compared)
        if subject not in ("added", "removed")
    }
    tokens = "".join(
        f"<div class=card><h3>{title}</h3><p class=flow>"
        f"{''.join(map(token_html, some[:60]))}</p></div>"
        for title, some in (
            (f"{len(compared.vocab.added):,} tokens came", compared.vocab.added),
            (f"{len(compared.vocab.removed):,} tokens went", compared.vocab.removed),
        )
        if some
    )
    return (
        f"<p>From {text_html(compared.first)} to {text_html(compared.second)}.</p>"
        f"<div class=card>{definitions(said)}</div>"
        f"<div class=columns>{tokens}{''.join(_words(compared))}</div>{_metrics(compared)}"
    )


def _words(compared: VersionComparison) -> Iterable[str]:
    if compared.documents is None:
        return
    for title, changes in word_lists(compared.documents.segmentation):
        if changes:
            head = [("before", False), ("after", False), ("times", True), ("tokens", True)]
            rows = map(_change, changes[:_WORDS])
            heading = text_html(title.capitalize())
            yield f"<div class=card><h3>{heading}</h3>{table(head, rows)}</div>"


def _change(change: WordChange) -> list[str]:
    kind = "more" if change.cost > 0 else "less" if change.cost < 0 else "soft"
    return [
        " ".join(map(token_html, change.first)),
        " ".join(map(token_html, change.second)),
        f"{change.count:,}",
        f"<span class={kind}>{f'{change.cost:+,}' if change.cost else '±0'}</span>",
    ]


def _metrics(compared: VersionComparison) -> str:
    rows = [
        [
            f"<code>{text_html(one.key)}</code>",
            text_html(number_text(one.first)),
            text_html(number_text(one.second)),
            text_html(number_text(one.difference, "+")),
        ]
        for one in compared_metrics(compared.metrics)
    ]
    if not rows:
        return ""
    head = [
        ("metric", False),
        (compared.first, True),
        (compared.second, True),
        ("difference", True),
    ]
    return f"<details><summary>Metrics side by side</summary>{table(head, rows)}</details>"
