"""Ending a command by Ctrl-C or SIGTERM within seconds.

Python raises the exception only after the main thread has left native code, which can take minutes,
and cleanup may wait for a server. A thread therefore receives the signal immediately, interrupts
DuckDB queries, and kills the process after a time limit, with the effects of any other kill.
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

SECONDS = 1.5  # from the signal to the end of the process
_ERASE_LINE = "\r\x1b[K\x1b[?25h"  # and show the cursor, which progress bars hide


class Terminated(KeyboardInterrupt):
    """SIGTERM, sent by a scheduler, a supervisor or `kill`."""


@contextmanager
def terminable(
    *numbers: signal.Signals, seconds: float = SECONDS, until_exit: bool = False
) -> Iterator[None]:
    """Let signals end the block with an exception; only in the main thread.

    Later signals are ignored. If the block does not end within ``seconds``, the process and its
    descendants are killed. An inner block has its own limit.

    Args:
        until_exit: whether the limit also applies to the code after the block.

    Raises:
        Terminated: after SIGTERM.
        KeyboardInterrupt: after SIGINT.
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
    """Return the number of the first signal, as DuckDB's exception does not tell it."""
    if _deadline is not None and _deadline.number:
        return _deadline.number
    return signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT


def ending(number: int) -> str:
    """Describe the effect of a signal on a command, in one line."""
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    return (
        f"{what}; finished work is kept: type the same command again "
        "(`bpeline resume` continues a training)"
    )


def interruption_behind(error: BaseException) -> BaseException | None:
    """Return the Ctrl-C, SIGTERM or cancellation that caused an error, or None.

    Python may raise it inside a lock of the standard library, whose own error then hides it.
    """
    cause: BaseException | None = error
    while isinstance(cause, (Exception, GeneratorExit)):
        cause = cause.__context__
    return cause


class _Deadline:
    """Kills the process some seconds after the first signal, from a thread."""

    def __init__(self) -> None:
        self.seconds = SECONDS
        self.number = 0  # of the first signal
        self._cancelled = threading.Event()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        # Python's C handler writes the number of each signal there immediately.
        self._former = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
        self._thread.start()

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler, called by Python in the main thread when it runs Python code."""
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
            with suppress(Exception):  # then only the time limit ends the process
                interrupt_queries()
        if not self._cancelled.wait(seconds):
            _end_process(number)


def _end_process(number: int) -> NoReturn:
    """Kill this process and its descendants; finished work is kept."""
    try:
        line = f"{_ERASE_LINE * os.isatty(2)}{ending(number)}\n"
        if select.select([], [2], [], 0)[1]:  # a full pipe or a stopped terminal would block
            os.write(2, line.encode())
        for pid in descendants_of(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(128 + number)
