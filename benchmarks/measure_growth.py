"""Counts and learns from one file in this process, for `benchmarks.growth`: JSON to one file.

`python -m benchmarks.measure_growth FILE VOCAB_SIZE THREADS REPORT`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import SEPARATOR
from benchmarks.memory import peak_megabytes, resident_megabytes

OFTEN = 10
_REFERENCES = Path("/proc/self/clear_refs")
_HIGH_WATER = "5"  # written there, the mark of the most memory starts over


def main() -> None:
    file, vocab_size, threads, report = sys.argv[1:]
    Path(report).write_text(json.dumps(measured(Path(file), int(vocab_size), int(threads))))


def measured(file: Path, vocab_size: int, threads: int) -> dict[str, Any]:
    """How many words there are and what they cost.

    Returns:
        ``bytes`` of text; ``words``, ``distinct`` and ``once`` (those that occur once);
        ``word_bytes`` of the distinct ones, ``often_bytes`` of those that occur `OFTEN` times or
        more; ``counting`` and ``merging``, each with ``seconds``,
        ``cpu_seconds`` and the ``megabytes`` it added at most.
    """
    from bpeline.tokenizer_core import count_words, train_bpe

    train_bpe(count_words([__file__]), 300)  # machine code is loaded before the clock starts
    counts, counting = _watched(
        lambda: count_words([file], special_tokens=[SEPARATOR], workers=threads)
    )
    _, merging = _watched(lambda: train_bpe(counts, vocab_size))
    return {
        "bytes": file.stat().st_size,
        "words": int(counts.counts.sum()),
        "distinct": len(counts),
        "once": int((counts.counts == 1).sum()),
        "word_bytes": int(counts.offsets[-1]),
        "often_bytes": int(np.diff(counts.offsets)[counts.counts >= OFTEN].sum()),
        "counting": counting,
        "merging": merging,
    }


def _watched(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    if _REFERENCES.exists():
        _REFERENCES.write_text(_HIGH_WATER)
    before, wall, cpu = resident_megabytes(), time.perf_counter(), time.process_time()
    result = work()
    return result, {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "megabytes": peak_megabytes() - before,
    }


if __name__ == "__main__":
    main()
