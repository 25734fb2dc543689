"""Compares hot loops with the limits of this machine's memory.

Virtual machines have no counters of cache and branch misses, so the bytes, cache lines and branches
of each loop are counted, and their cost is measured here. *share* is the part of a loop's time that
bytes and lines explain; *wrong guesses* is the number of mispredicted branches that would explain
the rest. All times are the least of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import SEPARATOR

_VOCABULARY = 32_000
_LARGE, _NEAR = 1 << 28, 1 << 18  # bytes: beyond the last-level cache; within L2
_RUNS = 5
_TEXT = 16 << 20  # bytes to encode and decode


@dataclass(frozen=True, slots=True)
class Machine:
    """Cost of memory accesses on this machine.

    Attributes:
        reading, copying: bytes per second, sequential.
        far, near: seconds for a cache line in `_LARGE` or `_NEAR` bytes that depends on the one
            before.
        far_at_once, near_at_once: the same for independent lines.
        guess: seconds for a mispredicted branch.
    """

    reading: float
    copying: float
    far: float
    near: float
    far_at_once: float
    near_at_once: float
    guess: float


@dataclass(frozen=True, slots=True)
class Loop:
    """One hot loop on one text.

    Attributes:
        item: what it processes, one after the other.
        sequential: bytes read or written sequentially.
        lines: cache lines at random places.
        where: ``far`` or ``near``: size of the memory that holds the lines.
    """

    name: str
    item: str
    seconds: float
    items: int
    sequential: int
    lines: int
    where: str

    def bounds(self, machine: Machine) -> tuple[float, float]:
        """Seconds for the bytes alone, and for independent lines alone."""
        line = machine.far_at_once if self.where == "far" else machine.near_at_once
        return self.sequential / machine.reading, self.lines * line


def measure(path: Path) -> None:
    machine = _machine()
    print(
        f"reading {machine.reading / 1e9:.1f} GB/s, copying {machine.copying / 1e9:.1f} GB/s; "
        f"a line of 256 MiB after {machine.far * 1e9:.0f} ns, {machine.far_at_once * 1e9:.1f} each "
        f"of many; of 256 KiB after {machine.near * 1e9:.1f}, {machine.near_at_once * 1e9:.1f}; a "
        f"wrong guess {machine.guess * 1e9:.1f} ns\n"
    )
    print("| loop | item | items | ns | for its bytes | for its lines | share | wrong guesses |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for loop in _loops(path):
        streamed, missed = loop.bounds(machine)
        each = 1e9 / loop.items
        print(
            f"| {loop.name} | {loop.item} | {loop.items:,} | {loop.seconds * each:.2f} "
            f"| {streamed * each:.2f} | {missed * each:.2f} ({loop.where}) "
            f"| {(streamed + missed) / loop.seconds:.0%} "
            f"| {(loop.seconds - streamed - missed) / loop.items / machine.guess:.1f} |"
        )


def _least(work: Callable[[], Any], runs: int = _RUNS) -> float:
    """CPU seconds of the fastest run."""
    seconds = []
    for _ in range(runs):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def _machine() -> Machine:
    reading, copying = _streams(np.ones(_LARGE // 8, np.int64))
    (far, far_at_once), (near, near_at_once) = _lines(_LARGE), _lines(_NEAR)
    return Machine(reading, copying, far, near, far_at_once, near_at_once, _guess())


def _streams(numbers: NDArray[np.int64]) -> tuple[float, float]:
    """Bytes per second of reading, and of copying (read and written bytes)."""
    copy = np.zeros_like(numbers)
    _added(numbers[:9])
    reading = numbers.nbytes / _least(lambda: _added(numbers))
    return reading, 2 * numbers.nbytes / _least(lambda: np.copyto(copy, numbers))


def _lines(size: int) -> tuple[float, float]:
    """Seconds per cache line in ``size`` bytes: dependent, and independent."""
    number, steps = size // 64, 1 << 21
    order = np.random.default_rng(1).permutation(number)
    cells = np.zeros(number * 8, np.int64)
    cells[order * 8] = np.roll(order, -1) * 8
    places = np.resize(order * 8, steps)
    _chased(cells, 9)
    _gathered(cells, places[:9])
    return (
        _least(lambda: _chased(cells, steps)) / steps,
        _least(lambda: _gathered(cells, places)) / steps,
    )


def _guess() -> float:
    """Seconds per mispredicted branch: loops of one or two turns, random or regular."""
    number = 1 << 21
    chance = np.random.default_rng(2).integers(1, 3, number)
    regular = np.resize(np.array([1, 2]), number)
    _turned(regular[:9])
    wrong = _least(lambda: _turned(chance)) - _least(lambda: _turned(regular))
    return max(wrong, 0.0) / (number / 2)


@numba.njit
def _added(numbers: NDArray[np.int64]) -> int:
    total = 0
    for number in numbers:
        total += number
    return total


@numba.njit
def _chased(cells: NDArray[np.int64], steps: int) -> int:
    at = 0
    for _ in range(steps):
        at = cells[at]
    return at


@numba.njit
def _gathered(cells: NDArray[np.int64], places: NDArray[np.int64]) -> int:
    total = 0
    for place in places:
        total += cells[place]
    return total


@numba.njit
def _turned(turns: NDArray[np.int64]) -> int:
    state = 1
    for most in turns:
        for _ in range(most):
            state ^= state << 13
            state ^= state >> 7
    return state


def _loops(path: Path) -> Sequence[Loop]:
    from bpeline.tokenizer_core import count_words, train_bpe
    from bpeline.tokenizer_core.counting import WordSum
    from bpeline.tokenizer_core.merging import MergeEngine, byte_words

    content = path.read_bytes()
    specials = [SEPARATOR]
    train_bpe(count_words([__file__], workers=1), 300).encode("some words")

    def counted() -> Any:
        return count_words([path], special_tokens=specials, workers=1)

    counting, counts = _least(counted, 2), counted()
    tokens, words, symbols = counts.total, len(counts), len(counts.word_bytes)
    half = counts.between(0, words // 2)
    parts = [counts, half]  # the second adds no new word

    def combined() -> None:
        sums = WordSum(counts.pattern)
        for part in parts:
            sums.add(part)

    combining, rows = _least(combined, 2), sum(map(len, parts))

    def paired() -> Any:
        return MergeEngine(
            byte_words(counts, "smallest-ids"), tie_break="smallest-ids", min_count=2
        )

    pairing, engines = _least(paired, 2), [paired() for _ in range(2)]
    merging = _least(lambda: engines.pop().learn(_VOCABULARY - 256), 2)

    tokenizer = train_bpe(counts, _VOCABULARY)
    left, _ = tokenizer.encoder.encode_rows(counts.word_bytes, counts.offsets)
    replaced = symbols - len(left)
    text = content[:_TEXT].decode(errors="ignore").encode()
    ids = tokenizer.encode_to_numpy(text)
    encoding, size = _least(lambda: tokenizer.encode_to_numpy(text)), len(text)
    pre_tokens = round(tokens * size / len(content))
    listed = ids.tolist()
    decoding = _least(lambda: tokenizer.decode_bytes(listed))
    read = size + 4 * len(ids)
    return (
        Loop("count words", "pre-token", counting, tokens, len(content), words, "far"),
        Loop("combine", "row", combining, rows, 24 * rows + 2 * symbols, rows, "far"),
        Loop("base pairs", "symbol", pairing, symbols, 5 * symbols, symbols, "near"),
        Loop("merge step", "replaced pair", merging, replaced, 4 * replaced, 3 * replaced, "far"),
        Loop("encode, warm", "pre-token", encoding, pre_tokens, read, pre_tokens, "near"),
        Loop("decode", "id", decoding, len(ids), read + 4 * len(ids), 2 * len(ids), "near"),
    )
