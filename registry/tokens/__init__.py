"""The documents that tokens come from, and tokens that look like personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .screening import FEWEST_DOCUMENTS as FEWEST_DOCUMENTS
    from .screening import ONE_DOCUMENT as ONE_DOCUMENT
    from .screening import Screening as Screening
    from .screening import TrainedOn as TrainedOn
    from .screening import kept_screening as kept_screening
    from .screening import screen as screen
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
