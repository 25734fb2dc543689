"""Byte pair compression of any bytes (Gage 1994): compressor, kernels, reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .block_compression import BLOCK_BYTES as BLOCK_BYTES
    from .block_compression import THRESHOLD as THRESHOLD
    from .block_compression import compress as compress
    from .block_compression import expand as expand
    from .visible_compression import CompressionStep as CompressionStep
    from .visible_compression import compression_lines as compression_lines
    from .visible_compression import compression_steps as compression_steps
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
