"""Core library: count words, learn merges, encode and decode.

Names are imported at first use, so importing this package does not load Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .algorithms import train_char_bpe as train_char_bpe
    from .algorithms import train_frequency_bpe as train_frequency_bpe
    from .algorithms import train_wordpiece as train_wordpiece
    from .counting import WordCounts as WordCounts
    from .counting import count_texts as count_texts
    from .counting import count_words as count_words
    from .evaluation import evaluate as evaluate
    from .merging import ParityRule as ParityRule
    from .shards import TokenShards as TokenShards
    from .splitting import SplitPattern as SplitPattern
    from .tokenizer import Tokenizer as Tokenizer
    from .training import superword_lines as superword_lines
    from .training import train_bpe as train_bpe
    from .training import train_from_iterator as train_from_iterator
    from .training import train_parity_bpe as train_parity_bpe
    from .training import train_superbpe as train_superbpe
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
