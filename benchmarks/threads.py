"""Counting and encoding with one thread and with two, on two CPUs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpora import SEPARATOR, warming_file
from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch

ONE, TWO = "one thread", "two threads"
PHASES = ("counting", "encoding", "encoding again")
_SPECIAL = [SEPARATOR]


@contextmanager
def _learned(case: Case) -> Iterator[Mapping[str, Any]]:
    from bpeline import count_words, train_bpe

    counts = count_words([os.fspath(case.path)], special_tokens=_SPECIAL)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        train_bpe(counts, case.vocab_size, special_tokens=_SPECIAL).save(Path(directory, "learned"))
        yield {"tokenizer": os.fspath(Path(directory, "learned"))}


def _by(threads: int) -> Callable[[Case, Stopwatch], list[str]]:
    def run(case: Case, watch: Stopwatch) -> list[str]:
        """Digests of the counts and of the ids, after an untimed warm-up."""
        from bpeline.tokenizer_core.digests import digest_of_bytes

        with warming_file() as warm:
            _all(warm, case, threads, Stopwatch())
        counts, ids = _all(case.path, case, threads, watch)
        return [counts.digest, digest_of_bytes(ids)]

    return run


def _all(path: Path, case: Case, threads: int, watch: Stopwatch) -> Any:
    from bpeline import Tokenizer, count_words

    file = os.fspath(path)
    with watch.phase("counting"):
        counts = count_words([file], special_tokens=_SPECIAL, workers=threads)
    tokenizer = Tokenizer.load(case.prepared["tokenizer"])  # with empty caches
    for phase in ("encoding", "encoding again"):
        with watch.phase(phase):
            encoded = tokenizer.encode_files_to_numpy(path, separator=SEPARATOR, threads=threads)
    return counts, encoded.ids


def _same(_one: Contestant, theirs: Any, found: Mapping[str, Any], _case: Case) -> Verdict:
    equal = theirs == found[ONE]
    return Verdict(equal, "equal" if equal else "differs")


THREADS = Measurement(
    "threads",
    "one thread and two: counting, encoding new and known words",
    (Contestant(ONE, _by(1)), Contestant(TWO, _by(2))),
    _learned,
    _same,
)
