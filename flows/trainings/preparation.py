"""Slow beginnings made early: MLflow is imported and its database made while words are counted.

Both take seconds of plain Python; the kernels at work meanwhile do not need the interpreter.
Nothing depends on it: whoever publishes asks again and finds it done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.registry.tracking import MlflowTracker
from bpeline.tokenizer_core.warm_up import compiling_ahead


@contextmanager
def prepared(
    tracker: MlflowTracker, then: Callable[[], object] = lambda: None
) -> Iterator[threading.Thread]:
    """Let the tracker prepare itself in a thread while the block runs; join it before publishing.

    The block does not end before the thread, so that no migration is cut short.

    Args:
        then: what is said to MLflow as soon as it is imported.
    """

    def prepare() -> None:
        with suppress(Exception):  # publishing meets the same error, and tells it
            tracker.prepare()
            then()

    thread = threading.Thread(target=prepare, name="prepare to publish")
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def compiled_ahead(request: TrainingRequest) -> AbstractContextManager[Callable[[], None]]:
    """Let another core compile what learning and evaluating need, while words are counted.

    Yields:
        What takes part in that, for when words are counted.
    """
    if request.algorithm != BYTE_BPE:
        return nullcontext(lambda: None)
    return compiling_ahead()
