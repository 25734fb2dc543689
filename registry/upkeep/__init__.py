"""Maintenance of a workspace: deletion, garbage collection and repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .deletion import DeletedVersion as DeletedVersion
    from .deletion import delete_versions as delete_versions
    from .deletion import find_deletable as find_deletable
    from .deletion import finish_deletions as finish_deletions
    from .deletion import parse_deletable as parse_deletable
    from .deletion import stays_after_deletion as stays_after_deletion
    from .deletion_notes import damaged_notes as damaged_notes
    from .deletion_notes import noted_deletions as noted_deletions
    from .repairs import repair as repair
    from .retention import Leftover as Leftover
    from .retention import find_leftovers as find_leftovers
    from .retention import remove_leftovers as remove_leftovers
    from .run_ends import FAILED as FAILED
    from .run_ends import KILLED as KILLED
    from .run_ends import dismiss as dismiss
    from .run_ends import show_ends as show_ends
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
