"""Growth of words, time and memory with the text, and the cost of stored counts."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.corpora import SEPARATOR
from benchmarks.measurement import Case, Contestant, Measurement
from benchmarks.process import Stopwatch, memory

_REFERENCES = Path("/proc/self/clear_refs")
_HIGH_WATER = "5"  # resets VmHWM
_WARM = f"some words to warm kernels{SEPARATOR}and more words, some of them new"


def grown(case: Case, watch: Stopwatch) -> None:
    """Measure distinct words and the cost of counting and merging.

    Figures: ``words``, ``distinct``, ``once`` (words that occur once), ``word_bytes``, and
    ``megabytes`` that each phase added at most.
    """
    from bpeline.tokenizer_core import count_words, train_bpe

    train_bpe(count_words([__file__]), 300)  # load kernels untimed
    counts, counting = _watched(
        watch,
        "counting",
        lambda: count_words([case.path], special_tokens=[SEPARATOR], workers=case.threads),
    )
    _, merging = _watched(watch, "merging", lambda: train_bpe(counts, case.vocab_size))
    watch.more = {
        "words": int(counts.counts.sum()),
        "distinct": len(counts),
        "once": int((counts.counts == 1).sum()),
        "word_bytes": int(counts.offsets[-1]),
        "megabytes": {"counting": counting, "merging": merging},
    }


def _watched(watch: Stopwatch, phase: str, work: Callable[[], Any]) -> tuple[Any, float]:
    if _REFERENCES.exists():
        _REFERENCES.write_text(_HIGH_WATER)
    before = memory("VmRSS")
    with watch.phase(phase):
        result = work()
    return result, memory("VmHWM") - before


def stored(case: Case, watch: Stopwatch) -> int:
    """Run the steps of the flow in a temporary workspace; returns distinct words.

    ``keeping`` is the part of "count words" that writes the counts of each chunk, ``combining`` the
    step "combine counts".
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        warm = Path(directory, "warm.txt")
        warm.write_text(_WARM)
        _steps(warm, case.threads, Path(directory, "warm"), Stopwatch())
        return _steps(case.path, case.threads, Path(directory, "workspace"), watch)


def _steps(file: Path, threads: int, place: Path, watch: Stopwatch) -> int:
    from bpeline.flows.counting.chunk_plan import plan_chunks
    from bpeline.flows.counting.combining import combine_counts
    from bpeline.flows.counting.word_counting import count_words
    from bpeline.flows.requests.training_request import TrainingRequest
    from bpeline.registry.opening import open_registry

    options = {"paths": [str(file)], "special_tokens": [SEPARATOR], "workers": threads}
    request = TrainingRequest.checked(name="store", **options)
    registry = open_registry(place)
    run = registry.catalogue.start_run(request.name, request.as_config())
    plan = plan_chunks(request, registry)
    with _keeping_timed(threads) as keeping, watch.phase("counting"):
        corpus = count_words(plan, request, registry)
    with watch.phase("combining"):
        words = combine_counts(corpus, request, registry, run.id)
    registry.catalogue.close()
    for phases, cost in zip((watch.cpu_phases, watch.phases), keeping, strict=True):
        phases["keeping"] = cost
        phases["counting"] -= cost
    files = [path for path in registry.workspace.shards.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    watch.more = {"shard_rows": words.seen.words, "shard_bytes": size}
    return int(words.table.rows)


@contextmanager
def _keeping_timed(threads: int) -> Iterator[list[float]]:
    """CPU and wall seconds of writing shards, which happens in the worker threads."""
    from bpeline.registry.word_counts import ShardFiles

    spent, lock, write = [0.0, 0.0], threading.Lock(), ShardFiles.write

    def timed(*given: Any) -> Any:
        cpu, wall = time.thread_time(), time.perf_counter()
        shards = write(*given)
        with lock:
            spent[0] += time.thread_time() - cpu
            spent[1] += (time.perf_counter() - wall) / threads  # workers write in parallel
        return shards

    with mock.patch.object(ShardFiles, "write", timed):
        yield spent


GROWTH = Measurement(
    "growth",
    "words, seconds and memory of beginnings that double",
    (Contestant("bpeline", grown),),
    megabytes=(4, 8, 16, 32, 67.108864, 128, 256, 512, 1024, 1e9),
)
STORING = Measurement("storing", "what keeping word counts costs", (Contestant("bpeline", stored),))
