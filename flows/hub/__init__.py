"""Tokenizers on the Hugging Face Hub: a folder with its model card, and pushing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .folder import HubFolder as HubFolder
    from .folder import write_hub_folder as write_hub_folder
    from .pushing import push_version as push_version
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
