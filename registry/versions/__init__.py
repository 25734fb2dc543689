"""Registered versions: listing, lineage, and the files stored with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .imported import Imported as Imported
    from .imported import OriginalFile as OriginalFile
    from .imported import chat_template_of as chat_template_of
    from .imported import copy_originals as copy_originals
    from .imported import files_of as files_of
    from .imported import imported_in as imported_in
    from .imported import keep_originals as keep_originals
    from .imported import kept_files as kept_files
    from .languages import keep_languages as keep_languages
    from .languages import language_counts as language_counts
    from .lineage import RENAMED as RENAMED
    from .lineage import RULE as RULE
    from .lineage import Lineage as Lineage
    from .listing import ListedVersion as ListedVersion
    from .listing import aliases_of as aliases_of
    from .listing import deleted_versions as deleted_versions
    from .listing import list_versions as list_versions
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
