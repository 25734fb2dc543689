"""The workspace's tables: files, trainings, lineage, alias moves, evaluation sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .catalogue import Catalogue as Catalogue
    from .models import SWEEP as SWEEP
    from .models import AliasMove as AliasMove
    from .models import CountTable as CountTable
    from .models import MoveKind as MoveKind
    from .models import NamedSet as NamedSet
    from .models import Run as Run
    from .models import Version as Version
    from .values import ChunkRecord as ChunkRecord
    from .values import FileReading as FileReading
    from .values import Metric as Metric
    from .values import Registration as Registration
    from .values import as_asked as as_asked
    from .values import utc_now as utc_now
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
