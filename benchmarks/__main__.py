"""`python -m benchmarks FILE…`: every installed trainer on each file, in turn, in fresh processes.

Merges are compared before seconds are: a trainer that does not learn what its tie-break promises
gets no ratio, and one that learns something else by design says so in its row.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.contestants import CONTESTANTS
from benchmarks.results import OURS, RESULTS, save, summary
from benchmarks.runs import run_in_turn, run_once
from benchmarks.tables import plain


def main() -> None:
    options = _parser().parse_args()
    names = [name for name in options.only or CONTESTANTS if CONTESTANTS[name].installed]
    if OURS not in names:
        names.insert(0, OURS)
    for path in options.files:
        result = compare(path, names, options.vocab_size, options.threads, options.rounds)
        print(plain(result))
        print(f"kept as {save(result, options.output)}\n", flush=True)


def compare(
    path: Path, names: Sequence[str], vocab_size: int, threads: int, rounds: int
) -> dict[str, Any]:
    """Measure trainers on one file; the result as `benchmarks.results.summary` describes it."""
    load = os.getloadavg()[0]
    run_once(CONTESTANTS[OURS], path, vocab_size, threads)  # new kernels are compiled, untimed
    runs = run_in_turn(names, path, vocab_size, threads, rounds)
    if runs[OURS][-1].failure:
        raise SystemExit(f"bpeline: {runs[OURS][-1].failure}")
    asks_by_value = any(CONTESTANTS[name].promise == "value" for name in names)
    by_value = ours.by_value(path, vocab_size) if asks_by_value else []
    return summary(path, vocab_size, threads, runs, by_value, load)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text, <|endoftext|> between")
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--threads", type=int, default=2, help="and as many processors")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
