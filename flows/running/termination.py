"""Ctrl-C and SIGTERM end a command: by an exception, and in any case within seconds.

Python raises an exception only when the main thread has left native code, which may take minutes,
and cleanup may wait for a server. A thread therefore hears of the signal when it arrives,
interrupts DuckDB's queries, and ends the process when its time is up. What a killed process leaves
behind, this leaves too.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from bpeline.registry.closed_duckdb import interrupt_queries
from bpeline.registry.workspace import descendants_of

SECONDS = 1.5  # from the signal to the end of the process, which then takes a moment
_ERASE_LINE = "\r\x1b[K\x1b[?25h"  # and show the cursor, which a progress bar hides


class Terminated(KeyboardInterrupt):
    """SIGTERM, from a scheduler, a supervisor or `kill`."""


@contextmanager
def terminable(
    *numbers: signal.Signals, seconds: float = SECONDS, until_exit: bool = False
) -> Iterator[None]:
    """Let signals end the block with an exception; in threads other than the main one, do nothing.

    Signals after the first one are ignored. When the block has not ended after ``seconds``, the
    process ends, and so do its descendants. An inner block sets its own time.

    Args:
        numbers: SIGTERM, and SIGINT where a shell may have set it to be ignored.
        seconds: from the first signal to the end of the process.
        until_exit: after a signal, the time also counts for what follows the block.

    Raises:
        Terminated: SIGTERM came.
        KeyboardInterrupt: SIGINT came.
    """
    global _deadline
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    outer, deadline = _deadline, _deadline or _Deadline()
    _deadline = deadline
    former, deadline.seconds = deadline.seconds, seconds
    handlers = {number: signal.signal(number, deadline.interrupt) for number in numbers}
    try:
        yield
    finally:
        deadline.seconds = former
        if not (until_exit and deadline.number):
            for number, handler in handlers.items():
                signal.signal(number, handler)
            _deadline = outer
            if outer is None:
                deadline.cancel()


_deadline: _Deadline | None = None  # of the outermost block


def signal_behind(interruption: BaseException) -> int:
    """The number of the first signal; DuckDB gives an exception of its own for SIGTERM too."""
    if _deadline is not None and _deadline.number:
        return _deadline.number
    return signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT


def ending(number: int) -> str:
    """What a signal did to a command, in one line."""
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    return (
        f"{what}; what was finished is kept: type the same command again "
        "(`bpeline resume` continues a training)"
    )


def interruption_behind(error: BaseException) -> BaseException | None:
    """What stopped the work: Ctrl-C, SIGTERM or a cancelled Prefect run; None after an error.

    Python raises it between any two lines: inside of a lock of the standard library, say, which
    then complains of its own state and hides it.
    """
    held: BaseException | None = error
    while isinstance(held, (Exception, GeneratorExit)):
        held = held.__context__
    return held


class _Deadline:
    """Ends the process some seconds after the first signal, whatever the main thread does."""

    def __init__(self) -> None:
        self.seconds = SECONDS
        self.number = 0  # of the first signal
        self._cancelled = threading.Event()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        # Python's own handler, in C, writes the number of each signal there when it arrives.
        self._former = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
        self._thread.start()

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """The handler of signals; Python calls it in the main thread, once that runs Python."""
        if not self.number:
            self.number = number
            os.write(self._writing, bytes([number]))  # an event loop may have its own wakeup pipe
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def cancel(self) -> None:
        self._cancelled.set()
        signal.set_wakeup_fd(self._former)
        os.write(self._writing, bytes(1))
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)

    def _watch(self) -> None:
        number = signal.SIGCHLD.value
        while number not in (0, signal.SIGINT, signal.SIGTERM):
            number = os.read(self._reading, 1)[0]
        seconds = self.seconds
        if number:
            with suppress(Exception):  # then the time that is left has to do
                interrupt_queries()
        if not self._cancelled.wait(seconds):
            _end_process(number)


def _end_process(number: int) -> NoReturn:
    """End this process and its descendants; what was finished is kept, as when it is killed."""
    try:
        line = f"{_ERASE_LINE * os.isatty(2)}{ending(number)}\n"
        if select.select([], [2], [], 0)[1]:  # a full pipe or a stopped terminal would block
            os.write(2, line.encode())
        for pid in descendants_of(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(128 + number)
