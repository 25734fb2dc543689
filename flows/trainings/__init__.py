"""The run of a training, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .plan import alias_moves as alias_moves
    from .plan import plan_training as plan_training
    from .plan import registered_as as registered_as
    from .run import RunRequest as RunRequest
    from .run import TrainingRun as TrainingRun
    from .run import asked as asked
    from .run import compiled_ahead as compiled_ahead
    from .run import prepared as prepared
    from .run import training_run as training_run
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
