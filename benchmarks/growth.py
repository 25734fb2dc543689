"""`python -m benchmarks.growth FILE…`: how words, seconds and memory grow with the text.

Beginnings of each file are counted and learned from in fresh processes, and the largest of them
goes through the flow's own counting and combining, for what it costs to keep the counts. The
results are what `benchmarks.scale_out` reckons with.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.results import RESULTS
from benchmarks.runs import measured_apart
from benchmarks.scaling import beginning

FOLDER = RESULTS / "growth"
CHUNK = 67.108864  # MB: what one shard of counts is made of
_MEGABYTES = (4, 8, 16, 32, CHUNK, 128, 256, 512, 1024)
_VOCABULARY = 32_000


def main() -> None:
    options = _parser().parse_args()
    for path in options.files:
        result = growth_of(path, options.vocab_size, options.threads)
        options.output.mkdir(parents=True, exist_ok=True)
        kept = options.output / f"{path.stem}.json"
        kept.write_text(json.dumps(result, indent=1) + "\n")
        print(f"kept as {kept}", flush=True)


def growth_of(path: Path, vocab_size: int, threads: int) -> dict[str, Any]:
    """Measurements of beginnings that double, up to the whole file.

    Returns:
        ``points``: as `measure_growth.measured` describes them; ``storing``: CPU seconds of
        keeping shards and of combining them, over the whole file; ``shard_bytes``: on disk, of
        all shards; ``shard_rows`` in them.
    """
    whole = path.stat().st_size / 1e6
    points = []
    for size in (*(one for one in _MEGABYTES if one < 0.9 * whole), whole):
        with beginning(path, size) as text:
            arguments = [text, vocab_size, threads]
            found, failure = measured_apart("benchmarks.measure_growth", arguments)
        if failure:
            raise SystemExit(f"{path.name}, {size:.0f} MB: {failure}")
        points.append(found)
        print(f"{size:6.0f} MB: {found['distinct']:>12,} distinct words", flush=True)
    return {
        "file": path.name,
        "vocab_size": vocab_size,
        "threads": threads,
        "machine": machine.description(()),
        "points": points,
        "storing": _storing(path, threads),
    }


def _storing(path: Path, threads: int) -> dict[str, float]:
    from benchmarks.store import measure

    runs = [measure(path, threads) for _ in range(3)]
    best = min(runs, key=lambda run: run.storing.cpu)
    return {
        "counting_cpu_seconds": best.counting.cpu,
        "keeping_cpu_seconds": best.keeping.cpu,
        "combining_cpu_seconds": best.combining.cpu,
        "combining_seconds": best.combining.wall,
        "shard_rows": best.rows,
        "shard_bytes": best.shard_bytes,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text, the larger the better")
    parser.add_argument("--vocab-size", type=int, default=_VOCABULARY)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=FOLDER, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
