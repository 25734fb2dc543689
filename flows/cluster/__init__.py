"""Work done by a Dask cluster: Dask places it, our own kernels and DuckDB do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .dask_engine import DaskEngine as DaskEngine
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
