"""From what people type to a tokenizer in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .load import load_tokenizer as load_tokenizer
    from .load import load_version as load_version
    from .resolution import ResolvedVersion as ResolvedVersion
    from .resolution import StaleAlias as StaleAlias
    from .resolution import resolve as resolve
    from .resolved import forget_resolved as forget_resolved
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
