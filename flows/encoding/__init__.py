"""Encoding datasets into token shards, and packing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .datasets import EncodedDataset as EncodedDataset
    from .datasets import encode as encode
    from .datasets import pack as pack
    from .datasets import record as record
    from .datasets import write_shards as write_shards
    from .packing import pack_beside as pack_beside
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
