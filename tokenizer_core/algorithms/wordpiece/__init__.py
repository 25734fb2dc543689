"""WordPiece: value, codec, trainer by scores, files, kernels, reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import WordPiece as WordPiece
    from .codec import coders as coders
    from .reference import score_of as score_of
    from .scoring_engine import SCORE_NAMES as SCORE_NAMES
    from .scoring_engine import Score as Score
    from .trainer import WordPieceSettings as WordPieceSettings
    from .trainer import learn_wordpiece as learn_wordpiece
    from .trainer import train_wordpiece as train_wordpiece
    from .trainer import wordpiece_base as wordpiece_base
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
