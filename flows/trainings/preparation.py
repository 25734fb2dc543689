"""Slow preparations during counting: importing MLflow and creating its database.

Both take seconds of Python code, while the counting kernels run without the interpreter.
Publishing works without them too.
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
    """Prepare the tracker in a thread while the block runs; join it before publishing."""

    def prepare() -> None:
        with suppress(Exception):  # publishing will raise the same error
            tracker.prepare()
            then()

    thread = threading.Thread(target=prepare, name="prepare to publish")
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def compiled_ahead(request: TrainingRequest) -> AbstractContextManager[Callable[[], None]]:
    """Compile kernels in a thread during counting; yield a function to help finish."""
    if request.algorithm != BYTE_BPE:
        return nullcontext(lambda: None)
    return compiling_ahead()
