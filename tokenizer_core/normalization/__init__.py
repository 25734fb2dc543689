"""Normalizers: what happens to a text before it is cut, as other libraries' files say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .charsmap import SentencePieceText as SentencePieceText
    from .normalizers import Normalizer as Normalizer
    from .steps import ReplaceRegex as ReplaceRegex
    from .unicode_tables import WHITE_SPACE as WHITE_SPACE
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
