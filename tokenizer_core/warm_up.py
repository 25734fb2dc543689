"""Every kernel compiled before it is needed: one function for each kind of work, one list of them.

The machine code goes where `kernels.compiling.compilation` keeps it, so later processes load it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import bpeline
from bpeline.tokenizer_core.errors import BpelineError

# What is done with a small text calls all kernels of a room, in all the ways in which they are
# called. Rooms with new kernels add a function here; a test finds kernels that none of them calls.


def _count(pattern: str) -> None:
    from bpeline.tokenizer_core.counting import compile_counting
    from bpeline.tokenizer_core.splitting import SplitPattern

    compile_counting(SplitPattern.parse(pattern))


def _leave_out() -> None:
    from bpeline.tokenizer_core.corpus import LeftOut
    from bpeline.tokenizer_core.text import Text

    passage = bytes(range(64))
    LeftOut.of([passage]).spans_in(Text.of(passage))


def _learn() -> None:
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.training import train_bpe

    counts = WordCounts.from_mapping({b"low": 5, b"lower": 2, b"newest": 6, b"aaaa": 3})
    for tie_break in ("smallest-ids", "greatest-bytes", "first-seen"):
        tokenizer = train_bpe(counts, 262, tie_break=tie_break)
    train_bpe(counts, 264, required_tokens=["lowest"])
    _ = tokenizer.digest


def _encode() -> None:
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.encoding import SHORT_TEXT, WordCache, derive_merges
    from bpeline.tokenizer_core.kernels.encoding.measure_text import SUMS, measure_spans
    from bpeline.tokenizer_core.tokenizer import Tokenizer
    from bpeline.tokenizer_core.vocabulary import find_merges

    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b" ab"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b")], ignore_merges=True)
    text = "ab abab lower " * (1 + SHORT_TEXT // 14)
    tokenizer.encode("ab")
    ids = tokenizer.encode(text)
    tokenizer.encode_batch(["ab", text])
    tokenizer.encode_with_offsets("ab")
    tokenizer.decode(ids)
    tokenizer.decode(np.array(ids, np.uint32))
    tokenizer.merge_gains(WordCounts.from_mapping({b"abab": 2}))
    derive_merges(np.arange(256), {256: b"ab"})
    WordCache(256).enlarged(512)
    find_merges(vocab, b"ab", np.ones(2, np.int64))
    measure_spans(np.zeros(64, np.uint8), np.zeros((1, 2), np.int64), np.zeros(SUMS, np.int64))


def _characters() -> None:
    from bpeline.tokenizer_core import algorithms
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.splitting import SplitPattern
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    # An alphabet larger than bytes: its pairs are counted in another table.
    letters = "".join(map(chr, range(0x4E00, 0x4F00))).encode()
    words = {b"low": 5, b"lower": 2, b"newest": 6, b"aaaa": 3, letters: 1}
    counts = WordCounts.from_mapping(words, SplitPattern.named("whitespace"))
    text = "lower " * 40 + "low" * 40
    for joined in (False, True):
        merged = algorithms.train_char_bpe(counts, 10, joined=joined, tie_break="greatest-bytes")
        merged.encode(text)
    algorithms.SubwordText(merged).apply(text)
    algorithms.SubwordText(merged).apply(text, dropout=0.5, seed=1)
    for score in ("ratio", "gain"):
        algorithms.train_wordpiece(counts, 300, score=score).encode(text)
    algorithms.train_frequency_bpe(counts, 10, sentences="lines").encode(text)
    tokens = {0: b"</u>", 1: b"low", 2: b"er</w>"}
    Tokenizer(tokens, [], pattern="whitespace", algorithm=algorithms.GreedyLongest()).encode(text)


def _compress() -> None:
    from bpeline.tokenizer_core.algorithms import compress, expand

    expand(compress(b"ABABCABCD" * 2))


# The longest first, so that processes that share the work end at about the same time.
WARM_UPS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("encoding and decoding", _encode),
    ("leaving out evaluation texts", _leave_out),
    ("learning merges", _learn),
    ("algorithms over characters", _characters),
    ("counting, gpt2", lambda: _count("gpt2")),
    ("counting, cl100k and its kin", lambda: _count("cl100k")),
    ("counting, o200k and its kin", lambda: _count("o200k")),
    ("counting, other patterns", lambda: _count("starcoder")),
    ("compression", _compress),
)

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from bpeline.tokenizer_core.warm_up import warm_up
warm_up(sys.argv[2])
"""


def warm_up(name: str) -> None:
    """Compile, or load, the kernels of one of `WARM_UPS` in this process."""
    dict(WARM_UPS)[name]()


def compile_all() -> Iterator[tuple[str, float]]:
    """Compile every kernel that is not compiled yet, in processes beside this one.

    The compiler works in one thread at a time, so two processes share the work.

    Yields:
        Each name of `WARM_UPS` and the seconds it took, as they end.

    Raises:
        BpelineError: a process failed.
    """
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(_in_a_process, name) for name, _ in WARM_UPS]
        for done in as_completed(running):
            yield done.result()


def _in_a_process(name: str) -> tuple[str, float]:
    root = str(Path(bpeline.__file__).parents[1])
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, root, name], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise BpelineError(
            f"the kernels of {name!r} cannot be compiled: {ended.stderr.strip()[-400:]}",
            "the versions of numba and llvmlite in constraints.txt",
            "bpeline doctor",
        )
    return name, time.monotonic() - began
