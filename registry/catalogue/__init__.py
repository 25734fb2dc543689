"""What a workspace remembers in tables: files, runs, versions, aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .catalogue import Catalogue as Catalogue
    from .database_errors import release_0_1 as release_0_1
    from .records import AliasMove as AliasMove
    from .records import ChunkRecord as ChunkRecord
    from .records import CountTable as CountTable
    from .records import Deletion as Deletion
    from .records import FileReading as FileReading
    from .records import MoveKind as MoveKind
    from .records import NamedSet as NamedSet
    from .records import Registration as Registration
    from .records import Run as Run
    from .records import Version as Version
    from .records import last_values as last_values
    from .records import utc_now as utc_now
    from .runs import as_asked as as_asked
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
