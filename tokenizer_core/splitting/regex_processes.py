"""Split patterns without a kernel, run in processes of their own; here they are kept and asked.

The ``regex`` package may backtrack for ever, fill the memory or crash on a pattern that a user
made up, and segmenters are programs of others. In a process with limits (`regex_worker`) all of
that ends in an error, and as many of them work at once as threads ask. They start when they are
needed, serve all tokenizers and counters of this process, and end with it, however it ends.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
from numpy.typing import NDArray

import bpeline
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
    SegmenterUnavailable,
    WorkerLost,
)
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting.regex_worker import (
    ANSWER,
    DONE,
    OUT_OF_MEMORY,
    READY,
    REGEX,
    REQUEST,
    SEGMENTER,
)
from bpeline.tokenizer_core.text import Text

MOST_PROCESSES = 64
_IMPORTED_FROM = Path(bpeline.__file__).parents[1]
# The child finds what this process would find, and nothing because of the directory it is in.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from bpeline.tokenizer_core.splitting.regex_worker import serve; "
    "serve(sys.stdin.buffer, sys.stdout.buffer)"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What matching one text may take. Natural text takes 0.05 to 0.2 seconds per MB.

    Attributes:
        seconds: of processor time, for each call.
        seconds_per_mb: more for each MB of the text.
        seconds_per_mb_done: more for each MB that is done.
        memory: bytes.
        memory_per_byte: more for each byte of the text.
    """

    seconds: float = 4
    seconds_per_mb: float = 1
    seconds_per_mb_done: float = 4
    memory: int = 512 << 20
    memory_per_byte: int = 8

    def __str__(self) -> str:
        return (
            f"{self.seconds:g} s of processor time and {self.seconds_per_mb:g} s more per MB of "
            f"text, {self.memory >> 20} MiB and {self.memory_per_byte} bytes per byte of text"
        )


LIMITS = Limits()
# Segmenters take half a second to two seconds per MB, and memory for their dictionaries.
SEGMENTER_LIMITS = Limits(60, 20, 60, memory=4 << 30, memory_per_byte=256)


@dataclass(frozen=True, slots=True)
class Cutter:
    """What a process is to cut text with.

    Attributes:
        kind: `REGEX` or `SEGMENTER`.
        name: the regex, or the identity of a segmenter.
        limits: of one text.
    """

    kind: int
    name: str
    limits: Limits

    @property
    def pool(self) -> str:
        """Cutters of the same pool share processes: a dictionary is loaded once in each."""
        return self.name if self.kind == SEGMENTER else ""

    @property
    def shown(self) -> str:
        """For people."""
        return repr(self.name if len(self.name) <= 200 else f"{self.name[:199]}…")

    @property
    def advice(self) -> str:
        """What to do when a limit is exceeded."""
        if self.kind == SEGMENTER:
            return "look for a very long stretch without punctuation in the text"
        return (
            "rewrite nested repetitions such as (a+)+ so that a text can be matched in one way "
            "only, or use a pattern with a kernel such as 'gpt2'"
        )


def mark_by_regex(
    text: Text,
    spans: NDArray[np.int64],
    regex: str,
    starts: NDArray[np.uint64],
    limits: Limits = LIMITS,
) -> None:
    """Set bits of ``starts`` where pre-tokens start: exact for every pattern, 5 to 20 MB/s.

    Safe to call from many threads; each call has a process for itself. A process that is killed
    is replaced once.

    Args:
        text, spans: as for `mark_pre_tokens`; the spans are within the text.
        regex: known to compile.
        starts: uint64 ``[size // 64 + 2]``.

    Raises:
        PatternExceedsLimit: matching took too long or too much memory.
        WorkerLost: the process cannot be started, or was killed twice.
    """
    if (spans[:, 0] < spans[:, 1]).any():
        marks = ask(Cutter(REGEX, regex, limits), text.data[: text.size], spans)
        starts.view(np.uint8)[: marks.size] |= marks


