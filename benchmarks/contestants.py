"""The trainers that are measured; each turns a file into merges with its own best settings.

A peer is imported inside its function, so that one process measures one library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class Training:
    """What one trainer did: its merges in order and the seconds of each phase it can tell apart."""

    merges: list[tuple[bytes, bytes]]
    phases: dict[str, float]


def bpeline(path: Path, vocab_size: int) -> Training:
    from tokenizer_core import WordCounts, count_words, train_bpe

    # Compiled kernels are loaded from their cache before the clock starts, as in any second run.
    train_bpe(WordCounts.from_mapping({b"warm": 3, b"kernels": 2}), 260)
    count_words([str(Path(__file__))], pattern="gpt2", special_tokens=[SEPARATOR])

    start = time.perf_counter()
    counts = count_words([str(path)], pattern="gpt2", special_tokens=[SEPARATOR])
    counted = time.perf_counter()
    tokenizer = train_bpe(counts, vocab_size, special_tokens=[SEPARATOR])
    end = time.perf_counter()
    return Training(tokenizer.merges, {"counting": counted - start, "merging": end - counted})


def huggingface(path: Path, vocab_size: int) -> Training:
    import json

    from tokenizer_core.vocabulary import bytes_of_printable
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
    start = time.perf_counter()
    tokenizer.train_from_iterator(documents(path), trainer=trainer)
    seconds = time.perf_counter() - start
    merges = [
        (bytes_of_printable(left), bytes_of_printable(right))
        for left, right in json.loads(tokenizer.to_str())["model"]["merges"]
    ]
    return Training(merges, {"all": seconds})


def documents(path: Path) -> Iterator[str]:
    """Documents of a text file, read piece by piece: peers get an iterator, not the whole file."""
    pending = ""
    with path.open(encoding="utf-8", newline="") as file:
        while piece := file.read(1 << 20):
            *complete, pending = (pending + piece).split(SEPARATOR)
            yield from complete
    yield pending


CONTESTANTS: dict[str, Callable[[Path, int], Training]] = {
    "bpeline": bpeline,
    "huggingface": huggingface,
}
