"""The trainings of a sweep, and their record in MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .record import Combination as Combination
    from .record import Sweep as Sweep
    from .record import record_sweep as record_sweep
    from .record import table_of as table_of
    from .trials import MOST_TRIALS as MOST_TRIALS
    from .trials import refuse_choice as refuse_choice
    from .trials import try_sizes as try_sizes
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
