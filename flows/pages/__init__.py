"""Pages of HTML, which need nothing else: no network, no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .charts import Chart as Chart
    from .charts import Series as Series
    from .charts import bar_chart as bar_chart
    from .charts import line_chart as line_chart
    from .comparison import comparison_page as comparison_page
    from .contents import ReportContents as ReportContents
    from .figures import Bars as Bars
    from .figures import write_figure as write_figure
    from .name_page import page_of_name as page_of_name
    from .report import report_page as report_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
