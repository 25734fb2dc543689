"""Split patterns without a kernel, run in processes of their own (`regex_worker`).

The ``regex`` package may backtrack for ever, fill the memory or crash on a pattern that a user
made up, and segmenters are programs of others. In a process with limits all of that ends in an
error, and as many of them work at once as threads ask.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
    SegmenterUnavailable,
    WorkerLost,
)
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting.regex_worker import Limits
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.worker_processes import DONE, EXIT_SECONDS, OUT_OF_MEMORY, Workers

MOST_PROCESSES = 64
LIMITS = Limits()
# Segmenters take half a second to two seconds per MB, and memory for their dictionaries.
SEGMENTER_LIMITS = Limits(60, 20, 60, memory=4 << 30, memory_per_byte=256)

_EXCEEDED = {-signal.SIGPROF: "processor time", OUT_OF_MEMORY: "memory"}  # by exit status
_ADVICE = (
    "rewrite nested repetitions such as (a+)+ so that a text can be matched in one way only, or "
    "use a pattern with a kernel such as 'gpt2'",
    "look for a very long stretch without punctuation in the text",  # to a segmenter
)
_workers = Workers(
    "bpeline.tokenizer_core.splitting.regex_worker",
    "a split pattern without a kernel runs in a process of its own",
    "use a pattern with a kernel such as 'gpt2'",
    MOST_PROCESSES,
)


def _turns() -> tuple[threading.Semaphore, threading.Semaphore]:
    """How many regexes, and how many segmenters, run at a time."""
    return threading.Semaphore(MOST_PROCESSES), threading.Semaphore(available_processors())


_free = _turns()


def _after_fork() -> None:
    global _free
    _free = _turns()


os.register_at_fork(after_in_child=_after_fork)


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
    name = cutter.name if len(cutter.name) <= 200 else f"{cutter.name[:199]}…"
    pattern = f"the split pattern {name!r}"
    # Those of one segmenter stay together: its dictionary is loaded once in each.
    kind = cutter.name if cutter.is_segmenter else ""
    size = content.size // 8 + 1
    with _free[cutter.is_segmenter]:
        for _ in range(2):
            worker = _workers.take(kind)
            try:
                worker.ask([*cutter, len(spans), content.size], spans.tobytes(), content.data)
                outcome, _, answer = worker.receive(size)
                if outcome == DONE and len(answer) != size:
                    raise EOFError
            except (EOFError, OSError):
                status = _workers.end(worker, grace=EXIT_SECONDS)
                if status in _EXCEEDED:
                    raise PatternExceedsLimit(
                        f"{pattern} took more {_EXCEEDED[status]} than it may on this text",
                        f"limits: {cutter.limits}",
                        _ADVICE[cutter.is_segmenter],
                    ) from None
                if worker.abandoned:
                    break
            except BaseException:  # interrupted: an answer may still come, to nobody
                _workers.end(worker)
                raise
            else:
                _workers.give_back(worker, kind)
                if outcome == DONE:
                    return np.frombuffer(answer, np.uint8)
                raise (SegmenterUnavailable if cutter.is_segmenter else InvalidPattern)(
                    f"{pattern} cannot cut this text: {str(answer, 'utf-8', 'replace')}",
                    "a segmenter must be as it was when this process began",
                    "start anew if packages were installed since, or use another pattern",
                )
    raise WorkerLost(
        f"the process that runs {pattern} ended "
        f"{'because of an interruption' if worker.abandoned else 'twice'} (exit status {status})",
        _workers.purpose,
        "look for what kills processes on this machine (memory?), or use a pattern with a kernel "
        "such as 'gpt2'",
    )


def abandon_matching() -> None:
    """End all that is being matched for threads of this process, which get `WorkerLost`.

    For interruptions: threads would be waited for, and a pattern may take minutes.
    """
    _workers.abandon()
