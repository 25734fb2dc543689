"""Superwords over runs of words: value, codec, passages, trainer, kernel, reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import SuperwordBpe as SuperwordBpe
    from .codec import coders as coders
    from .passage_rows import CutPassages as CutPassages
    from .passage_rows import cut_passages as cut_passages
    from .passages import superword_passages as superword_passages
    from .trainer import passage_tokens as passage_tokens
    from .trainer import superwords_beside as superwords_beside
    from .trainer import train_superword_bpe as train_superword_bpe
    from .trainer import words_beside as words_beside
    from .trainer import words_of_passages as words_of_passages
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
