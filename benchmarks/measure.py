"""Measures one trainer in this process, for `benchmarks.runs`: JSON to one file, merges to another.

`python -m benchmarks.measure NAME FILE VOCAB_SIZE THREADS REPORT MERGES`
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.contestants import CONTESTANTS
from benchmarks.memory import peak_megabytes
from benchmarks.stopwatch import Stopwatch


def main() -> None:
    name, path, vocab_size, threads, report, merges_file = sys.argv[1:]
    restrict_to(int(threads))
    watch = Stopwatch()
    merges = CONTESTANTS[name].train(Path(path), int(vocab_size), int(threads), watch)
    measured = {
        "seconds": watch.seconds,
        "cpu_seconds": watch.cpu_seconds,
        "peak_megabytes": peak_megabytes(),
        "megabytes_before": watch.megabytes_before,
        "phases": watch.phases,
        "merges": len(merges),
    }
    Path(report).write_text(json.dumps(measured))
    with Path(merges_file).open("w") as file:
        file.writelines(" ".join(token.hex() for token in merge) + "\n" for merge in merges)


def restrict_to(threads: int) -> None:
    """Leave this process as many processors as threads: peers size their pools by them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


if __name__ == "__main__":
    main()
