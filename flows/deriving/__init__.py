"""Derived versions: extended, continued by superwords, pruned, renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .continuation import across_spaces as across_spaces
    from .continuation import extension_parameters as extension_parameters
    from .continuation import recipe_of as recipe_of
    from .continuation import superword_parameters as superword_parameters
    from .pruning import prune as prune
    from .renaming import names_of as names_of
    from .renaming import rename as rename
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
