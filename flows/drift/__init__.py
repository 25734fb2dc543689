"""Drift: counting new text, measuring a version on it, reporting and recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .drift_report import DriftReport as DriftReport
    from .drift_report import remember as remember
    from .measurement import CountedSlice as CountedSlice
    from .measurement import KnownText as KnownText
    from .measurement import NewText as NewText
    from .measurement import check_slices as check_slices
    from .measurement import combine_slices as combine_slices
    from .measurement import judged as judged
    from .measurement import measure_drift as measure_drift
    from .measurement import own_texts as own_texts
    from .measurement import requests_of as requests_of
    from .measurement import sample_slices as sample_slices
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
