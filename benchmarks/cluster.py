"""A Dask cluster on this machine compared with threads: counting and encoding.

Times of the cluster include distributing work, admitting workers, fetching results and, for
encoding, saving and loading the tokenizer. Starting the processes is measured separately.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.corpora import SEPARATOR
from benchmarks.measurement import Case, Contestant, Measurement
from benchmarks.process import Stopwatch

_FILE_BYTES = 16_000_000  # the text is cut into files of this size
_VOCABULARY = 8_000
_LEARN_FROM = 20_000_000  # bytes; the tokenizer's


@contextmanager
def _files(case: Case) -> Iterator[Mapping[str, Any]]:
    from bpeline.tokenizer_core import count_words, train_bpe

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        files, tokenizer = Path(directory, "files"), Path(directory, "tokenizer")
        _cut(case.path, files)
        some = sorted(files.iterdir())[: max(1, _LEARN_FROM // _FILE_BYTES)]
        train_bpe(count_words(some), _VOCABULARY).save(tokenizer)
        little = _little(files, Path(directory))
        yield {"files": str(files), "little": str(little), "tokenizer": str(tokenizer)}


def _by_threads(case: Case, watch: Stopwatch) -> Any:
    from bpeline.flows.engines.engine import Threads

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        return _measured(Threads(case.threads), case, Path(directory), watch)


def _by_cluster(case: Case, watch: Stopwatch) -> Any:
    from bpeline.flows.engines.dask_engine import DaskEngine

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        meeting = Path(directory, "meeting")
        meeting.mkdir()
        begun = time.perf_counter()
        with DaskEngine(None, case.threads, meeting) as cluster:

            def clock() -> float:
                of_workers: dict[str, float] = cluster._client().run(time.process_time)
                return time.process_time() + sum(of_workers.values())

            return _measured(cluster, case, Path(directory), watch, clock, begun)


def _measured(
    engine: Any,
    case: Case,
    place: Path,
    watch: Stopwatch,
    clock: Any = time.process_time,
    begun: float | None = None,
) -> Any:
    """Run both steps on an engine, after a warm-up that loads kernels."""
    little, files, first = Path(case.prepared["little"]), Path(case.prepared["files"]), Stopwatch()
    _count(engine, little, place / "first", first)
    if begun is not None:
        watch.more["start_seconds"] = time.perf_counter() - begun
    _encode(engine, little, place / "first-shards", case, first)
    watch.clock = clock
    counted = _count(engine, files, place / "workspace", watch)
    return [*counted, _encode(engine, files, place / "shards", case, watch)]


def _count(engine: Any, files: Path, place: Path, watch: Stopwatch) -> Any:
    from bpeline.flows import engines
    from bpeline.flows.counting.chunk_plan import plan_reading
    from bpeline.flows.counting.word_counting import count_chunks, placed_shards
    from bpeline.registry.word_counts.store import WordCountStore, shard_key
    from bpeline.registry.workspace.workspace import Workspace
    from bpeline.tokenizer_core.corpus.reading import ReadOptions
    from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
    from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

    workspace = Workspace.open(place)
    reading = ReadOptions(SplitPattern.named("gpt2"), (SEPARATOR,))
    request: Any = SimpleNamespace(
        reading=reading, workers=2, table_memory=256, sources=(), counts=False
    )
    token = engines._current.set(engine)
    try:
        with watch.phase("counting"):
            plan = plan_reading(find_source_files([Source(str(files))]), {}, reading, engine)
            corpus = count_chunks(plan, request, workspace)
    finally:
        engines._current.reset(token)
    keys = [shard_key(chunk.digest, reading.digest) for chunk in corpus.chunks]
    return [repr(placed_shards(corpus)), repr(WordCountStore(workspace).statistics(keys))]


def _encode(engine: Any, files: Path, out: Path, case: Case, watch: Stopwatch) -> Any:
    """Encode files with a freshly loaded tokenizer; the manifest."""
    from contextlib import nullcontext
    from unittest import mock

    from bpeline.flows import engines
    from bpeline.flows.encoding import encode_files
    from bpeline.flows.engines.engine import Threads
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(Path(case.prepared["tokenizer"]))
    largest = max(file.stat().st_size for file in files.iterdir())  # a shard for each file
    options: dict[str, Any] = {"separator": SEPARATOR, "shard_bytes": largest}
    with watch.phase("encoding"):
        if isinstance(engine, Threads):
            encoded = tokenizer.encode_files([files], out, threads=case.threads, **options)
        else:
            with mock.patch.object(engines, "working", return_value=nullcontext(engine)):
                encoded = encode_files(tokenizer, [files], out, "dask", out.parent, **options)
    return repr(encoded.manifest)


def _cut(path: Path, folder: Path) -> None:
    folder.mkdir()
    with path.open("rb") as file:
        number = 0
        while content := file.read(_FILE_BYTES) + file.readline():
            (folder / f"{number:03}.txt").write_bytes(content)
            number += 1


def _little(files: Path, directory: Path) -> Path:
    """Small files for the warm-up of all workers."""
    folder = directory / "little"
    folder.mkdir()
    lines = next(iter(sorted(files.iterdir()))).read_bytes().splitlines(keepends=True)[:160]
    for number in range(16):
        (folder / f"{number}.txt").write_bytes(b"".join(lines[number * 10 :][:10]) + b"%d" % number)
    return folder


CLUSTER = Measurement(
    "cluster",
    "a Dask cluster on this machine compared with threads, on the first 300 MB",
    (Contestant("threads", _by_threads), Contestant("cluster", _by_cluster)),
    _files,
    megabytes=(300,),
    packages=("distributed", "duckdb"),
)
