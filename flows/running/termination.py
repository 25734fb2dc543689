"""Being told to end by SIGTERM: as Ctrl-C, so that everybody cleans up behind himself.

Without it a process that is terminated leaves what it had started to itself: servers, workers.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """Somebody asked this process to end: a scheduler, a supervisor, `kill`."""


@contextmanager
def terminable(*numbers: signal.Signals) -> Iterator[None]:
    """Let signals end the block with an exception; in threads other than the main one, nothing.

    Args:
        numbers: SIGTERM, and SIGINT where a shell may have told us to ignore it.

    Raises:
        Terminated: SIGTERM came.
        KeyboardInterrupt: SIGINT came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is told of signals
        return
    earlier = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def interruption_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption in whose wake an error was raised; None where there was none.

    Python raises it between any two lines: inside of a lock of the standard library, say, which
    then complains of its own state and hides it.
    """
    held: BaseException | None = error
    while held is not None and not isinstance(held, KeyboardInterrupt):
        held = held.__context__
    return held


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
