"""Measures one encoder in this process, for `benchmarks.encoding`: JSON to one file.

`python -m benchmarks.measure_encoding NAME FOLDER FILE THREADS REPORT`; FILE ``-``: loading alone.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoders import ENCODERS, Loaded
from benchmarks.measure import restrict_to
from benchmarks.memory import peak_megabytes, resident_megabytes
from benchmarks.stopwatch import Stopwatch

BLOCK = 1 << 16  # ids that are compared at a time
NO_FILE = "-"
_AGAIN_WITHIN = 30.0  # seconds; who took longer is not asked for a second pass
_TEXTS = 200
_PASSES = 7
_PIECE = 10_000  # characters
_DECODED = 4 << 20  # bytes of text


def main() -> None:
    name, folder, file, threads, report = sys.argv[1:]
    restrict_to(int(threads))
    before = resident_megabytes()
    watch = Stopwatch()
    loaded = ENCODERS[name].load(Path(folder), watch)
    measured: dict[str, Any] = {
        "load_seconds": watch.seconds,
        "load_megabytes": resident_megabytes() - before,
    }
    if file != NO_FILE:
        measured |= _of_file(loaded, Path(file), int(threads)) | _of_texts(loaded, Path(file))
    Path(report).write_text(json.dumps(measured))


def _of_file(loaded: Loaded, path: Path, threads: int) -> dict[str, Any]:
    """A pass with a cold cache, and one more: ids are the same, words are known."""
    passes = []
    for _ in range(2):
        watch = Stopwatch()
        with watch.phase():
            ids = loaded.encode_file(path, threads)
        passes.append(watch)
        if len(passes) == 1:
            peak = peak_megabytes()
            blocks, count = block_digests(loaded.arrays(ids))
        del ids
        if watch.seconds > _AGAIN_WITHIN:
            break
    return {
        "seconds": passes[0].seconds,
        "cpu_seconds": passes[0].cpu_seconds,
        "again_seconds": passes[-1].seconds,
        "again_cpu_seconds": passes[-1].cpu_seconds,
        "peak_megabytes": peak,
        "ids": count,
        "blocks": blocks,
    }


def _of_texts(loaded: Loaded, path: Path) -> dict[str, Any]:
    """Microseconds for a text of 60 and of 1,000 characters, and bytes decoded in a second."""
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_DECODED)
    # In pieces: a long text without documents makes one library panic.
    pieces = [text[begin : begin + _PIECE] for begin in range(0, len(text), _PIECE)]
    ids = [int(id_) for piece in pieces for id_ in loaded.encode(piece)]
    decoding = _typical(lambda _: loaded.decode(ids), [text])
    return {
        "short_microseconds": 1e6 * _typical(loaded.encode, _pieces(text, 60)),
        "kilobyte_microseconds": 1e6 * _typical(loaded.encode, _pieces(text, 1_000)),
        "decode_megabytes_per_second": len(text.encode()) / 1e6 / decoding,
    }


def _pieces(text: str, length: int) -> list[str]:
    """Up to `_TEXTS` pieces from all over a text."""
    step = max(length, len(text) // _TEXTS)
    return [text[begin : begin + length] for begin in range(0, len(text), step)][:_TEXTS]


def _typical(encode: Callable[[str], Any], texts: Sequence[str]) -> float:
    """Seconds for one text: the median of passes over all of them, the first left out."""
    passes = []
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for text in texts:
            encode(text)
        passes.append((time.perf_counter() - begin) / len(texts))
    return statistics.median(passes[1:])


def block_digests(arrays: Iterable[NDArray[Any]]) -> tuple[list[str], int]:
    """A digest of every `BLOCK` ids, whatever arrays they come in, and how many ids there are."""
    digests: list[str] = []
    count = 0
    held: list[NDArray[Any]] = []
    size = 0
    for array in arrays:
        held.append(np.asarray(array))
        size += len(array)
        count += len(array)
        if size < BLOCK:
            continue
        rest = np.concatenate(held).astype("<u4")
        whole = len(rest) // BLOCK * BLOCK
        digests += [_digest(rest[begin : begin + BLOCK]) for begin in range(0, whole, BLOCK)]
        held, size = [rest[whole:]], len(rest) - whole
    if size:
        digests.append(_digest(np.concatenate(held).astype("<u4")))
    return digests, count


def _digest(ids: NDArray[Any]) -> str:
    return hashlib.sha256(ids.tobytes()).hexdigest()[:16]


if __name__ == "__main__":
    main()
