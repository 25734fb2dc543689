"""Merge engines, checkpoints and the learning loop of all merging algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .checkpoint import Checkpoint as Checkpoint
    from .checkpoint import OnProgress as OnProgress
    from .checkpoint import Reporter as Reporter
    from .checkpoint import TrainingProgress as TrainingProgress
    from .checkpoint import load_checkpoint as load_checkpoint
    from .learning import END_OF_WORD as END_OF_WORD
    from .learning import MERGES_PER_CHECKPOINT as MERGES_PER_CHECKPOINT
    from .learning import NOTHING as NOTHING
    from .learning import CharacterSettings as CharacterSettings
    from .learning import CharacterWords as CharacterWords
    from .learning import CheckpointPolicy as CheckpointPolicy
    from .learning import LearnedMerges as LearnedMerges
    from .learning import PrunedWords as PrunedWords
    from .learning import learn_characters as learn_characters
    from .learning import learn_with as learn_with
    from .learning import numbered as numbered
    from .learning import pairs_of_texts as pairs_of_texts
    from .learning import prune as prune
    from .learning import validate_options as validate_options
    from .learning import words_that_go_on as words_that_go_on
    from .learning import words_with_ends as words_with_ends
    from .merge_engine import MergeEngine as MergeEngine
    from .merge_engine import SymbolWords as SymbolWords
    from .merge_engine import byte_words as byte_words
    from .merge_engine import grown as grown
    from .parity_engine import ParityEngine as ParityEngine
    from .parity_engine import ParityRule as ParityRule
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
