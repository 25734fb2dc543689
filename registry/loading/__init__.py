"""Load tokenizers by reference: name, alias, number, digest or path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .load import load_tokenizer as load_tokenizer
    from .load import load_version as load_version
    from .resolution import ResolvedVersion as ResolvedVersion
    from .resolution import StaleAlias as StaleAlias
    from .resolution import VersionsLost as VersionsLost
    from .resolution import forget_resolved as forget_resolved
    from .resolution import remembered_numbers as remembered_numbers
    from .resolution import resolve as resolve
    from .resolution import tombstones as tombstones
    from .version_files import EXTENSION as EXTENSION
    from .version_files import FIGURES as FIGURES
    from .version_files import FOR_READERS as FOR_READERS
    from .version_files import KEPT as KEPT
    from .version_files import MANIFEST as MANIFEST
    from .version_files import PAGES as PAGES
    from .version_files import RECIPE as RECIPE
    from .version_files import all_files as all_files
    from .version_files import certificate_path as certificate_path
    from .version_files import format_files as format_files
    from .version_files import golden_texts as golden_texts
    from .version_files import holds_version as holds_version
    from .version_files import is_published_here as is_published_here
    from .version_files import is_whole as is_whole
    from .version_files import keep_files as keep_files
    from .version_files import kept_export as kept_export
    from .version_files import load_verified as load_verified
    from .version_files import require_certified as require_certified
    from .version_files import uncertified as uncertified
    from .version_files import write_exports as write_exports
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
