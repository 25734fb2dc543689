"""Two versions side by side: as text and JSON, on texts that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .as_json import comparison_json as comparison_json
    from .as_text import SLICE_TITLES as SLICE_TITLES
    from .as_text import compared_metrics as compared_metrics
    from .as_text import comparison_lines as comparison_lines
    from .as_text import comparison_markdown as comparison_markdown
    from .as_text import facts as facts
    from .as_text import slice_rows as slice_rows
    from .as_text import word_lists as word_lists
    from .given_texts import compare_on as compare_on
    from .given_texts import with_morphology as with_morphology
    from .given_texts import with_serving_cost as with_serving_cost
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
