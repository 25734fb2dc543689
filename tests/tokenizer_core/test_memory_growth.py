"""What encoding and merging take of memory: peak growth, in processes of their own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from fresh_python import output_of

SIZE = 8_000_000  # bytes of text
BYTES_PER_BYTE = 12  # the text, marks and scratch, and at worst two ids of four bytes for each
SPARE = 16_000_000  # memory comes in pages of two megabytes
A_FEW_PIECES = 64_000_000  # the longer line alone has 48 MB
RESIDENT = """
import gc, json, sys
import numpy as np

def resident(mark):
    for line in open("/proc/self/status"):
        if line.startswith(mark):
            return int(line.split()[1]) * 1024

def begin():
    gc.collect()
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
    return resident("VmRSS")
"""
ENCODE = (
    RESIDENT
    + """
from pathlib import Path
from bpeline.tokenizer_core import Tokenizer

kind, how, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
units = {"a": "a", "spaces": " ", "newlines": "\\n", "ab": "ab", "digits": "1234567890",
         "marks": "\\u0301", "han": "".join(map(chr, range(0x4E00, 0x5E00))), "line": "some words "}
unit = units[kind]
vocab = {byte: bytes([byte]) for byte in range(256)}
merges = []
for number in range(6):
    for letter in (b"a", b" ", b"\\n", b"1"):
        merges.append((letter * 2**number, letter * 2**number))
merges.append((b"a", b"b"))
vocab |= {256 + i: left + right for i, (left, right) in enumerate(merges)}
tokenizer = Tokenizer(vocab, merges, cache_words=1_000)
Path("warm.txt").write_text(unit * 10_000)
tokenizer.encode_files("warm.txt", "warm", threads=1)
tokenizer.encode_to_numpy(unit * 10_000)
text = unit * (size // len(unit.encode()))
Path("text.txt").write_text(text)
del units, vocab, merges

before = begin()
if how == "files":
    tokenizer.encode_files("text.txt", "out", threads=1)
else:
    tokenizer.encode_to_numpy(text)
print(json.dumps(resident("VmHWM") - before))
"""
)


pytestmark = [
    pytest.mark.night,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs peak marks"),
]


def grown_by(kind: str, how: str, size: int, folder: Path) -> int:
    """Peak growth in bytes while a text of one kind is encoded."""
    folder.mkdir()
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return int(output_of(ENCODE, kind, how, size, cwd=folder, PYTHONPATH=paths))


@pytest.mark.parametrize("how", ["numpy", "files"])
@pytest.mark.parametrize("kind", ["a", "spaces", "newlines", "ab", "digits", "marks", "han"])
def test_memory_grows_no_faster_than_text_that_nothing_parts(
    kind: str, how: str, tmp_path: Path
) -> None:
    grown = grown_by(kind, how, SIZE, tmp_path / "text")
    assert grown <= BYTES_PER_BYTE * SIZE + SPARE


def test_a_line_that_can_be_cut_takes_the_same_memory_at_any_length(tmp_path: Path) -> None:
    for times in (1, 6):
        grown = grown_by("line", "files", times * SIZE, tmp_path / str(times))
        assert grown <= A_FEW_PIECES


BYTES_PER_SYMBOL = {"smallest-ids": 17, "first-seen": 17, "greatest-bytes": 26}
MERGE = (
    RESIDENT
    + """
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, byte_words
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS
from bpeline.tokenizer_core.counting.word_counts import WordCounts

SIZE = 3_000_000

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
        before = begin()
        engine = MergeEngine(byte_words(counts, tie_break), tie_break=tie_break, min_count=2)
        engine.learn(16_000)
        symbols = len(counts.word_bytes) + len(counts)
        peaks[f"{name}, {tie_break}"] = (resident("VmHWM") - before) / symbols
        del engine
print(json.dumps(peaks))
"""
)


def test_merging_takes_few_bytes_per_symbol() -> None:
    # Large arrays go back to the system when they are freed, so each run begins without any.
    peaks = json.loads(output_of(MERGE, MALLOC_MMAP_THRESHOLD_="65536", seconds=3_000))
    assert len(peaks) == 12
    most = {name: BYTES_PER_SYMBOL[name.rpartition(", ")[2]] for name in peaks}
    assert {name: peak for name, peak in peaks.items() if peak > most[name]} == {}
