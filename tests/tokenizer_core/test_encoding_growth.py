"""What encoding takes of memory when nothing parts the text: peak growth, in its own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SIZE = 8_000_000  # bytes of text
BYTES_PER_BYTE = 12  # the text, marks and scratch, and at worst two ids of four bytes for each
SPARE = 16_000_000  # memory comes in pages of two megabytes
A_FEW_PIECES = 64_000_000  # the longer line alone has 48 MB
MEASURE = """
import gc, json, sys
from pathlib import Path
import numpy as np
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

def resident(mark):
    for line in open("/proc/self/status"):
        if line.startswith(mark):
            return int(line.split()[1]) * 1024

gc.collect()
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = resident("VmRSS")
if how == "files":
    tokenizer.encode_files("text.txt", "out", threads=1)
else:
    tokenizer.encode_to_numpy(text)
print(json.dumps(resident("VmHWM") - before))
"""


pytestmark = [
    pytest.mark.night,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs peak marks"),
]


def grown_by(kind: str, how: str, size: int, folder: Path) -> int:
    """Peak growth in bytes while a text of one kind is encoded."""
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, kind, how, str(size)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        check=True,
    )
    return int(json.loads(ran.stdout))


@pytest.mark.night
@pytest.mark.parametrize("how", ["numpy", "files"])
@pytest.mark.parametrize("kind", ["a", "spaces", "newlines", "ab", "digits", "marks", "han"])
def test_memory_grows_no_faster_than_text_that_nothing_parts(
    kind: str, how: str, tmp_path: Path
) -> None:
    grown = grown_by(kind, how, SIZE, tmp_path / "text")
    assert grown <= BYTES_PER_BYTE * SIZE + SPARE


@pytest.mark.night
def test_a_line_that_can_be_cut_takes_the_same_memory_at_any_length(tmp_path: Path) -> None:
    for times in (1, 6):
        grown = grown_by("line", "files", times * SIZE, tmp_path / str(times))
        assert grown <= A_FEW_PIECES
