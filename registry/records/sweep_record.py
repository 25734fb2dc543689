"""The values by which a sweep is remembered: one combination of size and pattern, and all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.registry.records.publication import CorpusInput


@dataclass(frozen=True, slots=True)
class SweepChild:
    """One combination, measured and not registered.

    Attributes:
        title: ``gpt2-16000``.
        vocab_size: the step of its metrics.
        params, metrics, curves: as in `Publication`; ``curves`` has the compression curve too.
        evaluation: the content of ``evaluation.json``.
        evaluation_set: digest of what was measured on; empty for texts of its own.
        set_number: of that set among those of the name; 0 where the name does not have it.
    """

    title: str
    vocab_size: int
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    curves: Mapping[str, tuple[tuple[int, float], ...]]
    evaluation: Mapping[str, Any]
    evaluation_set: str = ""
    set_number: int = 0


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """All combinations: a run with a nested run for each.

    Attributes:
        name: of the tokenizer, which is the experiment's too.
        title: of the parent run.
        params: what was asked for.
        curves: name → (vocab size, value), drawn by the parent.
        children: in the order of the table.
        inputs: what was read.
        figures: picture files.
        table: Markdown.
    """

    name: str
    title: str
    params: Mapping[str, Any]
    curves: Mapping[str, tuple[tuple[int, float], ...]]
    children: tuple[SweepChild, ...]
    inputs: tuple[CorpusInput, ...]
    figures: tuple[Path, ...]
    table: str
