"""What a comparison of encoders found: JSON, tables, notes; measures nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.encoders import ENCODERS
from benchmarks.measure_encoding import BLOCK
from benchmarks.results import OURS, RESULTS, median_of, paired_ratio
from benchmarks.tables import aligned, as_markdown

FOLDER = RESULTS / "encoding"
LOADING = "loading.json"
_PACKAGES = tuple(dict.fromkeys(one.package for one in ENCODERS.values() if one.package))
_MEDIANS = (
    *("seconds", "cpu_seconds", "again_seconds", "again_cpu_seconds", "peak_megabytes"),
    *("load_seconds", "load_megabytes"),
    *("short_microseconds", "kilobyte_microseconds", "decode_megabytes_per_second"),
)
Runs = Mapping[str, Sequence[Mapping[str, Any]]]
HEADINGS = (
    *("", "MB/s", "MB/CPU s", "again", "peak MB", "ratio", "CPU ratio"),
    *("60 characters", "1 kB", "decode MB/s", "ids"),
)


def summary(
    path: Path,
    vocab_size: int,
    threads: int,
    runs: Runs,
    load: float = 0.0,
    on_sample: Runs | None = None,
    sample_bytes: int = 0,
) -> dict[str, Any]:
    """Everything worth keeping about one file and number of threads.

    Args:
        path, vocab_size, threads: what was encoded.
        runs: by name, in turn, as `benchmarks.measure_encoding` reports them; ours included.
        load: processors that others kept busy before the first run.
        on_sample: the same of those that encoded a sample of the file, and of ours there.
        sample_bytes: how large it is.
    """
    ours = runs[OURS]
    encoders = {name: _compared(name, measured, ours) for name, measured in runs.items()}
    for name, measured in (on_sample or {}).items():
        if name != OURS:
            one = _compared(name, measured, (on_sample or {})[OURS])
            encoders[name] = one | {"sample_bytes": sample_bytes}
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "vocab_size": vocab_size,
        "threads": threads,
        "rounds": len(ours),
        "load": round(load, 1),
        "machine": machine.description(_PACKAGES),
        "trainers": encoders,
        "not_installed": [name for name, one in ENCODERS.items() if not one.installed],
    }


def _compared(
    name: str, measured: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Medians, verdict and ratios of one encoder."""
    if "failure" in measured[-1]:
        return {"failure": measured[-1]["failure"]}
    differing = [verdict(run, ours[0]) for run in measured]
    said = next((words for words in differing if words), "")
    one: dict[str, Any] = {"equal": not said, "verdict": said or _agreed(name, measured[0])}
    one |= {figure: median_of(measured, figure) for figure in _MEDIANS}
    for ratio, figure in (("ratio", "seconds"), ("cpu_ratio", "cpu_seconds")):
        one[ratio] = None if said else paired_ratio(measured, ours, figure)
    kept = [{key: run[key] for key in run if key != "blocks"} for run in measured]
    return {**one, "runs": kept}


def speed_of(one: Mapping[str, Any], result: Mapping[str, Any], seconds: str = "seconds") -> float:
    """MB/s of an encoder on what it was given: the file, or a sample of it."""
    return float(one.get("sample_bytes", result["bytes"])) / 1e6 / float(one[seconds])


