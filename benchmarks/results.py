"""What one comparison found, as JSON: medians, paired ratios, verdicts, phases."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.contestants import CONTESTANTS, Merge
from benchmarks.equality import verdict
from benchmarks.runs import Run

RESULTS = Path(__file__).parent / "results"
OURS = "bpeline"


def summary(
    path: Path,
    vocab_size: int,
    threads: int,
    runs: Mapping[str, Sequence[Run]],
    by_value: Sequence[Merge],
    load: float = 0.0,
) -> dict[str, Any]:
    """Everything worth keeping about one file.

    Args:
        path, vocab_size, threads: what was trained.
        runs: by name, in turn; ours included.
        by_value: our merges with the bytes numbered by value.
        load: processors that others kept busy before the first run.
    """
    printable = runs[OURS][0].merges
    trainers: dict[str, dict[str, Any]] = {}
    for name, measured in runs.items():
        if measured[-1].failure:
            trainers[name] = {"failure": measured[-1].failure}
            continue
        contestant = CONTESTANTS[name]
        expected = by_value if contestant.promise == "value" else printable
        verdicts = [verdict(contestant, run.merges, expected) for run in measured]
        found = next((one for one in verdicts if one.equal is False), verdicts[0])
        trainers[name] = {
            "equal": found.equal,
            "verdict": found.words,
            "divergence": found.divergence,
            "runs": [run.measured for run in measured],
        }
    result = {
        "file": path.name,
        "bytes": path.stat().st_size,
        "vocab_size": vocab_size,
        "threads": threads,
        "rounds": len(runs[OURS]),
        "load": round(load, 1),
        "machine": machine.description(),
        "trainers": trainers,
        "not_installed": [name for name, one in CONTESTANTS.items() if not one.installed],
    }
    return with_figures(result)


def phases_of(trainer: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """(counting, merging) seconds, or None twice; all that is not counting is merging."""
    counting = trainer["phases"].get("counting")
    return (None, None) if counting is None else (counting, trainer["seconds"] - counting)


def save(result: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write a result under the name of its file, replacing the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = Path(result["file"]).stem
    path = folder / f"{stem}-{result['vocab_size']}-{result['threads']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def saved(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All comparisons, those of larger files last."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*-*-*.json"))]
    return sorted(
        map(with_figures, found), key=lambda result: (result["bytes"], result["vocab_size"])
    )


def with_figures(result: dict[str, Any]) -> dict[str, Any]:
    """``result`` with what follows from its runs: medians, and ratios between equals.

    A ratio is the median over rounds of their seconds to ours, because both runs of a round saw
    the same machine; ``cpu_ratio`` is the same of processor seconds, which others' work on the
    machine disturbs less.
    """
    ours = result["trainers"][OURS]["runs"]
    for one in result["trainers"].values():
        if "failure" in one:
            continue
        runs = one["runs"]
        for name in ("seconds", "cpu_seconds", "peak_megabytes", "megabytes_before"):
            one[name] = median_of(runs, name)
        one["process_seconds"] = median_of(runs, "process_seconds")
        one["phases"] = {
            phase: statistics.median(run["phases"][phase] for run in runs)
            for phase in runs[0]["phases"]
        }
        for ratio, name in (("ratio", "seconds"), ("cpu_ratio", "cpu_seconds")):
            unlike = one["equal"] is False
            one[ratio] = None if unlike else paired_ratio(runs, ours, name)
    return result


def median_of(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median of a figure over the runs that have it."""
    return statistics.median(float(run[name]) for run in runs if name in run)


def paired_ratio(
    theirs: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]], name: str
) -> float:
    """The median over rounds of their figure to ours: both runs of a round saw one machine."""
    return statistics.median(
        float(their[name]) / float(our[name]) for their, our in zip(theirs, ours, strict=False)
    )
