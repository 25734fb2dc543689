"""The value by which an encoded dataset is remembered: whose tokens, of what text, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.registry.records.publication import CorpusInput


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """Token shards that a registered version made of a dataset.

    Attributes:
        name: of the tokenizer, which is the experiment's too.
        version: ``news/3``.
        digest: of the tokenizer.
        manifest: the file that vouches for the shards.
        manifest_digest: SHA-256 of it.
        output: the directory of the shards.
        step: of its metrics: the tokenizer's vocab size.
        params: what was asked for.
        metrics: measured values, names grouped by ``/``.
        source: what was read.
        note: Markdown for people.
    """

    name: str
    version: str
    digest: str
    manifest: Path
    manifest_digest: str
    output: str
    step: int
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    source: CorpusInput
    note: str