def verdict(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Where ids first differ, to the block; nothing when all are equal."""
    if theirs["ids"] == ours["ids"] and theirs["blocks"] == ours["blocks"]:
        return ""
    pairs = list(zip(theirs["blocks"], ours["blocks"], strict=False))
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return f"differ within {BLOCK:,} ids from id {same * BLOCK:,} on"


def _agreed(name: str, run: Mapping[str, Any]) -> str:
    return "ours" if name == OURS else f"all {run['ids']:,} equal"


def loading_of(runs: Mapping[str, Sequence[Mapping[str, Any]]], vocab_size: int) -> dict[str, Any]:
    """Time and memory to load a vocabulary."""
    good = {name: measured for name, measured in runs.items() if "failure" not in measured[-1]}
    return {
        "vocab_size": vocab_size,
        "machine": machine.description(_PACKAGES),
        "encoders": {
            name: {
                "seconds": median_of(measured, "load_seconds"),
                "megabytes": median_of(measured, "load_megabytes"),
            }
            for name, measured in good.items()
        },
    }


def save(result: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Write a result under the name of its file, replacing the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = Path(result["file"]).stem if "file" in result else ""
    path = folder / (f"{stem}-{result['threads']}.json" if stem else LOADING)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def saved(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """All comparisons, by file and number of threads."""
    paths = [path for path in folder.glob("*.json") if path.name != LOADING]
    found = [json.loads(path.read_text()) for path in sorted(paths)]
    return sorted(found, key=lambda result: (result["file"], result["threads"]))


def saved_loading(folder: Path = FOLDER) -> dict[str, Any] | None:
    """What was measured of loading, if anything."""
    path = folder / LOADING
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def title(results: Sequence[Mapping[str, Any]]) -> str:
    """What one or more results of one file were measured on."""
    result = results[0]
    rounds = min(result["rounds"] for result in results)
    return (
        f"{result['file']}: {result['bytes'] / 1e6:.3g} MB, vocabulary {result['vocab_size']:,}, "
        f"{' and '.join(_threads(result) for result in results)}, "
        f"median of {rounds} run{'s' if rounds > 1 else ''}"
    )


def _threads(result: Mapping[str, Any]) -> str:
    return f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"


def rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row per encoder, fastest first; failures last."""
    encoders = result["trainers"]
    measured = {name: one for name, one in encoders.items() if "failure" not in one}
    lines = [
        _row(name, measured[name], result)
        for name in sorted(measured, key=lambda name: -speed_of(measured[name], result))
    ]
    empty = [""] * (len(HEADINGS) - 2)
    for name, one in encoders.items():
        if "failure" in one:
            lines.append((name, *empty, f"failed: {one['failure']}"))
    return lines


def _row(name: str, one: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, ...]:
    sample = f", of {one['sample_bytes'] / 1e6:.0f} MB" if "sample_bytes" in one else ""
    return (
        name,
        _speed(speed_of(one, result)),
        _speed(speed_of(one, result, "cpu_seconds")),
        _speed(speed_of(one, result, "again_seconds")),
        f"{one['peak_megabytes']:,.0f}",
        _times(name, one["ratio"]),
        _times(name, one["cpu_ratio"]),
        f"{one['short_microseconds']:.1f} µs",
        f"{one['kilobyte_microseconds']:.1f} µs",
        f"{one['decode_megabytes_per_second']:.0f}",
        one["verdict"] + sample,
    )


def _speed(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _times(name: str, ratio: float | None) -> str:
    return "1" if name == OURS else "–" if ratio is None else f"{ratio:.2f}×"


def plain(result: Mapping[str, Any]) -> str:
    """Aligned columns for the terminal."""
    lines = [title([result]), *aligned([HEADINGS, *rows(result)])]
    if result["not_installed"]:
        lines.append(f"not installed: {', '.join(result['not_installed'])}")
    return "\n".join(lines)


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """One table of all results of one file: a row per encoder, columns for each thread count."""
    last = results[-1]["trainers"]
    columns = [""]
    for result in results:
        columns += [f"MB/s, {_threads(result)}", "ratio", "CPU ratio"]
    columns += ["again", "peak MB", "60 characters", "1 kB", "decode MB/s", "ids"]
    lines = []
    for name in sorted(last, key=lambda name: -_speed_if_any(last[name], results[-1])):
        line = [name]
        for result in results:
            one = result["trainers"].get(name, {})
            row = _row(name, one, result) if "seconds" in one else [""] * len(HEADINGS)
            line += [row[1], row[5], row[6]]
        if "failure" in last[name]:
            lines.append((*line, *[""] * 5, f"failed: {last[name]['failure']}"))
        else:
            row = _row(name, last[name], results[-1])
            lines.append((*line, row[3], row[4], *row[7:]))
    return as_markdown(tuple(columns), lines)


def _speed_if_any(one: Mapping[str, Any], result: Mapping[str, Any]) -> float:
    return speed_of(one, result) if "seconds" in one else 0.0


def scaling(results: Sequence[Mapping[str, Any]]) -> str:
    """How many times as fast more threads were than one: a sentence, or nothing."""
    first, last = results[0], results[-1]
    if first["threads"] == last["threads"]:
        return ""
    said = [
        f"{name} {first['trainers'][name]['seconds'] / one['seconds']:.2f}"
        for name, one in last["trainers"].items()
        if "seconds" in one and "seconds" in first["trainers"].get(name, {})
    ]
    return f"{last['threads']} threads to {first['threads']}, times as fast: {', '.join(said)}."


def loading_markdown(loading: Mapping[str, Any]) -> str:
    """Seconds and memory to load a vocabulary, the quickest first."""
    encoders = loading["encoders"]
    names = sorted(encoders, key=lambda name: float(encoders[name]["seconds"]))
    table = [
        (name, f"{encoders[name]['seconds']:.2f}", f"{encoders[name]['megabytes']:.0f}")
        for name in names
    ]
    return as_markdown((f"loading {loading['vocab_size']:,} tokens", "seconds", "MB"), table)


def notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to know before comparing."""
    shown = {name for result in results for name in result["trainers"]}
    by_caveat: dict[str, list[str]] = {}
    for name, encoder in ENCODERS.items():
        if encoder.caveat and name in shown:
            by_caveat.setdefault(encoder.caveat, []).append(name)
    return [
        "*MB/s*: from a file to ids in a fresh process, caches empty; *again*: the same file once "
        "more in that process, with the most threads; *ratio*: their seconds to ours, the median "
        "over pairs of runs made one after the other; *CPU ratio*: the same of processor seconds, "
        "all threads together.",
        "*60 characters*, *1 kB*: one call for one text, over texts from all over the file, met "
        "before; *decode*: the ids of the file's first 4 MB as one list.",
        "*loading*: from the vocabulary's file to an object that encodes; *MB* is what the process "
        "grew by, the library's own code included.",
        *(f"{_listed(names)}: {caveat}." for caveat, names in by_caveat.items()),
        *_of_samples(results),
    ]


def _of_samples(results: Sequence[Mapping[str, Any]]) -> list[str]:
    if not any("sample_bytes" in one for result in results for one in result["trainers"].values()):
        return []
    return [
        "*of 20 MB*: given twenty stretches from all over the file; their ratios are "
        "to our seconds for the same sample, in the same round, not to those in our row."
    ]


def _listed(names: Sequence[str]) -> str:
    quoted = [f"*{name}*" if "," in name else name for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
