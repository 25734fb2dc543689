"""The comparison of two versions: what a page, or a section of one, needs to know of it."""

from __future__ import annotations

import base64
from typing import Any

from bpeline.flows.pages.rendering import render
from bpeline.flows.wording import SLICE_TITLES, compared_metrics, facts, slice_rows, word_lists
from bpeline.registry.evaluation import VersionComparison


def comparison_page(compared: VersionComparison) -> str:
    """The whole page."""
    vocab = {"came": compared.vocab.added, "went": compared.vocab.removed}
    spelt = {  # a kind of which there is none has no search either
        kind: [base64.b64encode(one).decode() for one in some]
        for kind, some in vocab.items()
        if some
    }
    values = {
        "difference": difference(compared),
        "passages": compared.passages,
        "vocab": spelt,
        "newline": b"\n",
    }
    return render("comparison.html", values)


def difference(compared: VersionComparison, words: int | None = None) -> dict[str, Any]:
    """What ``templates/difference.html`` shows.

    Args:
        words: how many of each kind, by default all that were kept.
    """
    lists = word_lists(compared.documents.segmentation) if compared.documents else []
    return {
        "first": compared.first,
        "second": compared.second,
        "documents": compared.documents,
        # Tokens that came and went stand in lists of their own.
        "facts": {
            subject: statement
            for subject, statement in facts(compared)
            if subject not in ("added", "removed")
        },
        "vocab": compared.vocab,
        "words": [(title, changes[:words]) for title, changes in lists if changes],
        "slice_titles": SLICE_TITLES,
        "slices": slice_rows(compared) if len(compared.slices) > 1 else [],
        "metrics": compared_metrics(compared.metrics),
    }
