"""What one comparison found: one line of JSON with machine, versions and date; and lines before."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measurement import Case, Measurement
from benchmarks.tables import megabytes

if TYPE_CHECKING:
    from benchmarks.runner import Run

RESULTS = Path(__file__).parent / "results"
Result = Mapping[str, Any]
_OUR_PACKAGES = ("numpy", "numba", "llvmlite", "regex")
_KEY = ("file", "bytes", "vocab_size", "threads")


def summary(
    measurement: Measurement,
    case: Case,
    groups: Sequence[tuple[Mapping[str, Sequence[Run]], int]],
    load: float = 0.0,
) -> dict[str, Any]:
    """Everything worth keeping about one case.

    Args:
        measurement, case: what was measured on what.
        groups: runs by name, in turn, and how large the sample was that they got, or 0.
        load: processors that others kept busy before the first run.
    """
    contestants: dict[str, dict[str, Any]] = {}
    for runs, sample_bytes in groups:
        base = runs[measurement.baseline]
        found = {name: group[0].found for name, group in runs.items()}
        for name, group in runs.items():
            if name in contestants:  # the first, on the sample
                continue
            if group[-1].failure:
                contestants[name] = {"failure": group[-1].failure}
                continue
            judged = [
                measurement.judge(measurement.named(name), run.found, found, case) for run in group
            ]
            verdict = next((one for one in judged if one.equal is False), judged[0])
            figures, ours = ([run.figures for run in one] for one in (group, base))
            contestants[name] = {
                "equal": verdict.equal,
                "verdict": verdict.words,
                "divergence": verdict.divergence,
                "ratio": None if verdict.equal is False else paired(figures, ours, "seconds"),
                "cpu_ratio": (
                    None if verdict.equal is False else paired(figures, ours, "cpu_seconds")
                ),
                **({"sample_bytes": sample_bytes} if sample_bytes else {}),
                "runs": figures,
            }
    packages = [one.package for one in measurement.contestants if one.package and not one.folder]
    about = machine(dict.fromkeys([*packages, *measurement.packages]))
    return with_medians(
        {
            "measurement": measurement.name,
            "date": datetime.now(UTC).date().isoformat(),
            "file": case.path.name,
            "bytes": case.bytes,
            "vocab_size": case.vocab_size,
            "threads": case.threads,
            "rounds": len(groups[0][0][measurement.baseline]),
            "load": round(load, 1),
            "machine": {
                **about,
                "versions": about["versions"] | _in_folders(measurement),
            },
            **case.prepared.get("facts", {}),
            "contestants": contestants,
            "not_installed": [one.name for one in measurement.contestants if not one.installed],
        }
    )


def paired(theirs: Sequence[Result], ours: Sequence[Result], name: str) -> float | None:
    """The median over rounds of their figure to ours: both runs of a round saw one machine."""
    pairs = list(zip(theirs, ours, strict=False))
    if not all(our.get(name) for _, our in pairs):
        return None
    return statistics.median(float(their[name]) / float(our[name]) for their, our in pairs)


def with_medians(result: dict[str, Any]) -> dict[str, Any]:
    """``result`` with the median of every figure of every contestant, phases too."""
    for one in result["contestants"].values():
        for name, value in (one["runs"][0] if "runs" in one else {}).items():
            values = [run[name] for run in one["runs"] if name in run]
            if isinstance(value, dict):
                one[name] = {
                    part: statistics.median(each[part] for each in values) for part in value
                }
            elif isinstance(value, int | float):
                one[name] = statistics.median(values)
    return result


def save(result: Result, folder: Path = RESULTS) -> Path:
    """Add a result to those of its measurement; runs stay, what follows from them does not."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['measurement']}.jsonl"
    contestants = {
        name: {key: one[key] for key in one if key not in one.get("runs", [{}])[0]}
        for name, one in result["contestants"].items()
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**result, "contestants": contestants}, ensure_ascii=False) + "\n")
    return path


def history(
    measurement: str, folder: Path = RESULTS
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """All results of a measurement, oldest first, by what they were measured on."""
    path = folder / f"{measurement}.jsonl"
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        result = json.loads(line)
        key = tuple(result[name] for name in _KEY)
        found.setdefault(key, []).append(with_medians(result))
    return found


def newest(measurement: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The last result of each file and setting; those of larger files last."""
    last = [results[-1] for results in history(measurement, folder).values()]
    return sorted(last, key=lambda result: (result["bytes"], result["vocab_size"]))


def changes(measurement: str, folder: Path = RESULTS) -> list[tuple[str, ...]]:
    """The last result of each case beside the one before: date, case, who, CPU seconds, share."""
    rows = []
    for (file, size, vocab_size, threads), results in history(measurement, folder).items():
        if len(results) < 2:
            continue
        before, after = results[-2:]
        case = f"{file}, {megabytes(size)}, {vocab_size:,}, {threads} threads"
        for name, one in after["contestants"].items():
            old, new = (
                before["contestants"].get(name, {}).get("cpu_seconds"),
                one.get("cpu_seconds"),
            )
            if old and new:
                dates = f"{before['date']} → {after['date']}"
                rows.append((dates, case, name, f"{old:.2f}", f"{new:.2f}", f"{new / old:.0%}"))
    return rows


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """What the figures were measured on; without a host name.

    Args:
        packages: the distributions whose versions are told beside our own dependencies'.
    """
    return {
        "processor": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "vectors": _vectors(),
        "cores": os.cpu_count(),
        "memory_gigabytes": _memory_gigabytes(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": _versions([*_OUR_PACKAGES, *packages]),
    }


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _in_folders(measurement: Measurement) -> dict[str, str]:
    """Versions of packages that lie in folders of their own, by the contestant's name."""
    return {
        one.name: found.version
        for one in measurement.contestants
        if one.folder
        for found in distributions(name=one.package, path=[one.folder])
    }


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else []:
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _vectors() -> str:
    flags = _cpuinfo("flags").split()
    return next((name for name in ("avx512bw", "avx2", "sse4_2") if name in flags), "")


def _memory_gigabytes() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (ValueError, OSError, AttributeError):
        return None
