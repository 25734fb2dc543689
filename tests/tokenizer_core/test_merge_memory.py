"""What merging costs in memory: peak resident growth per symbol, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BYTES_PER_SYMBOL = {"smallest-ids": 17, "first-seen": 17, "greatest-bytes": 26}
MEASURE = """
import gc, json, sys
import numpy as np
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, byte_words
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS
from bpeline.tokenizer_core.counting.word_counts import WordCounts

SIZE = 3_000_000

def resident(mark):
    for line in open("/proc/self/status"):
        if line.startswith(mark):
            return int(line.split()[1]) * 1024

def fibonacci(size):
    one, two = b"a", b"ab"
    while len(two) < size:
        one, two = two, two + one
    return two[:size]

def some_words(size):
    source = np.random.default_rng(3)
    letters = source.zipf(1.3, size).astype(np.uint8) % 26 + 97
    ends = np.unique(source.integers(0, size, size // 8))
    offsets = np.concatenate([[0], ends[(ends > 0) & (ends < size)], [size]]).astype(np.int64)
    words = len(offsets) - 1
    counts = source.zipf(1.5, words) % 10_000 + 1
    return WordCounts(letters, offsets, counts.astype(np.int64), np.arange(words, dtype=np.int64))

def prose(characters):
    ranks = np.random.default_rng(1).zipf(1.2, characters) % 3000
    return "".join(map(chr, 0x4E00 + ranks)).encode()

corpora = {
    "words": some_words(SIZE),
    "a run": WordCounts.from_mapping({b"a" * SIZE: 1}),
    "fibonacci": WordCounts.from_mapping({fibonacci(SIZE): 1}),
    "prose without spaces": WordCounts.from_mapping({prose(SIZE // 3): 1}),
}
peaks = {}
for tie_break in TIE_BREAKS:  # everything compiled and loaded before measuring
    counts = WordCounts.from_mapping({b"abab": 2})
    MergeEngine(byte_words(counts, tie_break), tie_break=tie_break, min_count=2).learn(1)
for name, counts in corpora.items():
    for tie_break in TIE_BREAKS:
        gc.collect()
        open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
        before = resident("VmRSS")
        engine = MergeEngine(byte_words(counts, tie_break), tie_break=tie_break, min_count=2)
        engine.learn(16_000)
        symbols = len(counts.word_bytes) + len(counts)
        peaks[f"{name}, {tie_break}"] = (resident("VmHWM") - before) / symbols
        del engine
print(json.dumps(peaks))
"""


@pytest.mark.night
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak marks")
def test_merging_takes_few_bytes_per_symbol() -> None:
    # Large arrays go back to the system when they are freed, so each run begins without any.
    honest = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, env=honest
    )
    peaks = json.loads(run.stdout)
    assert len(peaks) == 12
    most = {name: BYTES_PER_SYMBOL[name.rpartition(", ")[2]] for name in peaks}
    assert {name: peak for name, peak in peaks.items() if peak > most[name]} == {}
