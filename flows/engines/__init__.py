"""Engines that run the parcels of a step: local threads, or a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .engine import LOCAL as LOCAL
    from .engine import Engine as Engine
    from .engine import _current as _current
    from .engine import check_engine as check_engine
    from .engine import current as current
    from .engine import working as working
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
