"""Results: one line of JSON per comparison, with machine, versions and date."""

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
    """The result of one case.

    Args:
        groups: runs by name, and the size of their sample or 0.
        load: of the machine before the first run.
    """
    contestants: dict[str, dict[str, Any]] = {}
    for runs, sample_bytes in groups:
        base = runs[measurement.baseline]
        first_results = {name: group[0].found for name, group in runs.items()}
        for name, group in runs.items():
            if name in contestants:  # the baseline also ran on the sample
                continue
            if group[-1].failure:
                contestants[name] = {"failure": group[-1].failure}
                continue
            judged = [
                measurement.judge(measurement.named(name), run.found, first_results, case)
                for run in group
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
    """Median over rounds of their figure divided by ours."""
    pairs = list(zip(theirs, ours, strict=False))
    if not all(our.get(name) for _, our in pairs):
        return None
    return statistics.median(float(their[name]) / float(our[name]) for their, our in pairs)


def with_medians(result: dict[str, Any]) -> dict[str, Any]:
    """``result`` with the median of each figure, including phases."""
    for figures in result["contestants"].values():
        for name, value in (figures["runs"][0] if "runs" in figures else {}).items():
            values = [run[name] for run in figures["runs"] if name in run]
            if isinstance(value, dict):
                figures[name] = {
                    part: statistics.median(each[part] for each in values) for part in value
                }
            elif isinstance(value, int | float):
                figures[name] = statistics.median(values)
    return result


def save(result: Result, folder: Path = RESULTS) -> Path:
    """Append a result to its file; keeps runs but not medians."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['measurement']}.jsonl"
    contestants = {
        name: {key: figures[key] for key in figures if key not in figures.get("runs", [{}])[0]}
        for name, figures in result["contestants"].items()
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**result, "contestants": contestants}, ensure_ascii=False) + "\n")
    return path


def history(
    measurement: str, folder: Path = RESULTS
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    path = folder / f"{measurement}.jsonl"
    results: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        result = json.loads(line)
        key = tuple(result[name] for name in _KEY)
        results.setdefault(key, []).append(with_medians(result))
    return results


def newest(measurement: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The last result of each case, sorted by size."""
    last = [results[-1] for results in history(measurement, folder).values()]
    return sorted(last, key=lambda result: (result["bytes"], result["vocab_size"]))


def changes(measurement: str, folder: Path = RESULTS) -> list[tuple[str, ...]]:
    """Compare the last two results of each case: dates, case, who, CPU seconds, share."""
    rows = []
    for (file, size, vocab_size, threads), results in history(measurement, folder).items():
        if len(results) < 2:
            continue
        before, after = results[-2:]
        case = f"{file}, {megabytes(size)}, {vocab_size:,}, {threads} threads"
        for name, figures in after["contestants"].items():
            old, new = (
                before["contestants"].get(name, {}).get("cpu_seconds"),
                figures.get("cpu_seconds"),
            )
            if old and new:
                dates = f"{before['date']} → {after['date']}"
                rows.append((dates, case, name, f"{old:.2f}", f"{new:.2f}", f"{new / old:.0%}"))
    return rows


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """The machine and the versions of ``packages`` and our dependencies; no host name."""
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
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _in_folders(measurement: Measurement) -> dict[str, str]:
    """Versions of packages in separate folders, by contestant."""
    return {
        contestant.name: distribution.version
        for contestant in measurement.contestants
        if contestant.folder
        for distribution in distributions(name=contestant.package, path=[contestant.folder])
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
