"""Algorithms other than byte-level BPE, with their file formats and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .byte_pair_compression import CompressionStep as CompressionStep
    from .byte_pair_compression import compress as compress
    from .byte_pair_compression import compression_lines as compression_lines
    from .byte_pair_compression import compression_steps as compression_steps
    from .byte_pair_compression import expand as expand
    from .character_bpe import CharacterBpe as CharacterBpe
    from .character_bpe import character_base as character_base
    from .character_bpe import train_char_bpe as train_char_bpe
    from .character_bpe_text import SubwordText as SubwordText
    from .frequency_bpe import FrequencyBpe as FrequencyBpe
    from .frequency_bpe import frequency_base as frequency_base
    from .frequency_bpe import train_frequency_bpe as train_frequency_bpe
    from .greedy import GreedyLongest as GreedyLongest
    from .greedy import greedy_longest as greedy_longest
    from .sentencepiece_bpe import SentencePieceBpe as SentencePieceBpe
    from .sentencepiece_bpe_encoder import WHOLE_TEXT as WHOLE_TEXT
    from .visible_training import VisibleStep as VisibleStep
    from .visible_training import lines_of as lines_of
    from .visible_training import steps_of as steps_of
    from .wordpiece import WordPiece as WordPiece
    from .wordpiece import WordPieceSettings as WordPieceSettings
    from .wordpiece import train_wordpiece as train_wordpiece
    from .wordpiece import wordpiece_base as wordpiece_base
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