def ask(cutter: Cutter, content: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Where pre-tokens start, as a process says: the bitmap of `regex_worker.mark`.

    Raises:
        PatternExceedsLimit, SegmenterUnavailable, WorkerLost: it cannot say.
    """
    pattern, limits = cutter.name.encode(), cutter.limits
    memory = limits.memory + limits.memory_per_byte * content.size
    header = REQUEST.pack(
        cutter.kind, len(pattern), len(spans), content.size,
        limits.seconds, limits.seconds_per_mb, limits.seconds_per_mb_done, memory,
    )  # fmt: skip
    parts: list[bytes | memoryview] = [header + pattern, spans.tobytes(), content.data]
    return _processes.ask(parts, content.size // 8 + 1, cutter)


def abandon_matching() -> None:
    """End all that is being matched for threads of this process, which get `WorkerLost`.

    For those who are interrupted and would wait for threads: a pattern may take minutes.
    """
    for process in _processes.busy():
        process.abandon()


class _Process:
    """One worker; one thread at a time."""

    def __init__(self) -> None:
        path = [str(_IMPORTED_FROM), *sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, *path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._ready = False
        self.abandoned = False

    def ask(self, parts: list[bytes | memoryview], size: int) -> NDArray[np.uint8] | str | None:
        """The bitmap of ``size`` bytes; what went wrong; None when it needs too much memory.

        Raises:
            EOFError: the process is gone or does not speak our language.
        """
        try:
            if not self._ready and self._answers.read(len(READY)) != READY:
                raise EOFError
            self._ready = True
            for part in parts:
                self._requests.write(part)
            self._requests.flush()
            status, answered = ANSWER.unpack(self._answers.read(ANSWER.size))
            if status == OUT_OF_MEMORY:
                return None
            if status != DONE:
                return self._answers.read(answered).decode(errors="replace")
            marks = np.empty(size, np.uint8)
            if answered != size or self._answers.readinto(marks.data) != size:  # type: ignore[attr-defined]
                raise EOFError
        except (OSError, struct.error) as error:
            raise EOFError from error
        return marks

    def end(self, *, lost: bool = False) -> int:
        """Kill it; its exit status, negative for the signal that ended it.

        Args:
            lost: it is about to end on its own; the status tells why.
        """
        if lost:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._process.kill()  # before pipes are closed: a thread may wait for one of them
        status = self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()
        return status

    def abandon(self) -> None:
        """Kill it; the thread that waits for it sees that and does the rest."""
        self.abandoned = True
        self._process.kill()

    def forget(self) -> None:
        """Leave it to the process that started it: this one is a fork of that."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._requests, self._answers):
            os.dup2(nowhere, pipe.fileno(), inheritable=False)  # the number stays taken
        os.close(nowhere)
        self._process.returncode = 0


class _Processes:
    """All workers of this process: some idle, some lent to a thread."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, deque[_Process]] = defaultdict(deque)  # atomic operations
        self.all: set[_Process] = set()
        self._free = {
            REGEX: threading.Semaphore(MOST_PROCESSES),
            SEGMENTER: threading.Semaphore(available_processors()),
        }
        self._ended = False

    def ask(self, parts: list[bytes | memoryview], size: int, cutter: Cutter) -> NDArray[np.uint8]:
        """Ask an idle worker, or a new one; once more when it is lost."""
        status = 0
        with self._free[cutter.kind]:
            for _ in range(2):
                process = self._take(cutter)
                try:
                    marks = process.ask(parts, size)
                except EOFError:
                    status = self._end(process, lost=True)
                    if process.abandoned:
                        break
                    if status == -signal.SIGPROF:
                        _refuse(cutter, "took more processor time than it may")
                    continue
                except BaseException:  # interrupted: an answer may still come, to nobody
                    self._end(process)
                    raise
                if marks is None:
                    self._end(process)  # what it holds is given back to the system
                    _refuse(cutter, "took more memory than it may")
                self._idle[cutter.pool].append(process)
                if isinstance(marks, str):
                    _tell(cutter, marks)
                return marks
        raise WorkerLost(
            f"the process that runs the split pattern {cutter.shown} ended "
            f"{'because of an interruption' if process.abandoned else 'twice'} "
            f"(exit status {status})",
            "a split pattern without a kernel runs in a process of its own",
            "look for what kills processes on this machine (memory?), or use a pattern with a "
            "kernel such as 'gpt2'",
        )

    def _take(self, cutter: Cutter) -> _Process:
        try:
            return self._idle[cutter.pool].pop()
        except IndexError:
            pass
        try:
            if self._ended:
                raise OSError("this process is about to exit")
            process = _Process()
        except OSError as error:
            raise WorkerLost(
                f"no process could be started from {sys.executable!r}: {error}",
                "a split pattern without a kernel runs in a process of its own",
                "use a pattern with a kernel such as 'gpt2'",
            ) from error
        self.all.add(process)
        return process

    def _end(self, process: _Process, *, lost: bool = False) -> int:
        self.all.discard(process)
        return process.end(lost=lost)

    def busy(self) -> set[_Process]:
        return self.all.difference(*self._idle.values())

    def end_all(self, *, for_good: bool = False) -> None:
        """End idle and busy workers; ``for_good``: none are started afterwards."""
        self._ended = for_good
        self._idle.clear()
        for process in list(self.all):
            self._end(process)


def _refuse(cutter: Cutter, problem: str) -> NoReturn:
    raise PatternExceedsLimit(
        f"the split pattern {cutter.shown} {problem} on this text",
        f"limits: {cutter.limits}",
        cutter.advice,
    )


def _tell(cutter: Cutter, error: str) -> NoReturn:
    raised = SegmenterUnavailable if cutter.kind == SEGMENTER else InvalidPattern
    raise raised(
        f"the split pattern {cutter.shown} cannot cut this text: {error}",
        "a segmenter must be as it was when this process began",
        "start anew if packages were installed since, or use another pattern",
    )


_processes = _Processes()


def _after_fork() -> None:
    global _processes
    for process in _processes.all:
        process.forget()
    _processes = _Processes()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _processes.end_all(for_good=True))
