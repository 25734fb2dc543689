"""Peers that learn byte-level merges over the GPT-2 pattern, each with its own best settings.

A peer is imported inside its function, so that one process measures one library.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.captured_output import captured_errors
from benchmarks.documents import GPT2, SEPARATOR, batches, documents
from benchmarks.stopwatch import WHOLE, Stopwatch

_BYTES = 256
_SPECIALS = 1  # rustbpe and bpeasy know none: their vocabulary is smaller by one


def gigatoken(
    path: Path, vocab_size: int, _threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    library: Any = import_module("gigatoken")

    source = library.TextFileSource([path], separator=SEPARATOR.encode())
    begin = time.perf_counter()
    with captured_errors() as said, watch.phase():
        _, merges = library.train_bpe(source, vocab_size, [SEPARATOR], tie_breaking="huggingface")
    if took := re.search(r"Pretokenization took ([\d.]+)(ms|s)", said()):
        counted = begin + float(took[1]) / (1000 if took[2] == "ms" else 1)
        ends = {"counting": counted, "merging": counted}
        watch.split(ends, begin, begin + watch.phases[WHOLE])
    return list(merges)


def rustbpe(
    path: Path, vocab_size: int, _threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    library: Any = import_module("rustbpe")

    reached = _Milestones(
        {
            "Processed": "counting",
            "Building heap": "pairs",
            "Finished training": "merging",
        }
    )
    logging.getLogger("rustbpe").addHandler(reached)
    logging.getLogger("rustbpe").setLevel(logging.INFO)
    tokenizer = library.Tokenizer()
    begin = time.perf_counter()
    with watch.phase():
        tokenizer.train_from_iterator(documents(path), vocab_size - _SPECIALS, pattern=GPT2)
    if reached.times:
        watch.split(reached.times, begin, begin + watch.phases[WHOLE])
    ranks = sorted(tokenizer.get_mergeable_ranks(), key=lambda item: item[1])
    return [(bytes(token),) for token, _ in ranks[_BYTES:]]


def uni_tokenizer(
    path: Path, vocab_size: int, _threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    library: Any = import_module("uni_tokenizer")

    with watch.phase("counting"):
        counter = library.PreTokenizer([SEPARATOR]).word_counter()
        counter.add_source(documents(path))
    with watch.phase("merging"):
        trainer = library.BpeTrainer(
            [SEPARATOR],
            unit="byte",
            initial_alphabet="byte_level",
            tie_break="smallest_pair_id",
            bigram_cutoff_freq=2,
        )
        trainer.add_word_counter(counter)
        trainer.train(vocab_size)
    with tempfile.TemporaryDirectory() as directory:
        saved = Path(directory, "merges.txt")
        trainer.save_files(Path(directory, "vocab.json"), saved, format="gpt2")
        lines = saved.read_text(encoding="utf-8").split("\n")
    # A line is `left right => count`.
    return _from_printable([line.split(" ")[:2] for line in lines if _is_merge(line)])


def bpeasy(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[tuple[bytes, ...]]:
    library: Any = import_module("bpeasy")

    no_limit = 1 << 30
    with watch.phase():
        vocab = library.train_bpe(documents(path), GPT2, no_limit, vocab_size - _SPECIALS)
    return [(token,) for token, _ in sorted(vocab.items(), key=lambda item: item[1])[_BYTES:]]


def huggingface(
    path: Path, vocab_size: int, _threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with watch.phase():
        tokenizer.train_from_iterator(batches(path), trainer=trainer)
    return _from_printable(json.loads(tokenizer.to_str())["model"]["merges"])


class _Milestones(logging.Handler):
    """When the log said that something was reached: the only door into some trainers' phases."""

    def __init__(self, phases: dict[str, str]) -> None:
        super().__init__()
        self._phases = phases
        self.times: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        for opening, phase in self._phases.items():
            if message.startswith(opening):
                self.times[phase] = time.perf_counter()


def _is_merge(line: str) -> bool:
    return bool(line) and not line.startswith("#version")


def _from_printable(merges: list[list[str]]) -> list[tuple[bytes, ...]]:
    from bpeline.tokenizer_core.vocabulary.numbering import from_printable

    read: Callable[[str], bytes] = from_printable
    return [tuple(read(token) for token in merge) for merge in merges]
