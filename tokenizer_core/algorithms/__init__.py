"""The algorithms that tokenizers follow: as values, as encoders and decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .assembling import assembled as assembled
    from .word_algorithms import WordAlgorithm as WordAlgorithm
    from .word_algorithms import by_rank as by_rank
    from .word_algorithms import with_dropout as with_dropout
    from .word_decoder import WordDecoder as WordDecoder
    from .word_decoder import WordStream as WordStream
    from .word_encoder import NumberedWords as NumberedWords
    from .word_encoder import PlacedIds as PlacedIds
    from .word_encoder import WordEncoder as WordEncoder
    from .word_encoder import longest_prefix_of_words as longest_prefix_of_words
    from .word_encoder import number_marked as number_marked
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
