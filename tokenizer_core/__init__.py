"""The tokenizer and nothing else: count words, learn merges, encode and decode.

Names are imported when they are first used, so that ``import tokenizer_core`` loads no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizer_core.counting.count_corpus import count_words
    from tokenizer_core.counting.word_counts import WordCounts
    from tokenizer_core.splitting.split_patterns import SplitPattern
    from tokenizer_core.tokenizer import Tokenizer
    from tokenizer_core.trainers.bpe import train_bpe
    from tokenizer_core.trainers.characters import (
        train_char_bpe,
        train_frequency_bpe,
        train_wordpiece,
    )

_HOMES = {
    "SplitPattern": "tokenizer_core.splitting.split_patterns",
    "WordCounts": "tokenizer_core.counting.word_counts",
    "count_words": "tokenizer_core.counting.count_corpus",
    "train_bpe": "tokenizer_core.trainers.bpe",
    "train_char_bpe": "tokenizer_core.trainers.characters",
    "train_wordpiece": "tokenizer_core.trainers.characters",
    "train_frequency_bpe": "tokenizer_core.trainers.characters",
    "Tokenizer": "tokenizer_core.tokenizer",
}

__all__ = [
    "SplitPattern",
    "WordCounts",
    "count_words",
    "train_bpe",
    "train_char_bpe",
    "train_wordpiece",
    "train_frequency_bpe",
    "Tokenizer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
