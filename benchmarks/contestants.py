"""Who is measured: every trainer, what it promises to learn, and what it does differently."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks import byte_level_peers, character_level_peers, ours
from benchmarks.stopwatch import Stopwatch

# A merge is its (left, right) bytes; a trainer that tells its tokens only gives (token,).
Merge = tuple[bytes, ...]
Train = Callable[[Path, int, int, Stopwatch], list[Merge]]

# How ties between equally frequent pairs are broken, which decides what a trainer must learn:
# by the smallest ids, the bytes numbered as GPT-2 prints them (`printable`) or by value (`value`).
Promise = Literal["printable", "value", "other"]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One trainer.

    Attributes:
        name: as the tables show it.
        package: the distribution to install; None for ourselves.
        module: what is imported.
        train: (file, vocabulary size with one special token, threads, stopwatch) → merges.
        promise: what its merges must equal.
        caveat: what a reader must know before comparing.
    """

    name: str
    package: str | None
    module: str
    train: Train
    promise: Promise
    caveat: str = ""

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


_VALUE = "bytes are numbered by value, so ties fall otherwise than in HuggingFace; "
_TOKENS = "tokens are compared, since pairs are not told"
_CHARACTERS = "characters instead of bytes, words cut at spaces: another vocabulary, by design"

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("bpeline", None, "bpeline", ours.bpeline, "printable"),
        Contestant(
            "gigatoken",
            "gigatoken",
            "gigatoken",
            byte_level_peers.gigatoken,
            "printable",
            "run with its HuggingFace tie-breaking (its two others learn other merges); "
            "maps the file into memory, so the file's pages count as memory",
        ),
        Contestant(
            "rustbpe", "rustbpe", "rustbpe", byte_level_peers.rustbpe, "value", _VALUE + _TOKENS
        ),
        Contestant(
            "uni-tokenizer",
            "uni-tokenizer",
            "uni_tokenizer",
            byte_level_peers.uni_tokenizer,
            "printable",
            "run with its byte-level alphabet and smallest-pair tie-breaking",
        ),
        Contestant(
            "bpeasy", "bpeasy", "bpeasy", byte_level_peers.bpeasy, "value", _VALUE + _TOKENS
        ),
        Contestant(
            "HuggingFace", "tokenizers", "tokenizers", byte_level_peers.huggingface, "printable"
        ),
        Contestant(
            "SentencePiece",
            "sentencepiece",
            "sentencepiece",
            character_level_peers.sentencepiece,
            "other",
            _CHARACTERS,
        ),
        Contestant(
            "youtokentome",
            "youtokentome",
            "youtokentome",
            character_level_peers.youtokentome,
            "other",
            _CHARACTERS,
        ),
    )
}
