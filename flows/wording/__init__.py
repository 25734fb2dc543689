"""Text forms of sizes, numbers, tables, tokens and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .comparison import SLICE_TITLES as SLICE_TITLES
    from .comparison import compared_metrics as compared_metrics
    from .comparison import comparison_json as comparison_json
    from .comparison import comparison_lines as comparison_lines
    from .comparison import comparison_markdown as comparison_markdown
    from .comparison import facts as facts
    from .comparison import slice_rows as slice_rows
    from .comparison import word_lists as word_lists
    from .typed_commands import as_typed as as_typed
    from .typed_commands import from_here as from_here
    from .typed_commands import program as program
    from .values import SHOWN_CONFIDENCE as SHOWN_CONFIDENCE
    from .values import change_text as change_text
    from .values import counted as counted
    from .values import ids_text as ids_text
    from .values import language_costs as language_costs
    from .values import left_out_text as left_out_text
    from .values import megabytes as megabytes
    from .values import number_text as number_text
    from .values import statistics_table as statistics_table
    from .values import token_text as token_text
    from .values import unmeasured as unmeasured
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
