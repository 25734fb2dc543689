"""Split patterns without a kernel, run in processes of their own; here they are kept and asked.

The ``regex`` package may backtrack for ever, fill the memory or crash on a pattern that a user
made up, and segmenters are programs of others. In a process with limits (`regex_worker`) all of
that ends in an error, and as many of them work at once as threads ask. They start when they are
needed, serve all tokenizers and counters of this process, and end with it, however it ends.

`concurrent.futures.ProcessPoolExecutor` cannot be used for it: its processes run the caller's
script anew, idle ones outlive a parent that is killed, busy ones hold up its exit, and when one
dies all that the others do is lost.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bpeline
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
    SegmenterUnavailable,
    WorkerLost,
)
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting.regex_worker import (
    DONE,
    LONGEST_REASON,
    OUT_OF_MEMORY,
    Limits,
)
from bpeline.tokenizer_core.text import Text

MOST_PROCESSES = 64
LIMITS = Limits()
# Segmenters take half a second to two seconds per MB, and memory for their dictionaries.
SEGMENTER_LIMITS = Limits(60, 20, 60, memory=4 << 30, memory_per_byte=256)

_EXIT_SECONDS = 10  # for a process that has closed its files to be gone, on a busy machine
_EXCEEDED = {-signal.SIGPROF: "processor time", OUT_OF_MEMORY: "memory"}  # by exit status
_ADVICE = (
    "rewrite nested repetitions such as (a+)+ so that a text can be matched in one way only, or "
    "use a pattern with a kernel such as 'gpt2'",
    "look for a very long stretch without punctuation in the text",  # to a segmenter
)
_FROM = str(Path(bpeline.__file__).parents[1])
_PURPOSE = "a split pattern without a kernel runs in a process of its own"
# The child finds what this process would find, and nothing because of the directory it is in.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from multiprocessing.connection import Connection; "
    "from bpeline.tokenizer_core.splitting.regex_worker import serve; "
    "serve(Connection(int(sys.argv[1])))"
)


class Cutter(NamedTuple):
    """What a process is to cut text with: a regex, or the segmenter of an identity."""

    name: str
    is_segmenter: bool
    limits: Limits


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
        marks = ask(Cutter(regex, False, limits), text.data[: text.size], spans)
        starts.view(np.uint8)[: marks.size] |= marks


def ask(cutter: Cutter, content: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Where pre-tokens start, as a process says: the bitmap of `regex_worker.mark`.

    Raises:
        PatternExceedsLimit, SegmenterUnavailable, WorkerLost: it cannot say.
    """
    workers = _workers
    name = cutter.name if len(cutter.name) <= 200 else f"{cutter.name[:199]}…"
    pattern = f"the split pattern {name!r}"
    # Those of one segmenter stay together: its dictionary is loaded once in each.
    idle = workers.idle[cutter.name if cutter.is_segmenter else ""]
    with workers.free[cutter.is_segmenter]:
        for _ in range(2):
            worker = workers.take(idle)
            try:
                answer = worker.ask(cutter, content, spans)
            except (EOFError, OSError):
                status = workers.end(worker, grace=_EXIT_SECONDS)
                if status in _EXCEEDED:
                    raise PatternExceedsLimit(
                        f"{pattern} took more {_EXCEEDED[status]} than it may on this text",
                        f"limits: {cutter.limits}",
                        _ADVICE[cutter.is_segmenter],
                    ) from None
                if worker.abandoned:
                    break
            except BaseException:  # interrupted: an answer may still come, to nobody
                workers.end(worker)
                raise
            else:
                idle.append(worker)
                if answer[0] == DONE:
                    return np.frombuffer(answer, np.uint8, offset=1)
                raise (SegmenterUnavailable if cutter.is_segmenter else InvalidPattern)(
                    f"{pattern} cannot cut this text: {answer[1:].decode(errors='replace')}",
                    "a segmenter must be as it was when this process began",
                    "start anew if packages were installed since, or use another pattern",
                )
    raise WorkerLost(
        f"the process that runs {pattern} ended "
        f"{'because of an interruption' if worker.abandoned else 'twice'} (exit status {status})",
        _PURPOSE,
        "look for what kills processes on this machine (memory?), or use a pattern with a kernel "
        "such as 'gpt2'",
    )


def abandon_matching() -> None:
    """End all that is being matched for threads of this process, which get `WorkerLost`.

    For those who are interrupted and would wait for threads: a pattern may take minutes.
    """
    for worker in _workers.all.difference(*_workers.idle.values()):
        worker.abandoned = True
        worker.process.kill()  # the thread that waits for it sees that and does the rest


class _Worker:
    """A process; one thread at a time. The pipe is closed when nobody refers to it any more."""

    def __init__(self, python: str) -> None:
        self.abandoned = False
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [python, "-I", "-c", _PROGRAM, str(theirs.fileno()), _FROM, *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def ask(self, cutter: Cutter, content: NDArray[np.uint8], spans: NDArray[np.int64]) -> bytes:
        """Its answer. Bytes, and nothing that is unpickled: what it runs may have harmed it.

        Raises:
            EOFError, OSError: the process is gone, or answers nonsense.
        """
        header = json.dumps([*cutter, len(spans)]).encode() + b"\n"
        self.pipe.send_bytes(b"".join((header, spans.tobytes(), content.data)))
        size = content.size // 8 + 2
        answer = self.pipe.recv_bytes(size + LONGEST_REASON)
        if not answer or (answer[0] == DONE and len(answer) != size):
            raise EOFError
        return answer


class _Workers:
    """All workers of this process: some idle, some lent to a thread."""

    def __init__(self) -> None:
        self.all: set[_Worker] = set()
        self.idle: defaultdict[str, list[_Worker]] = defaultdict(list)
        self.free = threading.Semaphore(MOST_PROCESSES), threading.Semaphore(available_processors())
        self._ended = False

    def take(self, idle: list[_Worker]) -> _Worker:
        """An idle one, or a new one."""
        with suppress(IndexError):
            worker = idle.pop()
            worker.abandoned = False  # it was, perhaps, when it had answered the call before
            return worker
        python = required_python(_PURPOSE, "use a pattern with a kernel such as 'gpt2'")
        try:
            if self._ended:
                raise OSError("this process is about to exit")
            worker = _Worker(python)
        except OSError as error:
            raise WorkerLost(
                f"no process could be started from {python!r}: {error}",
                _PURPOSE,
                "use a pattern with a kernel such as 'gpt2'",
            ) from error
        self.all.add(worker)
        return worker

    def end(self, worker: _Worker, *, grace: float = 0) -> int:
        """Kill it; its exit status, after ``grace`` seconds in which it may end on its own."""
        self.all.discard(worker)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(grace)
        worker.process.kill()
        return worker.process.wait()

    def end_all(self, *, for_good: bool = False) -> None:
        """End idle and busy workers; ``for_good``: none are started afterwards."""
        self._ended = for_good
        for idle in list(self.idle.values()):
            idle.clear()
        for worker in list(self.all):
            self.end(worker)


_workers = _Workers()


def _after_fork() -> None:
    """Leave all workers to the process that started them: this one is a fork of that."""
    global _workers
    for worker in _workers.all:
        worker.pipe.close()
        worker.process.returncode = 0
    _workers = _Workers()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _workers.end_all(for_good=True))
