"""Frequency BPE: value, codec, trainer, files, sentence marks, reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import FrequencyBpe as FrequencyBpe
    from .codec import coders as coders
    from .trainer import frequency_base as frequency_base
    from .trainer import train_frequency_bpe as train_frequency_bpe
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
