"""Export versions to formats of other tools, and check exports again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .exporting import Export as Export
    from .exporting import export as export
    from .exporting import export_version as export_version
    from .recertifying import Outcome as Outcome
    from .recertifying import Recertified as Recertified
    from .recertifying import recertified as recertified
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
