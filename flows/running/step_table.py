"""Every step of every flow: its name and its share of a run; and tries of flows.

One table for the decorator of steps, progress bars, plans, Prefect and the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.tokenizer_core.errors import BpelineError, CorpusChanged, CorruptFile


@dataclass(frozen=True, slots=True)
class StepKind:
    """A step as people see it.

    Attributes:
        name: in progress bars, in Prefect and in the catalogue.
        share: of a run's time, beside the shares of the other steps of a flow; progress bars
            believe it.
    """

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A flow as Prefect sees it.

    Attributes:
        name: of the flow.
        kind: begins the keys of its artifacts: ``tokenizer`` gives ``tokenizer-summary-news``.
        steps: in their order; without any there is no progress bar.
        hours: after which it is stopped; what it finished is kept, and the next run goes on there.
        again_after: the error after which its steps are done again: what was found damaged or
            changed is forgotten, and made anew.
        tries: how often at most; the last one's error ends the flow.
    """

    name: str
    kind: str
    steps: tuple[StepKind, ...]
    hours: float
    again_after: type[BpelineError] | tuple[()] = ()
    tries: int = 1

    @property
    def shares(self) -> dict[str, float]:
        """Percent of a run that each step takes."""
        whole = sum(step.share for step in self.steps)
        return {step.name: 100 * step.share / whole for step in self.steps}


PLAN_CHUNKS = StepKind("plan chunks", 2)
COUNT_WORDS = StepKind("count words", 40)
COMBINE_COUNTS = StepKind("combine counts", 8)
LEARN_MERGES = StepKind("learn merges", 35)
CHOOSE_SIZE = StepKind("choose size", 2)
EVALUATE = StepKind("evaluate", 4)
SCREEN_TOKENS = StepKind("screen tokens", 2)
PUBLISH = StepKind("publish", 8)
PROMOTE = StepKind("promote", 1)
READ_FILES = StepKind("read files", 20)
CERTIFY = StepKind("certify", 30)
SAMPLE_TEXT = StepKind("sample text", 7)
RECALL_VERSION = StepKind("recall version", 7)
MEASURE_DRIFT = StepKind("measure drift", 16)
ENCODE = StepKind("encode", 95)
PACK = StepKind("pack", 15)
RECORD = StepKind("record", 2)
SWEEP_GARBAGE = StepKind("sweep garbage", 1)
READ_EXPORTS = StepKind("read exports", 1)

TRAIN_TOKENIZER = FlowKind(
    "train-tokenizer",
    "tokenizer",
    (
        PLAN_CHUNKS, COUNT_WORDS, COMBINE_COUNTS, LEARN_MERGES, CHOOSE_SIZE, EVALUATE,
        SCREEN_TOKENS, PUBLISH, PROMOTE,
    ),
    hours=24,
    again_after=CorruptFile,
    tries=3,
)  # fmt: skip
IMPORT_TOKENIZER = FlowKind(
    "import-tokenizer",
    "tokenizer",
    (READ_FILES, CERTIFY, EVALUATE, PUBLISH, PROMOTE),
    hours=6,
)
WATCH_DRIFT = FlowKind(
    "watch-drift",
    "drift",
    (
        PLAN_CHUNKS, COUNT_WORDS, COMBINE_COUNTS, SAMPLE_TEXT, RECALL_VERSION, MEASURE_DRIFT,
        RECORD,
    ),
    hours=6,
    again_after=CorruptFile,
    tries=3,
)  # fmt: skip
ENCODE_DATASET = FlowKind(
    "encode-dataset",
    "dataset",
    (ENCODE, PACK, RECORD),
    hours=24,
    again_after=CorpusChanged,
    tries=3,
)
SWEEP = FlowKind("sweep-garbage", "garbage", (), hours=1)
RECERTIFY = FlowKind("recertify", "certificates", (), hours=6)
