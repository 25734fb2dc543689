"""The value by which one observation of drift is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DriftObservation:
    """One look at new text.

    Attributes:
        name: of the tokenizer, which is the experiment's too.
        said: which version, and what the rules said, in a few words.
        time_ms: when, in milliseconds since 1970.
        metrics: ``drift/…`` → value: one point of each series; ``drift/drifted`` is 1, or 0, or −1
            where it could not be judged.
        record: everything, as JSON values.
        page: Markdown.
    """

    name: str
    said: str
    time_ms: int
    metrics: Mapping[str, float]
    record: Mapping[str, Any]
    page: str


@dataclass(frozen=True, slots=True)
class PastObservation:
    """An observation as MLflow remembers it.

    Attributes:
        number: from 1.
        time_ms: when, in milliseconds since 1970.
        metrics: those that were asked for and that it has, see `DriftObservation`.
    """

    number: int
    time_ms: int
    metrics: Mapping[str, float]
