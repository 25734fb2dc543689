"""Character BPE (Sennrich et al. 2016): value, codec, trainer, files, subword text, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import CharacterBpe as CharacterBpe
    from .codec import coders as coders
    from .subword_text import SubwordText as SubwordText
    from .trainer import character_base as character_base
    from .trainer import train_char_bpe as train_char_bpe
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
