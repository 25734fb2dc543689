"""Importing tokenizers of other libraries: reading, certifying, registering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .files import ReadFiles as ReadFiles
    from .files import certify_files as certify_files
    from .files import facts_of as facts_of
    from .files import plan_import as plan_import
    from .files import publish_import as publish_import
    from .files import read_files as read_files
    from .files import summarize_import as summarize_import
    from .summary import ImportSummary as ImportSummary
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
