"""How flows run: steps, progress, signals, and the Prefect server that may watch; no tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import progress as progress
    from . import runner as runner
    from . import settings as settings
    from .events import tell as tell
    from .moving_line import keep_moving as keep_moving
    from .moving_line import stop_moving as stop_moving
    from .progress import Progress as Progress
    from .progress import for_stream as for_stream
    from .progress import listening as listening
    from .progress import telling as telling
    from .runner import choose_runner as choose_runner
    from .step_table import CERTIFY as CERTIFY
    from .step_table import CHOOSE_SIZE as CHOOSE_SIZE
    from .step_table import COMBINE_COUNTS as COMBINE_COUNTS
    from .step_table import COUNT_WORDS as COUNT_WORDS
    from .step_table import ENCODE as ENCODE
    from .step_table import ENCODE_DATASET as ENCODE_DATASET
    from .step_table import EVALUATE as EVALUATE
    from .step_table import IMPORT_TOKENIZER as IMPORT_TOKENIZER
    from .step_table import LEARN_MERGES as LEARN_MERGES
    from .step_table import MEASURE_DRIFT as MEASURE_DRIFT
    from .step_table import PACK as PACK
    from .step_table import PLAN_CHUNKS as PLAN_CHUNKS
    from .step_table import PROMOTE as PROMOTE
    from .step_table import PUBLISH as PUBLISH
    from .step_table import READ_EXPORTS as READ_EXPORTS
    from .step_table import READ_FILES as READ_FILES
    from .step_table import RECALL_VERSION as RECALL_VERSION
    from .step_table import RECERTIFY as RECERTIFY
    from .step_table import RECORD as RECORD
    from .step_table import SAMPLE_TEXT as SAMPLE_TEXT
    from .step_table import SCREEN_TOKENS as SCREEN_TOKENS
    from .step_table import SWEEP as SWEEP
    from .step_table import SWEEP_GARBAGE as SWEEP_GARBAGE
    from .step_table import TRAIN_TOKENIZER as TRAIN_TOKENIZER
    from .step_table import WATCH_DRIFT as WATCH_DRIFT
    from .step_table import FlowKind as FlowKind
    from .step_table import StepKind as StepKind
    from .steps import MOST_TASKS as MOST_TASKS
    from .steps import Step as Step
    from .steps import Stopped as Stopped
    from .steps import in_prefect_flow as in_prefect_flow
    from .steps import map_step as map_step
    from .steps import raise_if_stopped as raise_if_stopped
    from .steps import step as step
    from .steps import stopped_by as stopped_by
    from .steps import tries as tries
    from .termination import Terminated as Terminated
    from .termination import ending as ending
    from .termination import interruption_behind as interruption_behind
    from .termination import signal_behind as signal_behind
    from .termination import terminable as terminable
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
