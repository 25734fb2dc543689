"""How sizes, numbers, tables and tokens are written for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .cost_tables import language_costs as language_costs
    from .cost_tables import unmeasured as unmeasured
    from .numbers import SHOWN_CONFIDENCE as SHOWN_CONFIDENCE
    from .numbers import counted as counted
    from .numbers import from_here as from_here
    from .numbers import left_out_text as left_out_text
    from .numbers import megabytes as megabytes
    from .numbers import number_text as number_text
    from .numbers import program as program
    from .special_tokens import FOUND_IN_TEXTS as FOUND_IN_TEXTS
    from .special_tokens import separated_at as separated_at
    from .special_tokens import unknown_special as unknown_special
    from .tables import statistics_table as statistics_table
    from .tokens import ids_text as ids_text
    from .tokens import token_text as token_text
    from .tokens import tokens_text as tokens_text
    from .typed_commands import as_typed as as_typed
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
