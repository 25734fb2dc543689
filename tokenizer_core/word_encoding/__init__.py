"""Word-by-word encoding for algorithms over characters: each distinct word once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .word_algorithm import LEFTMOST as LEFTMOST
    from .word_algorithm import RETRAIN as RETRAIN
    from .word_algorithm import Pieces as Pieces
    from .word_algorithm import WordAlgorithm as WordAlgorithm
    from .word_algorithm import WordDecoder as WordDecoder
    from .word_algorithm import alphabet_rows as alphabet_rows
    from .word_algorithm import by_rank as by_rank
    from .word_algorithm import characters_of as characters_of
    from .word_algorithm import merged_rows as merged_rows
    from .word_algorithm import spelled_tokens as spelled_tokens
    from .word_algorithm import spellings_of as spellings_of
    from .word_algorithm import symbol_table as symbol_table
    from .word_algorithm import trie_rows as trie_rows
    from .word_algorithm import without_ends as without_ends
    from .word_encoder import Decide as Decide
    from .word_encoder import Decision as Decision
    from .word_encoder import ExplainedWord as ExplainedWord
    from .word_encoder import NumberedWords as NumberedWords
    from .word_encoder import SentenceMarks as SentenceMarks
    from .word_encoder import WordCoders as WordCoders
    from .word_encoder import WordEncoder as WordEncoder
    from .word_encoder import coders_of_words as coders_of_words
    from .word_encoder import explain_words as explain_words
    from .word_encoder import longest_prefix_of_words as longest_prefix_of_words
    from .word_encoder import merge_tree as merge_tree
    from .word_encoder import number_marked as number_marked
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
