"""Runs trainers in fresh processes, in turn, and keeps what each of them measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, Contestant, Merge

ROOT = Path(__file__).parent.parent
_PATIENCE = 3600  # seconds for one training


@dataclass(frozen=True, slots=True)
class Run:
    """One training: what was measured, and the merges; or why there are none."""

    measured: dict[str, Any]
    merges: list[Merge]
    failure: str = ""


def run_once(contestant: Contestant, path: Path, vocab_size: int, threads: int) -> Run:
    """Train in a new process; never raises for what the trainer does wrong."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        merges = Path(directory, "merges")
        arguments = [contestant.name, path, vocab_size, threads]
        measured, failure = measured_apart("benchmarks.measure", arguments, [merges])
        return Run(measured, [], failure) if failure else Run(measured, read_merges(merges))


def measured_apart(
    module: str, arguments: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[dict[str, Any], str]:
    """Run a module in a new process: what it reported as JSON, or why it did not.

    Its command line is ``arguments``, the file for its report, and ``more``.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        report = Path(directory, "report.json")
        command = [sys.executable, "-m", module, *map(str, [*arguments, report, *more])]
        begin = time.perf_counter()
        try:
            finished = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return {}, f"not finished after {_PATIENCE} s"
        process_seconds = time.perf_counter() - begin
        if finished.returncode != 0 or not report.exists():
            last = (finished.stderr.strip() or f"exit code {finished.returncode}").splitlines()[-1]
            return {}, last[:200]
        measured: dict[str, Any] = json.loads(report.read_text())
        measured["process_seconds"] = process_seconds
        return measured, ""


def read_merges(path: Path) -> list[Merge]:
    with path.open() as file:
        return [tuple(bytes.fromhex(token) for token in line.split(" ")) for line in file]


def run_in_turn(
    names: Sequence[str], path: Path, vocab_size: int, threads: int, rounds: int
) -> dict[str, list[Run]]:
    """``rounds`` runs of each; those of one round form pairs that saw the same machine.

    A trainer that fails is not asked again.
    """
    path.read_bytes()  # so that the first trainer does not wait for the disk
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            if runs[name] and runs[name][-1].failure:
                continue
            run = run_once(CONTESTANTS[name], path, vocab_size, threads)
            runs[name].append(run)
            said = run.failure or f"{run.measured['seconds']:.2f} s"
            print(f"  round {number + 1}: {name}: {said}", file=sys.stderr, flush=True)
    return runs
