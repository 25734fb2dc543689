"""Runs contestants in fresh processes, interleaved, and summarizes one result."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.corpora import beginning, sampled
from benchmarks.measurement import Case, Measurement
from benchmarks.results import summary

_ROOT = Path(__file__).parent.parent
_PATIENCE = 3600  # seconds for one process
_LONG = 120.0  # seconds; no more rounds or larger texts after a longer run


@dataclass(frozen=True, slots=True)
class Run:
    """Figures and result of one process, or the reason of its failure."""

    figures: dict[str, Any] = field(default_factory=dict)
    found: Any = None
    failure: str = ""


def run_once(measurement: Measurement, name: str, case: Case) -> Run:
    """Run a contestant in a new process; never raises for its failures."""
    parameters = {
        "measurement": measurement.name,
        "contestant": name,
        "case": dataclasses.asdict(case),
    }
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        request, report = Path(directory, "request.json"), Path(directory, "report.json")
        request.write_text(json.dumps(parameters))
        command = [sys.executable, "-m", "benchmarks.process", str(request), str(report)]
        begin = time.perf_counter()
        try:
            finished = subprocess.run(
                command, capture_output=True, text=True, cwd=_ROOT, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return Run(failure=f"not finished after {_PATIENCE} s")
        seconds = time.perf_counter() - begin
        if finished.returncode != 0 or not report.exists():
            last = (finished.stderr.strip() or f"exit code {finished.returncode}").splitlines()[-1]
            return Run(failure=last[:200])
        measured = json.loads(report.read_text())
    return Run({**measured["figures"], "process_seconds": seconds}, measured["found"])


def run_in_turn(
    measurement: Measurement, names: Sequence[str], case: Case, rounds: int
) -> dict[str, list[Run]]:
    """``rounds`` runs of each; the runs of one round form pairs.

    Every other round runs backwards. Failed and very long contestants stop.
    """
    case.path.read_bytes()  # fill the page cache
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            last = runs[name][-1] if runs[name] else None
            if last and (last.failure or took(last) > _LONG or measurement.named(name).once):
                continue
            run = run_once(measurement, name, case)
            runs[name].append(run)
            message = run.failure or f"{took(run):.2f} s"
            print(f"  round {number + 1}: {name}: {message}", file=sys.stderr, flush=True)
    return runs


def took(run: Run) -> float:
    return float(run.figures.get("seconds", 0.0))


def compare(
    measurement: Measurement, names: Sequence[str], case: Case, rounds: int
) -> dict[str, Any]:
    """Measure contestants on one case; see `benchmarks.results.summary`."""
    load = os.getloadavg()[0]
    base = measurement.baseline
    large = 0 < 2 * measurement.sample_bytes < case.bytes
    slow = [name for name in names if large and measurement.named(name).slow]
    with measurement.prepare(case) as prepared, tempfile.TemporaryDirectory() as directory:
        prepared_case = replace(case, prepared=prepared)
        run_once(measurement, base, prepared_case)  # compile kernels untimed
        fast = [name for name in names if name not in slow]
        groups = [(run_in_turn(measurement, fast, prepared_case, rounds), 0)]
        if slow:
            sample = Path(directory, case.path.name)
            sample.write_bytes(sampled(case.path, measurement.sample_bytes))
            smaller = replace(prepared_case, files=(str(sample),))
            runs = run_in_turn(measurement, [base, *slow], smaller, rounds)
            groups.append((runs, measurement.sample_bytes))
        for runs, _ in groups:
            if runs[base][-1].failure:
                raise SystemExit(f"{base}: {runs[base][-1].failure}")
        return summary(measurement, prepared_case, groups, load)


def results_of(
    measurement: Measurement,
    files: Sequence[Path],
    names: Sequence[str],
    options: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Results for each file, size and setting in ``options``."""
    corpora = (
        [tuple(map(str, files))]
        if measurement.together
        else [(str(file_path),) for file_path in files]
    )
    for corpus in corpora:
        remaining = list(names)
        whole = sum(Path(file).stat().st_size for file in corpus) / 1e6
        sizes = options["megabytes"] or measurement.megabytes or (whole,)
        for size in sorted({*(min(size, whole) for size in sizes)}):
            for vocab_size in options["vocab_size"] or measurement.vocab_sizes:
                for threads in options["threads"] or measurement.threads:
                    with beginning(Path(corpus[0]), size + 1e-6) as text:
                        paths = (str(text), *corpus[1:])
                        case = Case(paths, vocab_size, threads, options["vocabulary"])
                        result = compare(measurement, remaining, case, options["rounds"])
                    yield {**result, "file": Path(corpus[0]).name}
                    figures = result["contestants"]
                    remaining = [
                        name
                        for name in remaining
                        if name == measurement.baseline or figures[name].get("seconds", 0) < _LONG
                    ]
