"""How a new version differs from the earlier ones of its name, for people; measures nothing.

A version meets the champion alone when it is trained. What earlier ones made of the same evaluation
set is kept document by document, so the rest is told, with its interval, without encoding.
"""

from __future__ import annotations

from collections.abc import Mapping

from bpeline.flows.wording import SHOWN_CONFIDENCE
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    SetMeasurement,
    kept_measurement,
    parts_of,
)
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.evaluation import TOO_FEW_DOCUMENTS, Slice, distinct_parts

MOST = 6  # columns; of more versions, the latest

Rows = tuple[tuple[str, ...], ...]


def against_others(registry: Registry, name: str, digest: str, made: EvaluationSet | None) -> Rows:
    """A row of titles, and one for each slice; empty where nothing can be compared.

    Args:
        name, digest: of the new version.
        made: what it was measured on.
    """
    own = None if made is None else kept_measurement(registry.workspace, made, digest)
    if made is None or own is None:
        return ()
    latest = {one.digest: one.number for one in registry.catalogue.registrations(name)}
    others: list[tuple[str, SetMeasurement]] = []
    for other, number in sorted(latest.items(), key=lambda one: -one[1]):
        found = None if other == digest else kept_measurement(registry.workspace, made, other)
        if found is not None and len(others) < MOST:
            others.append((f"{name}/{number}", found))
    if not others:
        return ()
    titles = ("slice", *(reference for reference, _ in others))
    rows = [
        (part.name, *(_change(own, other, part) for _, other in others))
        for part in distinct_parts(parts_of(made))
    ]
    return (titles, *rows)


def _change(own: SetMeasurement, other: SetMeasurement, part: Slice) -> str:
    change = own.change_from(other, part)
    low, high = change.intervals.get(SHOWN_CONFIDENCE, (None, None))
    return change_text(change.value, low, high)


def change_text(value: float, low: float | None, high: float | None) -> str:
    """A change in tokens, as a share, with its interval, or that there is none."""
    if low is None or high is None:
        return f"{100 * value:+.2f} % ({TOO_FEW_DOCUMENTS})"
    chance = ", may be chance" if low <= 0 <= high else ""
    return f"{100 * value:+.2f} % ({100 * low:+.2f} … {100 * high:+.2f}{chance})"


def logged_change(metrics: Mapping[str, float], label: str, part: str) -> str:
    """The change in tokens of a slice that metrics hold, see `metrics_of`; else empty."""
    name = f"vs_{label}_percent/{part}"
    if name not in metrics:
        return ""
    low, high = (metrics.get(f"{name}_{end}") for end in ("low", "high"))
    ends = (None if end is None else end / 100 for end in (low, high))
    return change_text(metrics[name] / 100, *ends)
