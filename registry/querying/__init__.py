"""SQL over the versions of a workspace and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .answers import Answer as Answer
    from .answers import querying as querying
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
