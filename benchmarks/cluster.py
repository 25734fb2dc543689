"""`python -m benchmarks.cluster FILE…`: processes of a Dask cluster on this machine, and threads.

As many processes as threads count and encode the same files, in turn, in new workspaces; results
are compared before seconds are. A cluster's seconds hold handing out its parcels, admitting its
workers and fetching results, and for encoding also writing the tokenizer down and loading it in
every worker; not starting the processes, which is told beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.documents import SEPARATOR
from benchmarks.machine import description
from benchmarks.results import RESULTS

FOLDER = RESULTS / "cluster"
_FILE_BYTES = 16_000_000  # the text is cut into files of this size
_VOCABULARY = 8_000
_SETTINGS = ("bytes", "workers", "machine")
_LEARN_FROM = 20_000_000  # bytes; the tokenizer's

Spent = dict[str, float]


def main() -> None:
    options = _parser().parse_args()
    for path in options.files:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            result = compare(path, Path(directory), options)
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = FOLDER / f"{path.stem}.json"
        if options.add and kept.exists():
            earlier = json.loads(kept.read_text())
            if [earlier[one] for one in _SETTINGS] == [result[one] for one in _SETTINGS]:
                result["runs"] = earlier["runs"] + result["runs"]
        kept.write_text(json.dumps(result, indent=1) + "\n")
        print(table(result))


def compare(path: Path, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure both engines on the beginning of a file."""
    from bpeline.flows.cluster.dask_engine import DaskEngine
    from bpeline.flows.engines import Threads
    from bpeline.tokenizer_core import count_words, train_bpe

    files = directory / "files"
    size = _cut(path, options.megabytes, files)
    learned = train_bpe(
        count_words(sorted(files.iterdir())[: max(1, _LEARN_FROM // _FILE_BYTES)]), _VOCABULARY
    )
    learned.save(directory / "tokenizer")
    meeting = directory / "meeting"
    meeting.mkdir()
    runs: list[dict[str, Any]] = []
    workers = options.workers
    begun = time.perf_counter()
    with DaskEngine(None, workers, meeting) as cluster:
        little = _little(files, directory)
        _count(cluster, cluster, little, directory / "first")
        started = time.perf_counter() - begun
        threads = Threads(workers)
        _count(threads, cluster, little, directory / "second")
        for engine in (None, cluster):  # loads kernels
            _encode(engine, cluster, little, directory / str(engine is None), directory, workers)
        for number in range(options.rounds):
            place = directory / str(number)
            here, counted = _count(threads, cluster, files, place / "threads")
            there, counted_there = _count(cluster, cluster, files, place / "cluster")
            _require_equal(counted, counted_there)
            run: dict[str, Any] = {"counting": {"threads": here, "cluster": there}}
            here, encoded = _encode(None, cluster, files, place / "t", directory, workers)
            there, encoded_there = _encode(cluster, cluster, files, place / "c", directory, workers)
            _require_equal(encoded, encoded_there)
            run["encoding"] = {"threads": here, "cluster": there}
            runs.append(run)
    return {
        "file": path.name,
        "bytes": size,
        "workers": workers,
        "start_seconds": started,
        "runs": runs,
        "machine": description(["distributed", "duckdb"]),
    }


def table(result: dict[str, Any]) -> str:
    """Both engines side by side, in Markdown."""
    lines = [
        f"**{result['file']}: {result['bytes'] / 1e6:,.0f} MB, {result['workers']} threads or "
        f"processes, median of {len(result['runs'])} runs in turn**\n",
        "|  | threads, CPU s | cluster, CPU s | CPU ratio | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for step in ("counting", "encoding"):
        wall, cpu = (
            {
                name: [run[step][name][of] for run in result["runs"]]
                for name in ("threads", "cluster")
            }
            for of in ("wall", "cpu")
        )
        spent = [f"{statistics.median(one):.2f}" for one in cpu.values()]
        lines.append(f"| {step} | {' | '.join(spent)} | {_ratio(cpu):.2f} | {_ratio(wall):.2f} |")
    return "\n".join(lines)


def _ratio(spent: dict[str, list[float]]) -> float:
    """The threads' seconds to the cluster's: the median over pairs of runs made in turn."""
    pairs = zip(spent["threads"], spent["cluster"], strict=True)
    return statistics.median(here / there for here, there in pairs)


def _count(engine: Any, cluster: Any, files: Path, place: Path) -> tuple[Spent, Any]:
    """Count files into a new workspace on an engine; what was counted."""
    from bpeline.flows import engines
    from bpeline.flows.steps.chunk_plan import plan_reading
    from bpeline.flows.steps.counting import count_chunks, placed_shards
    from bpeline.registry.word_counts.store import WordCountStore, shard_key
    from bpeline.registry.workspace.workspace import Workspace
    from bpeline.tokenizer_core.corpus.reading import Reading
    from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
    from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

    workspace = Workspace.open(place)
    reading = Reading(SplitPattern.named("gpt2"), (SEPARATOR,))
    request: Any = SimpleNamespace(reading=reading, workers=2, table_memory=256, sources=())
    token = engines._current.set(engine)
    try:
        with _timed(cluster) as spent:
            plan = plan_reading(find_source_files([Source(str(files))]), {}, reading, engine)
            corpus = count_chunks(plan, request, workspace)
    finally:
        engines._current.reset(token)
    keys = [shard_key(chunk.digest, reading.digest) for chunk in corpus.chunks]
    return spent, (placed_shards(corpus), WordCountStore(workspace).statistics(keys))


def _encode(
    engine: Any, cluster: Any, files: Path, out: Path, directory: Path, workers: int
) -> tuple[Spent, Any]:
    """Encode files with a tokenizer that has seen no text yet; the manifest."""
    from contextlib import nullcontext
    from unittest import mock

    from bpeline.flows import engines
    from bpeline.flows.steps import shard_encoding as encode_shards
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(directory / "tokenizer")
    largest = max(file.stat().st_size for file in files.iterdir())  # a shard for each file
    options: dict[str, Any] = {"separator": SEPARATOR, "shard_bytes": largest}
    with _timed(cluster) as spent:
        if engine is None:
            shards = tokenizer.encode_files([files], out, threads=workers, **options)
        else:
            with mock.patch.object(engines, "working", return_value=nullcontext(engine)):
                shards = encode_shards.encode_files(tokenizer, [files], out, "dask", **options)
    return spent, shards.manifest


@contextmanager
def _timed(cluster: Any) -> Iterator[Spent]:
    """Wall seconds, and processor seconds of this process and of all workers."""
    spent: Spent = {}
    cpu, wall = _cpu_seconds(cluster), time.perf_counter()
    yield spent
    spent["wall"] = time.perf_counter() - wall
    spent["cpu"] = _cpu_seconds(cluster) - cpu


def _cpu_seconds(cluster: Any) -> float:
    of_workers: dict[str, float] = cluster._client().run(time.process_time)
    return time.process_time() + sum(of_workers.values())


def _cut(path: Path, megabytes: int, folder: Path) -> int:
    """The beginning of a file as several files, each ending with a line; their bytes."""
    folder.mkdir()
    size = 0
    with path.open("rb") as file:
        for number in range(max(1, megabytes * 1_000_000 // _FILE_BYTES)):
            content = file.read(_FILE_BYTES) + file.readline()
            if content:
                (folder / f"{number:03}.txt").write_bytes(content)
            size += len(content)
    return size


def _little(files: Path, directory: Path) -> Path:
    """Files for a first run, in which all workers import and load what they need."""
    folder = directory / "little"
    folder.mkdir()
    lines = next(iter(sorted(files.iterdir()))).read_bytes().splitlines(keepends=True)[:160]
    for number in range(16):
        (folder / f"{number}.txt").write_bytes(b"".join(lines[number * 10 :][:10]) + b"%d" % number)
    return folder


def _require_equal(here: Any, there: Any) -> None:
    if here != there:
        raise SystemExit("the cluster's results are not those of the threads")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text, <|endoftext|> between")
    parser.add_argument("--megabytes", type=int, default=300, help="of the file's beginning")
    parser.add_argument("--workers", type=int, default=2, help="threads, and processes")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
    parser.add_argument("--add", action="store_true", help="to the runs that are kept already")
    return parser


if __name__ == "__main__":
    main()
