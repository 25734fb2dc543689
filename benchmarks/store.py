"""`python -m benchmarks.store FILE`: what remembering word counts costs beside counting them.

The flow's own steps run on the file in a workspace of their own, which is removed. "keep shards" is
the part of the step "count words" that writes each chunk's counts; "combine counts" adds them up
and writes the DuckDB table. Kernels are compiled and libraries imported before the clock starts.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.documents import SEPARATOR

_WARM = f"some words to warm kernels{SEPARATOR}and more words, some of them new"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds: of processors, all threads together, and of the clock on the wall."""

    cpu: float
    wall: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.cpu - other.cpu, self.wall - other.wall)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of the steps. The wall time of writing is shared out among the workers.

    Attributes:
        counting: the step "count words" without writing.
        keeping: writing its shards.
        combining: the step "combine counts".
        words: distinct ones.
        rows: of all shards: words, distinct in a chunk each.
        shard_bytes: of all shards, on disk.
    """

    counting: Cost
    keeping: Cost
    combining: Cost
    words: int
    rows: int = 0
    shard_bytes: int = 0

    @property
    def storing(self) -> Cost:
        return self.keeping + self.combining

    @property
    def share(self) -> float:
        """Processor time of storing, as a share of that of counting."""
        return self.storing.cpu / self.counting.cpu


def main() -> None:
    options = _parser().parse_args()
    begin = time.process_time()
    import duckdb  # noqa: F401
    import pyarrow  # noqa: F401

    imports = time.process_time() - begin
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        warm = Path(directory, "warm.txt")
        warm.write_text(_WARM)
        measure(warm, options.threads)
    runs = [measure(options.file, options.threads) for _ in range(options.rounds)]
    size = options.file.stat().st_size / 1e6
    print(f"{options.file.name}: {size:,.1f} MB, {runs[0].words:,} distinct words, ", end="")
    print(f"{options.threads} threads, median of {len(runs)}; importing {imports:.2f} CPU s\n")
    print(f"{'':<18}{'CPU s':>8}{'wall s':>8}")
    for name, part in (
        ("count words", "counting"),
        ("keep shards", "keeping"),
        ("combine counts", "combining"),
        ("storing", "storing"),
    ):
        cpu, wall = (
            median(getattr(getattr(run, part), of) for run in runs) for of in Cost.__slots__
        )
        print(f"{name:<18}{cpu:>8.3f}{wall:>8.3f}")
    print(f"\nstoring is {median(run.share for run in runs):.1%} of counting in CPU time, ", end="")
    print(f"{median(run.storing.wall / run.counting.wall for run in runs):.1%} in wall time")


def measure(file: Path, threads: int) -> Measured:
    """Run the steps on a file in a new workspace."""
    from bpeline.flows.requests.training_request import TrainingRequest
    from bpeline.flows.steps.chunk_plan import plan_chunks
    from bpeline.flows.steps.combining import combine_counts
    from bpeline.flows.steps.counting import count_words
    from bpeline.registry.opening import open_registry

    given = {"paths": [str(file)], "special_tokens": [SEPARATOR], "workers": threads}
    request = TrainingRequest.checked(name="store", **given)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        registry = open_registry(Path(directory, "workspace"))
        run = registry.catalogue.start_run(request.name, request.as_config())
        plan = plan_chunks(request, registry)
        with _keeping_timed(threads) as keeping, _timed() as whole:
            corpus = count_words(plan, request, registry)
        with _timed() as combining:
            words = combine_counts(corpus, request, registry, run.id)
        registry.catalogue.close()
        files = [path for path in registry.workspace.shards.rglob("*") if path.is_file()]
        return Measured(
            whole[0] - keeping[0],
            keeping[0],
            combining[0],
            words.table.rows,
            words.seen.words,
            sum(path.stat().st_size for path in files),
        )


@contextmanager
def _timed() -> Iterator[list[Cost]]:
    found: list[Cost] = []
    cpu, wall = time.process_time(), time.perf_counter()
    yield found
    found.append(Cost(time.process_time() - cpu, time.perf_counter() - wall))


@contextmanager
def _keeping_timed(threads: int) -> Iterator[list[Cost]]:
    """The cost of writing every shard; it runs in the worker's own thread."""
    from bpeline.registry.word_counts import Shard, ShardFiles

    found, lock, write = [Cost(0, 0)], threading.Lock(), ShardFiles.write

    def timed(*given: Any) -> Shard:
        cpu, wall = time.thread_time(), time.perf_counter()
        shard = write(*given)
        cost = Cost(time.thread_time() - cpu, (time.perf_counter() - wall) / threads)
        with lock:
            found[0] += cost
        return shard

    with mock.patch.object(ShardFiles, "write", timed):
        yield found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("file", type=Path, help="UTF-8 text, the larger the better")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


if __name__ == "__main__":
    main()
