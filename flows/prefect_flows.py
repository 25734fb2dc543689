"""The flows as Prefect sees them: what ``prefect.yaml`` points to. The only module that imports it.

Nothing is computed here: each flow is the plain function of its own file, and Prefect listens.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Any

from flows import settings

settings.prepare_prefect()

from prefect import flow, get_run_logger  # noqa: E402 - reads the environment prepared above
from prefect.artifacts import (  # noqa: E402
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402

from flows import progress  # noqa: E402
from flows import train_tokenizer as chain  # noqa: E402

if TYPE_CHECKING:
    from flows.summary import TrainingSummary
    from tokenizer_core.trainers.bpe import TrainingProgress

SECONDS_BETWEEN_UPDATES = 2.0

# What share of a run each step usually takes, in percent; only the progress bar believes it.
SHARES = {
    "plan chunks": 2.0,
    "count words": 40.0,
    "combine counts": 8.0,
    "learn merges": 35.0,
    "evaluate": 4.0,
    "screen tokens": 2.0,
    "publish": 8.0,
    "promote": 1.0,
}


class PrefectListener(progress.Progress):
    """Lines become the run's log, progress an artifact, the summary a Markdown artifact."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.logger = get_run_logger()
        self.percent = 0.0
        self.total: int | None = None
        self.done = 0
        self.updated = time.monotonic()
        self.artifact: Any = create_progress_artifact(
            0.0, key="training-progress", description="how far the training is"
        )

    def step_started(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.total, self.done = total, 0
        self.logger.info("%s …", name)

    def step_advanced(self, name: str, amount: int) -> None:
        with self.lock:
            self.done += amount
            self._show(name, self.done)

    def merging(self, at: TrainingProgress) -> None:
        with self.lock:
            if self._show("learn merges", at.merges_done):
                self.logger.info(progress.describe_merging(at))

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        with self.lock:
            self.percent += SHARES.get(name, 0.0)
            self._update(self.percent)
        self.logger.info(progress.step_line(name, seconds, outcome))

    def note(self, text: str) -> None:
        self.logger.warning(text)

    def summary(self, title: str, markdown: str) -> None:
        create_markdown_artifact(
            markdown, key="tokenizer-summary", description=f"what {title} is and how it measures"
        )
        self._update(100.0)

    def compared(self, title: str, markdown: str) -> None:
        create_markdown_artifact(
            markdown, key="champion-comparison", description=f"{title} beside the champion"
        )

    def _show(self, name: str, done: int) -> bool:
        """Update the artifact unless that was done a moment ago: one update costs about 40 ms."""
        now = time.monotonic()
        if not self.total or now - self.updated < SECONDS_BETWEEN_UPDATES:
            return False
        self._update(self.percent + SHARES.get(name, 0.0) * min(done / self.total, 1.0))
        return True

    def _update(self, percent: float) -> None:
        self.updated = time.monotonic()
        try:
            update_progress_artifact(self.artifact, min(percent, 100.0))
        except Exception as error:  # a bar that stands still must not fail a training
            self.logger.debug("the progress artifact was not updated: %s", error)


@flow(
    name="train-tokenizer",
    description="A corpus becomes a registered tokenizer, evaluated on documents held out.",
    flow_run_name="{name}-{vocab_size}",
    task_runner=ThreadPoolTaskRunner(),
    persist_result=False,
    result_serializer="json",  # Prefect keeps a failed flow's error, by default as a pickle
    log_prints=False,
)  # type: ignore[untyped-decorator]
@functools.wraps(chain.train_tokenizer)
def train_tokenizer(*args: Any, **parameters: Any) -> TrainingSummary:
    with progress.listening(progress.Several([progress.current(), PrefectListener()])):
        return chain.train_tokenizer(*args, **parameters)


def run_train_tokenizer(parameters: dict[str, Any]) -> TrainingSummary:
    """Run the flow from this process, recorded by the server of PREFECT_API_URL."""
    summary: TrainingSummary = train_tokenizer(**parameters)
    return summary
