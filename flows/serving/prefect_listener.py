"""A run's progress in Prefect: log lines, a progress bar, Markdown artifacts.

Import it after Prefect's environment has been prepared.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from bpeline.flows.running import FlowKind, progress, steps, tell
from bpeline.registry.workspace import this_process
from bpeline.tokenizer_core.digests import digest_of

if TYPE_CHECKING:
    from bpeline.tokenizer_core.merging import TrainingProgress

PROCESS_LABEL = "bpeline.process"
DRIFT_DETECTED = "bpeline.drift.detected"
SECONDS_BETWEEN_UPDATES = 2.0


class PrefectListener(progress.Progress):
    """Reports one flow run to Prefect.

    Artifact keys begin with the flow's kind and end with ``name``, that of the tokenizer, because
    the UI groups artifacts by key.
    """

    def __init__(self, flow: FlowKind, name: str = "") -> None:
        self.kind, self.name = flow.kind, name
        self.shares = flow.shares
        self.lock = threading.Lock()
        self.logger = get_run_logger()
        self.percent = 0.0
        self.total: int | None = None
        self.done = 0
        self.updated = time.monotonic()
        self.answers = True
        what = "progress of the run"
        self._told(_record_process)
        make = create_progress_artifact
        self.bar = (
            self._told(make, 0.0, self._key(f"{self.kind}-progress"), what) if self.shares else None
        )

    def step_started(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.total, self.done = total, 0
        self.logger.info("%s …", name)

    def step_advanced(self, name: str, amount: int) -> None:
        with self.lock:
            self.done += amount
            self._advance(name)

    def merging(self, at: TrainingProgress) -> None:
        with self.lock:
            self.done = at.merges_done
            if self._advance(steps.LEARN_MERGES.name):
                self.logger.info(progress.describe_merging(at))

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        with self.lock:
            self.percent += self.shares.get(name, 0.0)
            self._show(self.percent)
        self.logger.info(progress.step_line(name, seconds, outcome))

    def note(self, text: str) -> None:
        self.logger.warning(text)

    def summary(self, title: str, markdown: str) -> None:
        what = f"result: {title}"
        self._tell(f"{self.kind}-summary", markdown, what)
        self._show(100.0)

    def compared(self, title: str, markdown: str) -> None:
        what = f"{title} compared with the champion"
        self._tell("champion-comparison", markdown, what)

    def drifted(self, name: str, alias: str, event: Mapping[str, Any]) -> None:
        # Automations wait for this event to start a training.
        if remark := tell(DRIFT_DETECTED, name, event, alias=alias):
            self.note(remark)

    def name_run(self, name: str) -> None:
        """Rename the flow run."""
        self._told(_rename, name)

    def _advance(self, name: str) -> bool:
        """Show a step's progress if the last update was long ago: it takes about 40 ms."""
        if not self.total or time.monotonic() - self.updated < SECONDS_BETWEEN_UPDATES:
            return False
        part = min(self.done / self.total, 1.0)
        self._show(self.percent + self.shares.get(name, 0.0) * part)
        return True

    def _show(self, percent: float) -> None:
        self.updated = time.monotonic()
        if self.bar is not None:
            self._told(update_progress_artifact, self.bar, min(percent, 100.0))

    def _tell(self, kind: str, markdown: str, what: str) -> None:
        key = self._key(kind)
        self._told(create_markdown_artifact, markdown, key=key, description=what)

    def _key(self, kind: str) -> str:
        """Return a key like ``tokenizer-summary-news``: lowercase, digits and dashes."""
        plain = re.sub("[^a-z0-9-]", "-", self.name)
        if plain != self.name:
            plain += f"-{digest_of(self.name)[:8]}"  # else news.de and news-de share a key
        return f"{kind}-{plain}" if plain else kind

    def _told(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call Prefect's client for something optional; return None on failure.

        After a connection error there are no more calls: each would wait about a minute.
        """
        if not self.answers:
            return None
        try:
            return call(*args, **named)
        except Exception as error:
            self.answers = not isinstance(error, httpx.TransportError)
            self.logger.debug("Prefect's server did not take a report: %s", error)
            return None


def _record_process() -> None:
    """Record the process of this run, for `prefect_worker.mark_lost_runs`."""
    with get_client(sync_client=True) as client:
        client.update_flow_run_labels(
            _flow_run().id, {PROCESS_LABEL: json.dumps(asdict(this_process()))}
        )


def _rename(name: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(_flow_run().id, name=name)


def _flow_run() -> Any:
    context = FlowRunContext.get()
    assert context is not None
    return context.flow_run
