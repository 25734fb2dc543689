"""HuggingFace's pipeline without the model: tokenizer.json and its implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import models as models
    from .added_tokens import AddedToken as AddedToken
    from .added_tokens import AddedTokenMatcher as AddedTokenMatcher
    from .charsmap import SentencePieceText as SentencePieceText
    from .decoder import DecoderSteps as DecoderSteps
    from .normalizer import Normalizer as Normalizer
    from .pipeline import Pipeline as Pipeline
    from .post_processor import PostProcessor as PostProcessor
    from .pre_tokenizer import PRE_TOKENIZERS as PRE_TOKENIZERS
    from .pre_tokenizer import Prefix as Prefix
    from .pre_tokenizer import mark_of_words as mark_of_words
    from .pre_tokenizer import pattern_of_steps as pattern_of_steps
    from .preparation import TextPreparation as TextPreparation
    from .unicode_tables import WHITE_SPACE as WHITE_SPACE
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
