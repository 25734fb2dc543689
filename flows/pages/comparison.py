"""The comparison of two versions, as a page or as a section of one."""

from __future__ import annotations

import base64
from typing import Any

from bpeline.flows.pages.rendering import render
from bpeline.flows.wording import SLICE_TITLES, compared_metrics, facts, slice_rows, word_lists
from bpeline.registry.evaluation import VersionComparison


def comparison_page(compared: VersionComparison) -> str:
    """Render the page of a comparison."""
    vocab = {"came": compared.vocab.added, "went": compared.vocab.removed}
    spelt = {  # kinds without tokens have no search box
        kind: [base64.b64encode(token).decode() for token in tokens]
        for kind, tokens in vocab.items()
        if tokens
    }
    values = {
        "difference": difference(compared),
        "passages": compared.passages,
        "vocab": spelt,
        "newline": b"\n",
    }
    return render("comparison.html", values)


def difference(compared: VersionComparison, words: int | None = None) -> dict[str, Any]:
    """Return the values for ``templates/difference.html``."""
    lists = word_lists(compared.documents.segmentation) if compared.documents else []
    return {
        "first": compared.first,
        "second": compared.second,
        "documents": compared.documents,
        # Added and removed tokens have their own lists.
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
