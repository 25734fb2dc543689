"""Pools of worker processes for code that reads untrusted input.

Such code may crash, hang, exhaust memory or be exploited; then only its process ends, and the
caller gets an error. Workers start on demand, serve all threads of this process and end with it.
Processor time is limited by a timer signal, memory by RLIMIT_AS.

`concurrent.futures.ProcessPoolExecutor` is unsuitable: it runs the caller's script again, its idle
processes outlive a killed parent, busy ones delay its exit, and one crash loses all other results.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import bpeline
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.errors import WorkerLost
from bpeline.tokenizer_core.machine import addresses_in_use

OUT_OF_MEMORY = 75  # exit status
FAILED, DONE = 0, 1  # message kinds; programs may add others
EXIT_SECONDS = 10  # maximum time from closing its files to the exit of a process
_HEADER = struct.Struct("<BQQ")  # kind, a number, bytes that follow
_LONGEST_REASON = 1 << 14  # bytes of a `FAILED` message
_FROM = str(Path(bpeline.__file__).parents[1])
# The child imports from the same places as this process, not from its current directory.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from {} import serve; serve(int(sys.argv[1]))"

# Yields the messages for a request: kind, number and contents. Arguments: the JSON request, the
# stream of what follows it, and a function that sets the memory limit from here on.
Answer = Callable[[Any, BinaryIO, Callable[[int], None]], Iterator[tuple[Any, ...]]]


class Worker:
    """A worker process, used by one thread at a time."""

    def __init__(self, python: str, program: str, silence: float | None) -> None:
        self.abandoned = False
        self.pipe, theirs = socket.socketpair()
        with theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self.pipe.settimeout(silence)
            try:
                self.process = subprocess.Popen(
                    [python, "-I", "-c", program, str(theirs.fileno()), _FROM, *sys.path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            except BaseException:
                self.pipe.close()
                raise

    def ask(self, asked: Any, *contents: Any) -> None:
        """Send a request: JSON, then bytes; OSError if the process has ended."""
        self.pipe.sendall(json.dumps(asked).encode() + b"\n")
        for content in contents:
            self.pipe.sendall(content)

    def receive(self, most: int) -> tuple[int, int, memoryview]:
        """Receive a message of at most ``most`` bytes, unless it is `FAILED`.

        Nothing is unpickled, because the worker is not trusted. Raises `EOFError` or `OSError` if
        it has ended, is silent, or sends invalid messages.
        """
        kind, number, size = _HEADER.unpack(self._exactly(_HEADER.size))
        if size > (_LONGEST_REASON if kind == FAILED else most):
            raise EOFError
        return kind, number, self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        view = np.empty(size, np.uint8).data
        filled = 0
        while filled < size:
            read = self.pipe.recv_into(view[filled:])
            if not read:
                raise EOFError
            filled += read
        return view


class Workers:
    """All workers of this process that run one program, idle or in use.

    Args:
        module: defines a function `serve` that calls the one below.
        purpose: what a worker does, for messages.
        instead: an alternative without processes, in the imperative.
        silence: seconds without data after which a worker counts as hung; None: never.
    """

    def __init__(
        self, module: str, purpose: str, instead: str, most_idle: int, silence: float | None = None
    ) -> None:
        self.program = _PROGRAM.format(module)
        self.purpose, self._instead = purpose, instead
        self._most_idle, self._silence = most_idle, silence
        self.leave()
        _pools.append(self)

    def leave(self) -> None:
        """Forget all workers; after a fork they belong to the parent."""
        self.all: set[Worker] = set()
        self.idle: defaultdict[str, list[Worker]] = defaultdict(list)
        self._ended = False

    def take(self, kind: str = "") -> Worker:
        """Return an idle worker or start one; `WorkerLost` if that fails."""
        idle = self.idle[kind]
        while idle:
            with suppress(IndexError):
                worker = idle.pop()
                if worker.process.poll() is None:
                    worker.abandoned = False  # it may have answered before it was abandoned
                    return worker
                self.end(worker)
        python = required_python(self.purpose, self._instead)
        try:
            if self._ended:
                raise OSError("this process is about to exit")
            worker = Worker(python, self.program, self._silence)
        except OSError as error:
            raise WorkerLost(
                f"cannot start a process from {python!r}: {error}",
                self.purpose,
                f"free some memory or processes, or {self._instead}",
            ) from error
        self.all.add(worker)
        return worker

    def give_back(self, worker: Worker, kind: str = "") -> None:
        """Return a worker to the pool, or end it if there are enough."""
        if self._ended or len(self.idle[kind]) >= self._most_idle:
            self.end(worker)
        else:
            self.idle[kind].append(worker)

    def end(self, worker: Worker, *, grace: float = 0) -> int:
        """Kill a worker after ``grace`` seconds, and return its exit status."""
        if worker not in self.all:
            return worker.process.wait()
        self.all.discard(worker)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(grace)
        worker.process.kill()
        worker.pipe.close()
        return worker.process.wait()

    def abandon(self) -> None:
        """Kill workers in use; the threads that wait for them do the rest themselves."""
        for worker in self.all.difference(*self.idle.values()):
            worker.abandoned = True
            worker.process.kill()

    def end_all(self, *, for_good: bool = False) -> None:
        """End all workers; with ``for_good``, start no more."""
        self._ended = for_good
        self.idle.clear()
        for worker in list(self.all):
            self.end(worker)


_pools: list[Workers] = []


def _after_fork() -> None:
    for workers in _pools:
        for worker in workers.all:
            worker.pipe.close()
            worker.process.returncode = 0
        workers.leave()


def _at_exit() -> None:
    for workers in _pools:
        workers.end_all(for_good=True)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def serve(descriptor: int, answer: Answer) -> None:
    """Answer requests until the pipe is closed; main loop of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    base = addresses_in_use()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)

    def allow_memory(memory: int) -> None:
        if base:  # earlier limits still apply
            lowest = min(limit for limit in (base + memory, soft, hard) if limit >= 0)
            resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))

    with socket.socket(fileno=descriptor) as pipe, pipe.makefile("rb") as requests:
        for line in requests:
            try:
                for kind, number, *contents in answer(json.loads(line), requests, allow_memory):
                    pipe.sendall(_HEADER.pack(kind, number, sum(map(len, contents))))
                    for content in contents:
                        pipe.sendall(content)
            except MemoryError:  # includes Arrow's
                os._exit(OUT_OF_MEMORY)  # exiting frees the memory
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def allow_seconds(seconds: float) -> None:
    """End this process after this much more processor time."""
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))  # zero would disable it
