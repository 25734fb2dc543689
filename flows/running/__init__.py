"""How flows run: steps, progress, signals, and the Prefect server if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import progress as progress
    from . import runner as runner
    from . import settings as settings
    from . import steps as steps
    from .moving_line import keep_moving as keep_moving
    from .moving_line import stop_moving as stop_moving
    from .progress import Outcome as Outcome
    from .progress import Progress as Progress
    from .progress import for_stream as for_stream
    from .progress import listening as listening
    from .progress import telling as telling
    from .runner import choose_runner as choose_runner
    from .runner import tell as tell
    from .steps import ENCODE as ENCODE
    from .steps import MOST_TASKS as MOST_TASKS
    from .steps import FlowKind as FlowKind
    from .steps import StepKind as StepKind
    from .steps import Stopped as Stopped
    from .steps import attempts as attempts
    from .steps import map_threads as map_threads
    from .steps import raise_if_stopped as raise_if_stopped
    from .steps import stopped_by as stopped_by
    from .termination import ending as ending
    from .termination import interruption_behind as interruption_behind
    from .termination import signal_behind as signal_behind
    from .termination import terminable as terminable
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
