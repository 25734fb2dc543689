"""BPE over characters as in Llama 2, Mistral and Gemma: value, codec, encoder, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import SentencePieceBpe as SentencePieceBpe
    from .codec import coders as coders
    from .encoder import WHOLE_TEXT as WHOLE_TEXT
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
