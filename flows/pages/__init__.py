"""Self-contained HTML pages, without network access or other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .name_page import show_name_page as show_name_page
    from .name_page import write_name_page as write_name_page
    from .report import ReportContents as ReportContents
    from .report import comparison_page as comparison_page
    from .report import report_page as report_page
    from .report import token_lengths as token_lengths
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
