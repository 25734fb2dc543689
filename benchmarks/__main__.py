"""`python -m benchmarks FILE`: every trainer on one file, in turn, in fresh processes.

Prints a table and writes benchmarks/results/NAME.json. Merges are compared before seconds are: a
trainer that learns something else is named as such and gets no ratio.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS

RESULTS = Path(__file__).parent / "results"


def measure(name: str, path: Path, vocab_size: int) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", name, str(path), str(vocab_size)],
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        raise SystemExit(f"{name} failed:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])


def median_of(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
    parser.add_argument("--only", nargs="*", choices=sorted(CONTESTANTS), default=None)
    options = parser.parse_args()
    names = options.only or list(CONTESTANTS)

    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            runs[name].append(measure(name, options.file, options.vocab_size))

    ours = runs["bpeline"]
    megabytes = options.file.stat().st_size / 1e6
    print(f"{options.file.name}: {megabytes:.0f} MB, {options.vocab_size} tokens, "
          f"{platform.processor() or platform.machine()}, median of {options.rounds}")  # fmt: skip
    print(f"{'':14}{'seconds':>9}{'CPU s':>9}{'peak MB':>9}{'ratio':>8}  merges")
    for name, measured in runs.items():
        equal = {run["merges_digest"] for run in measured} == {ours[0]["merges_digest"]}
        ratios = [
            theirs["seconds"] / mine["seconds"] for theirs, mine in zip(measured, ours, strict=True)
        ]
        ratio = f"{statistics.median(ratios):.1f}x" if equal else "-"
        print(
            f"{name:14}{median_of(measured, 'seconds'):>9.2f}"
            f"{median_of(measured, 'cpu_seconds'):>9.2f}"
            f"{median_of(measured, 'peak_megabytes'):>9.0f}{ratio:>8}  "
            f"{measured[0]['merges']}{'' if equal else ' (differ from ours)'}"
        )
        for phase in measured[0]["phases"]:
            if phase != "all":
                seconds = statistics.median(run["phases"][phase] for run in measured)
                print(f"  {phase:12}{seconds:>9.2f}")

    RESULTS.mkdir(exist_ok=True)
    result = {
        "file": options.file.name,
        "bytes": options.file.stat().st_size,
        "vocab_size": options.vocab_size,
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "runs": runs,
    }
    target = RESULTS / f"{options.file.stem}-{options.vocab_size}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
