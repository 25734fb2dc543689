"""Learning merges and tokens from word counts, with checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .algorithms import Learned as Learned
    from .algorithms import keep_words as keep_words
    from .algorithms import kept_merges as kept_merges
    from .algorithms import learn as learn
    from .algorithms import learn_unwatched as learn_unwatched
    from .algorithms import learned_from as learned_from
    from .merges import initial_merges as initial_merges
    from .merges import learn_merges as learn_merges
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
