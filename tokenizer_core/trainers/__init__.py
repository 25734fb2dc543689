"""Trainers: word counts in, merges out; one file per algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import bpe as bpe
    from . import characters as characters
    from .bpe import given_for as given_for
    from .bpe import train_bpe as train_bpe
    from .characters import END_OF_WORD as END_OF_WORD
    from .characters import CharacterSettings as CharacterSettings
    from .characters import WordPieceSettings as WordPieceSettings
    from .characters import character_base as character_base
    from .characters import frequency_base as frequency_base
    from .characters import greedy_longest as greedy_longest
    from .characters import train_char_bpe as train_char_bpe
    from .characters import train_frequency_bpe as train_frequency_bpe
    from .characters import train_wordpiece as train_wordpiece
    from .characters import wordpiece_base as wordpiece_base
    from .checkpoint import load_checkpoint as load_checkpoint
    from .extension import ExtensionCertificate as ExtensionCertificate
    from .extension import certify_extension as certify_extension
    from .extension import extended as extended
    from .extension import merges_to_continue as merges_to_continue
    from .learning import NOTHING as NOTHING
    from .learning import PrunedWords as PrunedWords
    from .learning import prune as prune
    from .merge_engine import MergeEngine as MergeEngine
    from .merge_engine import SymbolWords as SymbolWords
    from .progress import TrainingProgress as TrainingProgress
    from .visible import lines_of as lines_of
    from .visible import steps_of as steps_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
