"""The parts of a training: its run, plan and preparation, and repeating it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .plan import alias_moves as alias_moves
    from .plan import plan_training as plan_training
    from .plan import registered_as as registered_as
    from .preparation import compiled_ahead as compiled_ahead
    from .preparation import prepared as prepared
    from .remaking import DEVELOPMENT as DEVELOPMENT
    from .remaking import Check as Check
    from .remaking import Verdict as Verdict
    from .remaking import Verification as Verification
    from .remaking import combined_again as combined_again
    from .remaking import counted_again as counted_again
    from .remaking import files_now as files_now
    from .remaking import inputs_now as inputs_now
    from .remaking import learned_again as learned_again
    from .remaking import lines_of as lines_of
    from .remaking import words_kept as words_kept
    from .run import RunRequest as RunRequest
    from .run import TrainingRun as TrainingRun
    from .run import asked as asked
    from .run import training_run as training_run
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
