"""The few figures that README shows of all results: ours beside those people ask about first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import encoding_results
from benchmarks.results import OURS
from benchmarks.tables import as_markdown

Results = Sequence[Mapping[str, Any]]


def training_headlines(results: Results) -> str:
    """A row for each file: our seconds, the fastest that learns the same, HuggingFace."""
    rows = []
    for result in results:
        ours, others = _of(result)
        same = {
            name: one for name, one in others.items() if one["ratio"] is not None and one["equal"]
        }
        nearest = min(same, key=lambda name: float(same[name]["ratio"]))
        size = f"{result['bytes'] / 1e6:.3g} MB"
        rows.append((
            f"`{result['file']}`, {size}",
            f"{ours['seconds']:.2f} s",
            f"{same[nearest]['ratio']:.1f}× ({nearest})",
            _ratio(others, "HuggingFace", 1),
            f"{ours['peak_megabytes']:,.0f} MB",
        ))  # fmt: skip
    columns = ("file to merges", "bpeline", "fastest with the same merges", "HuggingFace", "memory")
    return as_markdown(columns, rows)


def encoding_headlines(results: Results) -> str:
    """A row for each file and number of threads: our speed, and how many times theirs it is."""
    peers = ("gigatoken", "tiktoken", "HuggingFace")
    rows = []
    for result in results:
        ours, others = _of(result)
        threads = f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"
        speed = f"{encoding_results.speed_of(ours, result):,.0f} MB/s"
        ratios = [_ratio(others, peer, 2 if peer == "gigatoken" else 1) for peer in peers]
        rows.append((f"`{result['file']}`, {threads}", speed, *ratios))
    return as_markdown(("file to ids", "bpeline", *peers), rows)


def _of(result: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    measured = {n: one for n, one in result["trainers"].items() if "failure" not in one}
    return measured[OURS], {name: one for name, one in measured.items() if name != OURS}


def _ratio(others: Mapping[str, Any], name: str, digits: int) -> str:
    ratio = others.get(name, {}).get("ratio")
    return "–" if ratio is None else f"{ratio:.{digits}f}×"
