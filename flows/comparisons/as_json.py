"""A comparison of two versions as JSON values, for programs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from bpeline.registry.evaluation import MetricPair, VersionComparison
from bpeline.tokenizer_core.corpus import SkippedFiles
from bpeline.tokenizer_core.evaluation import Passage, WordChange
from bpeline.tokenizer_core.formats import printable_tokens


def comparison_json(compared: VersionComparison) -> dict[str, Any]:
    """All of it; tokens are spelt as in vocab.json, one printable character for each byte."""
    values: dict[str, Any] = _spelt(compared)
    return values


def _spelt(value: Any) -> Any:
    if isinstance(value, bytes):
        return printable_tokens([value])[0]
    if isinstance(value, SkippedFiles):
        return value.as_dict()
    if is_dataclass(value):
        shown = {one.name: _spelt(getattr(value, one.name)) for one in fields(value)}
        if isinstance(value, MetricPair):
            shown["difference"] = value.difference
        elif isinstance(value, (Passage, WordChange)):
            shown["cost"] = value.cost
        return shown
    if isinstance(value, dict):
        return {str(key): _spelt(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelt(one) for one in value]
    return value
