"""Programs of ours in processes of their own: started, kept and asked here, and how they answer.

What reads hostile input may crash, hang, fill the memory or be taken over: it ends with its
process, and the caller gets an error. Processes start when they are needed, serve all threads of
this process, and end with it, however it ends. The operating system enforces their limits:
processor time by a timer whose signal ends the process, memory by its address space.

`concurrent.futures.ProcessPoolExecutor` cannot be used for it: its processes run the caller's
script again, idle ones outlive a parent that is killed, busy ones hold up its exit, and when one
dies all that the others do is lost.
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
FAILED, DONE = 0, 1  # kinds of messages; a program may have others
EXIT_SECONDS = 10  # for a process that has closed its files to be gone, on a busy machine
_HEADER = struct.Struct("<BQQ")  # kind, a number, bytes that follow
_LONGEST_REASON = 1 << 14  # bytes of a message of the kind `FAILED`
_FROM = str(Path(bpeline.__file__).parents[1])
# The child finds what this process would find, and nothing because of the directory it is in.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from {} import serve; serve(int(sys.argv[1]))"

# Gives the messages to a request: kind, number and contents of each. It is given the JSON of the
# request, the stream of what follows it, and what sets the memory that it may take from here on.
Answer = Callable[[Any, BinaryIO, Callable[[int], None]], Iterator[tuple[Any, ...]]]


class Worker:
    """A process; one thread at a time.

    Attributes:
        process: its handle.
        abandoned: whether it was killed because its answer is not wanted any more.
    """

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
        """Send a request: JSON, then bytes.

        Raises:
            OSError: the process is gone.
        """
        self.pipe.sendall(json.dumps(asked).encode() + b"\n")
        for content in contents:
            self.pipe.sendall(content)

    def receive(self, most: int) -> tuple[int, int, memoryview]:
        """The next message: bytes, and nothing that is unpickled: what it reads may have harmed it.

        Args:
            most: bytes of a message that is believed, unless it says what failed.

        Raises:
            EOFError, OSError: the process is gone, says nothing, or talks nonsense.
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
    """All workers of this process that run one program: some idle, some lent.

    Args:
        module: has a function `serve` that calls the one below.
        purpose: what runs in a process, as a clause.
        instead: what to do where no process can be started, as a demand.
        most_idle: how many are kept for the next readers.
        silence: seconds without a word after which a process hangs; None: it never does.
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
        """Begin without any: a fork leaves them to the process that started them."""
        self.all: set[Worker] = set()
        self.idle: defaultdict[str, list[Worker]] = defaultdict(list)
        self._ended = False

    def take(self, kind: str = "") -> Worker:
        """An idle one, or a new one.

        Raises:
            WorkerLost: none can be started.
        """
        idle = self.idle[kind]
        while idle:
            with suppress(IndexError):
                worker = idle.pop()
                if worker.process.poll() is None:
                    worker.abandoned = False  # it was, perhaps, when it had answered before
                    return worker
                self.end(worker)
        python = required_python(self.purpose, self._instead)
        try:
            if self._ended:
                raise OSError("this process is about to exit")
            worker = Worker(python, self.program, self._silence)
        except OSError as error:
            raise WorkerLost(
                f"no process could be started from {python!r}: {error}",
                self.purpose,
                f"free some memory or processes, or {self._instead}",
            ) from error
        self.all.add(worker)
        return worker

    def give_back(self, worker: Worker, kind: str = "") -> None:
        """Keep it for the next reader, as long as there are few."""
        if self._ended or len(self.idle[kind]) >= self._most_idle:
            self.end(worker)
        else:
            self.idle[kind].append(worker)

    def end(self, worker: Worker, *, grace: float = 0) -> int:
        """Kill it; its exit status, after ``grace`` seconds in which it may end on its own."""
        if worker not in self.all:
            return worker.process.wait()
        self.all.discard(worker)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(grace)
        worker.process.kill()
        worker.pipe.close()
        return worker.process.wait()

    def abandon(self) -> None:
        """Kill those that are lent; the threads that wait for them see that and do the rest."""
        for worker in self.all.difference(*self.idle.values()):
            worker.abandoned = True
            worker.process.kill()

    def end_all(self, *, for_good: bool = False) -> None:
        """End idle and busy workers; ``for_good``: none are started afterwards."""
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
    """Answer requests until there are no more: what a process of its own does.

    A request is a line of JSON, and what `Worker.ask` sends after it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    base = addresses_in_use()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)

    def allow_memory(memory: int) -> None:
        if base:  # a limit that was there before stays
            lowest = min(one for one in (base + memory, soft, hard) if one >= 0)
            resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))

    with socket.socket(fileno=descriptor) as pipe, pipe.makefile("rb") as requests:
        for line in requests:
            try:
                for kind, number, *contents in answer(json.loads(line), requests, allow_memory):
                    pipe.sendall(_HEADER.pack(kind, number, sum(map(len, contents))))
                    for content in contents:
                        pipe.sendall(content)
            except MemoryError:  # Arrow's is one of these
                os._exit(OUT_OF_MEMORY)  # what it holds is given back to the system
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def allow_seconds(seconds: float) -> None:
    """Let this process end after so much more processor time."""
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))  # zero would switch it off
