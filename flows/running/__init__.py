"""How flows run: steps, progress, signals, and the Prefect server if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import progress as progress
    from . import runner as runner
    from . import settings as settings
    from .moving_line import keep_moving as keep_moving
    from .moving_line import stop_moving as stop_moving
    from .progress import Outcome as Outcome
    from .progress import Progress as Progress
    from .progress import for_stream as for_stream
    from .progress import listening as listening
    from .progress import telling as telling
    from .runner import choose_runner as choose_runner
    from .runner import tell as tell
    from .steps import CERTIFY as CERTIFY
    from .steps import CHOOSE_SIZE as CHOOSE_SIZE
    from .steps import COLLECT_GARBAGE as COLLECT_GARBAGE
    from .steps import COMBINE_COUNTS as COMBINE_COUNTS
    from .steps import COUNT_WORDS as COUNT_WORDS
    from .steps import ENCODE as ENCODE
    from .steps import ENCODE_DATASET as ENCODE_DATASET
    from .steps import EVALUATE as EVALUATE
    from .steps import GC as GC
    from .steps import IMPORT_TOKENIZER as IMPORT_TOKENIZER
    from .steps import LEARN_MERGES as LEARN_MERGES
    from .steps import MEASURE_DRIFT as MEASURE_DRIFT
    from .steps import MOST_TASKS as MOST_TASKS
    from .steps import PACK as PACK
    from .steps import PLAN_CHUNKS as PLAN_CHUNKS
    from .steps import PROMOTE as PROMOTE
    from .steps import PUBLISH as PUBLISH
    from .steps import READ_EXPORTS as READ_EXPORTS
    from .steps import READ_FILES as READ_FILES
    from .steps import RECALL_VERSION as RECALL_VERSION
    from .steps import RECERTIFY as RECERTIFY
    from .steps import RECORD as RECORD
    from .steps import SAMPLE_TEXT as SAMPLE_TEXT
    from .steps import SCREEN_TOKENS as SCREEN_TOKENS
    from .steps import TRAIN_TOKENIZER as TRAIN_TOKENIZER
    from .steps import WATCH_DRIFT as WATCH_DRIFT
    from .steps import FlowKind as FlowKind
    from .steps import StepKind as StepKind
    from .steps import Stopped as Stopped
    from .steps import attempts as attempts
    from .steps import map_threads as map_threads
    from .steps import raise_if_stopped as raise_if_stopped
    from .steps import stopped_by as stopped_by
    from .tasks import prefect as prefect
    from .tasks import task as task
    from .termination import ending as ending
    from .termination import interruption_behind as interruption_behind
    from .termination import signal_behind as signal_behind
    from .termination import terminable as terminable
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
