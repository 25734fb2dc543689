"""Jobs in forks of `warm_process` that may be killed at any moment, seen from a test.

A job is a function of `crash_jobs` or `witness_jobs`, named with JSON arguments.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from fork_server import ask, exit_code, fork_server

PATIENCE = 120.0  # seconds after which a job counts as hanging
HUNG = int(signal.SIGXCPU)  # said of one that was killed because it hung


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        signal: that killed it; 0 when none did.
        result: what it returned (JSON values); None when it did not return. Without an error
            either, a signal came when the job was over.
        error: the class and the message of one that is expected; of any other the traceback.
        typed: whether the error was one that callers are told to expect: a BpelineError, or
            Python's own of a signal or of missing memory.
        seconds: how long it ran.
    """

    signal: int
    result: Any
    error: str
    typed: bool
    seconds: float

    @property
    def hung(self) -> bool:
        return self.signal == HUNG

    def returned(self) -> Any:
        """The result; fails the test that expects one."""
        assert not self.signal, f"killed by signal {self.signal} after {self.seconds:.1f} s"
        assert not self.error, self.error
        return self.result


class Zygote:
    """The process whose forks run jobs."""

    def __init__(self) -> None:
        self._server = ExitStack()
        self._place = self._server.enter_context(fork_server("warm_process"))

    def run(
        self,
        job: str,
        *,
        kill_after: float | None = None,
        signals: Sequence[tuple[float, int]] = (),
        **arguments: Any,
    ) -> Ended:
        """Run a job in a fork.

        Args:
            job: a function of `crash_jobs` or `witness_jobs`.
            kill_after: seconds after which it is killed (signal 9), if it has not ended.
            signals: others that it gets, each after so many seconds, in this order.
            arguments: its own; JSON values and paths.
        """
        if kill_after is not None:
            signals = [*signals, (kill_after, signal.SIGKILL)]
        return _Job(self._place, job, arguments).ended(signals)

    def run_together(self, jobs: list[tuple[str, dict[str, Any]]]) -> list[Ended]:
        """Run several jobs at the same time; they begin when all are forked."""
        gate, starting = os.pipe()
        running = [_Job(self._place, job, arguments, gate) for job, arguments in jobs]
        for one in running:
            one.wait_until_forked()
        os.write(starting, b"x" * len(running))
        os.close(starting)
        os.close(gate)
        return [one.ended() for one in running]

    def close(self) -> None:
        self._server.close()


class _Job:
    """A fork at work on one job. With a gate it begins when it has read a byte from it."""

    def __init__(
        self, place: str, job: str, arguments: dict[str, Any], gate: int | None = None
    ) -> None:
        self._began = time.monotonic()
        self._reading, writing = os.pipe()
        request = {"job": job, "arguments": arguments, "waits": gate is not None}
        with open(os.devnull, "rb") as nothing:
            stdin = nothing.fileno() if gate is None else gate
            self._server = ask(place, request, [stdin, writing, 2])
        os.close(writing)

    def wait_until_forked(self) -> None:
        assert os.read(self._reading, 1) == b" ", "the fork ended before it began"

    def ended(self, signals: Sequence[tuple[float, int]] = ()) -> Ended:
        """Wait for it, sending it signals as their times come; one that hangs is killed."""
        coming = [*signals, (max([after for after, _ in signals], default=0) + PATIENCE, HUNG)]
        said, hung = b"", False
        while True:
            after, number = coming[0]
            left = self._began + after - time.monotonic()
            if left > 0 and wait([self._reading], left):
                part = os.read(self._reading, 1 << 16)
                if not part:
                    break
                said += part
            elif left <= 0:
                del coming[0]
                hung = number == HUNG
                with suppress(OSError):  # it has ended meanwhile
                    self._server.send(bytes([signal.SIGKILL if hung else number]))
                if hung or number == signal.SIGKILL:
                    break
        os.close(self._reading)
        with self._server:
            code = exit_code(self._server)
        told = json.loads(said) if said and code == 0 else {"result": None, "error": ""}
        return Ended(
            signal=HUNG if hung else max(0, -code),
            result=told["result"],
            error=told["error"],
            typed=told.get("typed", False),
            seconds=time.monotonic() - self._began,
        )
