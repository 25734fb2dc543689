"""bpeline as a contestant, and what it learns under the other numbering of bytes."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.documents import SEPARATOR
from benchmarks.stopwatch import Stopwatch

SPECIAL = [SEPARATOR]


def bpeline(path: Path, vocab_size: int, threads: int, watch: Stopwatch) -> list[tuple[bytes, ...]]:
    """The public API with its defaults, and kernels that an earlier run has compiled."""
    from bpeline.tokenizer_core import WordCounts, count_words, train_bpe

    # Machine code is loaded from its cache before the clock starts, as libraries are imported.
    train_bpe(WordCounts.from_mapping({b"warm": 3, b"kernels": 2}), 260)
    count_words([os.fspath(Path(__file__))], special_tokens=SPECIAL)

    with watch.phase("counting"):
        counts = count_words([os.fspath(path)], special_tokens=SPECIAL, workers=threads)
    with watch.phase("merging"):
        tokenizer = train_bpe(counts, vocab_size, special_tokens=SPECIAL)
    return list(tokenizer.merges)


def by_value(path: Path, vocab_size: int) -> list[tuple[bytes, ...]]:
    """Our merges as if the bytes were numbered by value; an oracle, never timed.

    Our ``smallest-ids`` gives byte b the id of its printable character. Words in which each byte
    is replaced by the one whose id is its value are therefore merged in the order we want.
    """
    import numpy as np

    from bpeline.tokenizer_core import WordCounts, count_words, train_bpe
    from bpeline.tokenizer_core.vocabulary.numbering import byte_order

    order = np.array(byte_order("smallest-ids"), np.uint8)
    counts = count_words([os.fspath(path)], special_tokens=SPECIAL)
    disguised = WordCounts(
        order[counts.word_bytes], counts.offsets, counts.counts, counts.first_positions
    )
    back = bytes(np.argsort(order).astype(np.uint8))
    merges = train_bpe(disguised, vocab_size - len(SPECIAL)).merges
    return [(left.translate(back), right.translate(back)) for left, right in merges]
