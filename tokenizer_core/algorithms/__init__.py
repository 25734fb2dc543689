"""The algorithms that tokenizers follow: as values, as encoders and decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .assembling import assembled as assembled
    from .kinds import ALGORITHMS as ALGORITHMS
    from .kinds import BYTE_BPE as BYTE_BPE
    from .kinds import Algorithm as Algorithm
    from .kinds import ByteBpe as ByteBpe
    from .kinds import CharacterBpe as CharacterBpe
    from .kinds import FrequencyBpe as FrequencyBpe
    from .kinds import GreedyLongest as GreedyLongest
    from .kinds import Sentences as Sentences
    from .kinds import WordPiece as WordPiece
    from .kinds import algorithm_of as algorithm_of
    from .kinds import described as described
    from .subword_text import SubwordText as SubwordText
    from .word_algorithms import by_rank as by_rank
    from .word_decoder import WordDecoder as WordDecoder
    from .word_decoder import WordStream as WordStream
    from .word_encoder import PlacedIds as PlacedIds
    from .word_encoder import WordEncoder as WordEncoder
    from .word_encoder import longest_prefix_of_words as longest_prefix_of_words
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
