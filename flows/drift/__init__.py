"""Drift: new text counted, measured against a version, told and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .drift_report import DriftReport as DriftReport
    from .measuring import check_slices as check_slices
    from .measuring import gathered as gathered
    from .measuring import judged as judged
    from .measuring import measure_drift as measure_drift
    from .new_text import NewText as NewText
    from .observations import recorded as recorded
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
