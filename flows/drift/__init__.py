"""Drift: new text counted, measured against a version, told and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .drift_report import DriftReport as DriftReport
    from .drift_report import recorded as recorded
    from .measurement import check_slices as check_slices
    from .measurement import gathered as gathered
    from .measurement import judged as judged
    from .measurement import measure_drift as measure_drift
    from .new_text import NewText as NewText
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
