"""Aliases of versions: promotion, rollback and history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .history import NEW_TEXT_COST as NEW_TEXT_COST
    from .history import OWN_TEXT_COST as OWN_TEXT_COST
    from .history import WATCHED as WATCHED
    from .history import NameHistory as NameHistory
    from .history import PastVersion as PastVersion
    from .history import name_history as name_history
    from .moves import AliasMovedMeanwhile as AliasMovedMeanwhile
    from .moves import move_alias as move_alias
    from .moves import remove_alias as remove_alias
    from .promotion import AliasChange as AliasChange
    from .promotion import alias_history as alias_history
    from .promotion import present_version as present_version
    from .promotion import promote as promote
    from .promotion import rollback as rollback
    from .refusals import stuck_on as stuck_on
    from .refusals import was_refused as was_refused
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
