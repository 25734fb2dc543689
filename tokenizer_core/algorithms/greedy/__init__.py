"""Greedy encoding by the longest tokens: value, codec, order of tokens, kernel, reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import GreedyLongest as GreedyLongest
    from .codec import coders as coders
    from .trainer import greedy_longest as greedy_longest
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
