"""Combines counts of more distinct words than fit here, from generated shards.

Each shard stands for a chunk of 64 MiB. Word numbers follow Zipf's law (P(number ≥ x) = x^-0.07).
The most frequent ones are the words of a file; rarer ones have the length and beginning of one of
them and a unique ending. 200 shards of 270,000 to 440,000 rows hold 50 million distinct words.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import SEPARATOR
from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch, memory

_SHARDS = 200
_FEWEST, _MOST = 550_000, 950_000  # occurrences in a shard
_TAIL = 0.07  # Zipf's exponent less 1
_CHUNK = 64 << 20  # bytes of text that a shard stands for
_ENDING, _BITS = 8, 6  # digits in the endings of rare words, and bits of each
_DIGIT = 0xC0  # UTF-8 never ends with such a byte, so no word of the file does
_READING = "0" * 64
_PARTS = 16  # parts of the numbers, sorted separately
_ROWS = 1 << 20  # words per batch


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words by number: those of a file by rank, then generated ones."""

    word_bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def numbers(self, shard: int) -> tuple[NDArray[np.int64], ...]:
        """Numbers of the distinct words of a shard, their counts and first positions."""
        chance = np.random.default_rng(shard)
        occurrences = int(chance.integers(_FEWEST, _MOST))
        ranks = np.floor((1 - chance.random(occurrences)) ** (-1 / _TAIL))
        mixed = ranks.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        rare = (mixed >> np.uint64(64 - _ENDING * _BITS)).astype(np.int64) + len(self)
        is_word_of_file = ranks <= len(self)
        numbers = np.where(
            is_word_of_file, np.where(is_word_of_file, ranks, 1).astype(np.int64) - 1, rare
        )
        words, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        order = np.argsort(first)
        return words[order], counts[order].astype(np.int64), first[order] * (_CHUNK // occurrences)

    def spelled(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The joined bytes of words, and int64 offsets ``[n + 1]``."""
        rows = numbers % len(self)
        rare = numbers >= len(self)
        whole = self.offsets[rows + 1] - self.offsets[rows]
        stems = np.where(rare, np.maximum(whole - _ENDING, 0), whole)
        ends = np.cumsum(stems + _ENDING * rare)
        offsets = np.concatenate((np.zeros(1, np.int64), ends))
        spelled = np.empty(int(offsets[-1]), np.uint8)
        inside = np.arange(int(stems.sum())) - np.repeat(np.cumsum(stems) - stems, stems)
        stem_bytes = self.word_bytes[inside + np.repeat(self.offsets[rows], stems)]
        spelled[inside + np.repeat(offsets[:-1], stems)] = stem_bytes
        digits = (numbers[rare] - len(self))[:, None] >> np.arange(0, _ENDING * _BITS, _BITS)
        places = ends[rare][:, None] - 1 - np.arange(_ENDING)
        spelled[places] = (digits & ((1 << _BITS) - 1)) + _DIGIT
        return spelled, offsets


@contextmanager
def _made(case: Case) -> Iterator[Mapping[str, Any]]:
    """A workspace with the shards, and their vocabulary."""
    from bpeline.registry.word_counts import ShardFiles
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core import WordCounts, count_words

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        counts = count_words([case.path], special_tokens=[SEPARATOR], workers=case.threads)
        ranked = counts.take(np.argsort(-counts.counts, kind="stable"))
        vocabulary = Vocabulary(ranked.word_bytes, ranked.offsets)
        np.savez(Path(directory, "words.npz"), word_bytes=ranked.word_bytes, offsets=ranked.offsets)
        files = ShardFiles(Workspace.open(Path(directory, "workspace")))
        rows = 0
        for shard in range(_SHARDS):
            numbers, occurrences, positions = vocabulary.numbers(shard)
            words = WordCounts(*vocabulary.spelled(numbers), occurrences, positions, counts.pattern)
            files.write([_as_chunk(shard, words)], _READING)
            rows += len(words)
        yield {
            "directory": directory,
            "shards": _SHARDS,
            "facts": {"shards": _SHARDS, "rows": rows},
        }


def _as_chunk(shard: int, counts: Any) -> Any:
    from bpeline.tokenizer_core.corpus import Chunk, SourceFile
    from bpeline.tokenizer_core.counting import ChunkCounts

    file = SourceFile("/made.txt", "made", "text", None, 1, 2, 3, 4)
    chunk = Chunk(file, shard, 0, _CHUNK, _digest(shard))
    return ChunkCounts(chunk, counts, [], 1, counts.total_bytes, 0, 0)


def _digest(shard: int) -> str:
    return hashlib.sha256(str(shard).encode()).hexdigest()


def _by_the_step(case: Case, watch: Stopwatch) -> Any:
    """The step "combine counts" of `bpeline train`."""
    from bpeline.flows.counting.combining import combine_counts
    from bpeline.flows.counting.word_counting import CountedCorpus
    from bpeline.flows.requests import TrainingRequest
    from bpeline.registry.catalogue import ChunkRecord, FileReading
    from bpeline.registry.opening import open_registry
    from bpeline.registry.word_counts import WordCountStore, shard_key

    shards = range(case.prepared["shards"])
    chunks = tuple(
        ChunkRecord(_digest(shard), shard * _CHUNK, (shard + 1) * _CHUNK, shard) for shard in shards
    )
    reading = FileReading("/made.txt", 1, 2, 3, 4, _CHUNK, _READING, chunks)
    keys = tuple(shard_key(_digest(shard), _READING) for shard in shards)
    corpus = CountedCorpus((reading,), 0, 0, (keys,))
    request = TrainingRequest.checked(name="made", paths=["/made.txt"], workers=case.threads)
    registry = open_registry(Path(case.prepared["directory"], "workspace"))
    run = registry.catalogue.start_run(request.name, request.as_config())
    with watch.phase():
        words = combine_counts(corpus, request, registry, run.id)
    _note_peak(watch)
    registry.catalogue.close()
    return _found(WordCountStore(registry.workspace), words.table)


def _note_peak(watch: Stopwatch) -> None:
    watch.more["peak_megabytes"] = memory("VmHWM")


def _found(store: Any, table: Any) -> Any:
    """Content of the table, read back, and files left behind; deletes the table."""
    from bpeline.registry.word_counts import evict

    evict()
    counts = store.open_table(replace(table, reused=True))
    left = [path.name for path in store.workspace.temporary.iterdir()]
    store.forget_table(table.key)
    return [len(counts), counts.total, counts.digest, left]


def _by_sorting(case: Case, watch: Stopwatch) -> Any:
    """The same sums by sorting word numbers with NumPy."""
    with np.load(Path(case.prepared["directory"], "words.npz")) as arrays:
        vocabulary = Vocabulary(arrays["word_bytes"], arrays["offsets"])
    with watch.phase():
        rows = _sorted_sums(vocabulary, case.prepared["shards"])
        return _digested(vocabulary, *rows)


def _sorted_sums(vocabulary: Vocabulary, shards: int) -> tuple[NDArray[np.int64], ...]:
    parts: list[list[Any]] = [[] for _ in range(_PARTS)]
    for shard in range(shards):
        numbers, counts, positions = vocabulary.numbers(shard)
        rows = np.stack((numbers, counts, positions + shard * _CHUNK))
        for part, rows_of_part in enumerate(parts):
            rows_of_part.append(rows[:, numbers % _PARTS == part])
    summed = []
    while parts:
        rows = np.concatenate(parts.pop(), axis=1)
        rows = rows[:, np.argsort(rows[0], kind="stable")]  # stable: first position first
        begins = np.flatnonzero(np.diff(rows[0], prepend=-1))
        summed.append(
            np.stack((rows[0][begins], np.add.reduceat(rows[1], begins), rows[2][begins]))
        )
        del rows
    whole = np.concatenate(summed, axis=1)
    order = np.argsort(whole[2])
    return whole[0][order], whole[1][order]


def _digested(vocabulary: Vocabulary, numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> Any:
    """Rows, total count and `WordCounts.digest`, in batches of words."""
    from bpeline.tokenizer_core.digests import canonical_json
    from bpeline.tokenizer_core.splitting import SplitPattern

    head = {"words": len(numbers), "pattern": SplitPattern.named("gpt2").digest, "format": 2}
    state, offsets = hashlib.sha256(canonical_json(head)), np.zeros(len(numbers) + 1, np.int64)
    for begin in range(0, len(numbers), _ROWS):
        spelled, ends = vocabulary.spelled(numbers[begin : begin + _ROWS])
        offsets[begin + 1 : begin + len(ends)] = ends[1:] + offsets[begin]
        state.update(spelled)
    state.update(offsets)
    state.update(np.ascontiguousarray(counts))
    return [len(numbers), int(counts.sum()), state.hexdigest(), []]


def _of(shards: int, run: Callable[[Case, Stopwatch], Any]) -> Callable[[Case, Stopwatch], Any]:
    def of_them(case: Case, watch: Stopwatch) -> Any:
        return run(replace(case, prepared={**case.prepared, "shards": shards}), watch)

    return of_them


def _sums_equal(_one: Contestant, theirs: Any, found: Mapping[str, Any], _case: Case) -> Verdict:
    sorted_sums = [found[name] for name in found if name.startswith(_SORTED)]
    equal = theirs in sorted_sums
    return Verdict(equal, f"{theirs[0]:,} words, equal" if equal else "differs")


_SORTED = "sorted numbers"
COMBINING = Measurement(
    "combining",
    "combining 50 million distinct words of 200 shards generated from a file; needs 12 GB in "
    "TMPDIR",
    (
        Contestant("step of 200", _of(200, _by_the_step)),
        Contestant(f"{_SORTED} of 200", _of(200, _by_sorting)),
        Contestant("step of 40", _of(40, _by_the_step)),
        Contestant(f"{_SORTED} of 40", _of(40, _by_sorting)),
    ),
    _made,
    _sums_equal,
    packages=("duckdb", "pyarrow"),
)
