"""A comparison of two versions as JSON values, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bpeline.registry.comparison import VersionComparison
from bpeline.tokenizer_core.formats import printable_tokens


def comparison_json(compared: VersionComparison) -> dict[str, Any]:
    """All of it; tokens are spelt as in vocab.json, one printable character for each byte."""
    values: dict[str, Any] = _spelt(asdict(compared))
    for shown, part in zip(values["slices"], compared.slices, strict=True):
        intervals = part.change.intervals.items()
        shown["change"]["intervals"] = {str(key): list(ends) for key, ends in intervals}
        for pair, one in zip(shown["metrics"], part.metrics, strict=True):
            pair["difference"] = one.difference
    for pair, metric in zip(values["metrics"], compared.metrics, strict=True):
        pair["difference"] = metric.difference
    if compared.documents is not None:
        segmentation = compared.documents.segmentation
        for kind in ("worse", "better", "same_cost"):
            for spelt, change in zip(
                values["documents"]["segmentation"][kind], getattr(segmentation, kind), strict=True
            ):
                spelt["cost"] = change.cost
    return values


def _spelt(value: Any) -> Any:
    if isinstance(value, bytes):
        return printable_tokens([value])[0]
    if isinstance(value, dict):
        return {key: _spelt(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelt(one) for one in value]
    return value
