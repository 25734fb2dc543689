"""Runs regexes and segmenters in worker processes with limits of time and memory.

The ``regex`` package may backtrack endlessly, exhaust memory or crash on a user's pattern. Its
``timeout=`` is for a whole text; these limits grow with the progress.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core import worker_processes
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
    SegmenterUnavailable,
    WorkerLost,
)
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.worker_processes import (
    DONE,
    EXIT_SECONDS,
    FAILED,
    OUT_OF_MEMORY,
    Workers,
)

if TYPE_CHECKING:
    from bpeline.tokenizer_core.text import Text

_LONGEST_REASON = 4096  # bytes
_AT_ONCE = 1 << 12  # matches or segments per batch
_MB = 1e6
MOST_PROCESSES = 64
_EXCEEDED = {-signal.SIGPROF: "processor time", OUT_OF_MEMORY: "memory"}  # by exit status
_ADVICE = (
    "rewrite nested repetitions such as (a+)+ so that a text can be matched in one way only, or "
    "use a pattern with a kernel such as 'gpt2'",
    "look for a very long stretch without punctuation in the text",  # for segmenters
)
_workers = Workers(
    "bpeline.tokenizer_core.splitting.regex_processes",
    "a split pattern without a kernel runs in a process of its own",
    "use a pattern with a kernel such as 'gpt2'",
    MOST_PROCESSES,
)


class Limits(NamedTuple):
    """Limits for one text; memory in bytes. Natural text takes 0.05 to 0.2 s per MB.

    ``seconds`` of CPU time grow with the size of the text (``seconds_per_mb``) and with the part
    that is done (``seconds_per_mb_done``); memory grows by ``memory_per_byte``.
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


def serve(descriptor: int) -> None:
    """Answer requests until the connection closes.

    A request is a regex or the identity of a segmenter, which of the two it is, `Limits`, the
    number of spans and bytes; then the spans (int64 ``[n, 2]``) and the text. The answer is the
    bitmap of `mark_matches` or an error text.
    """
    worker_processes.serve(descriptor, partial(_answer, os.getppid()))


def _answer(
    parent: int, request: Any, stream: BinaryIO, allow_memory: Callable[[int], None]
) -> Iterator[tuple[Any, ...]]:
    name, is_segmenter, bounds, span_count, size = request
    spans = np.frombuffer(stream.read(16 * span_count), np.int64).reshape(-1, 2)
    text = np.frombuffer(stream.read(size), np.uint8)
    limits = Limits(*bounds)
    go_on = _timer(parent, limits, size)
    allow_memory(limits.memory + limits.memory_per_byte * size)
    try:
        found_in = (_segments_of if is_segmenter else _matches_of)(name)
        marks = mark_matches(text, spans, found_in, go_on).tobytes()
    except MemoryError:
        raise
    except BaseException as error:  # a Rust panic, as in Sudachi, is not an Exception
        reason = f"{type(error).__name__}: {error}".encode(errors="replace")
        yield FAILED, 0, reason[:_LONGEST_REASON]
    else:
        yield DONE, 0, marks


def _timer(parent: int, limits: Limits, size: int) -> Callable[[int], None]:
    end = time.process_time() + limits.seconds + limits.seconds_per_mb * size / _MB

    def go_on(done: int) -> None:
        if os.getppid() != parent:
            os._exit(0)  # the parent is gone
        worker_processes.allow_seconds(
            end + limits.seconds_per_mb_done * done / _MB - time.process_time()
        )

    go_on(0)
    return go_on


def _matches_of(pattern: str) -> Callable[[str], Iterator[tuple[int, int]]]:
    compiled = regex.compile(pattern)
    return lambda characters: map(regex.Match.span, compiled.finditer(characters))


def mark_matches(
    text: NDArray[np.uint8],
    spans: NDArray[np.int64],
    found_in: Callable[[str], Iterable[tuple[int, int]]],
    go_on: Callable[[int], None],
) -> NDArray[np.uint8]:
    """Mark where pre-tokens start.

    Args:
        text: uint8 ``[size]``, valid UTF-8 within the spans.
        spans: int64 ``[n, 2]``, half-open, independent.
        found_in: gives ascending character ranges of pre-tokens; text between them is a pre-token,
            too.
        go_on: called repeatedly with the number of bytes done.

    Returns:
        uint8 ``[ceil((size + 1) / 8)]``: bit ``i & 7`` of byte ``i >> 3`` stands for byte ``i``.
    """
    marked = np.zeros(text.size + 1, np.bool_)
    for begin, end in spans[spans[:, 0] < spans[:, 1]].tolist():
        marked[begin] = True
        characters = str(text[begin:end].data, "utf-8")
        # Edges ascend, so character positions become byte positions batch by batch.
        character, byte = 0, begin
        matches = iter(found_in(characters))
        while batch := list(chain.from_iterable(islice(matches, _AT_ONCE))):
            pairs = np.array(batch, np.int64).reshape(-1, 2)
            edges = pairs[pairs[:, 0] < pairs[:, 1]].ravel()
            edges = edges[edges < len(characters)] - character
            if edges.size:
                furthest = int(edges[-1])
                stretch = text[byte : min(byte + 4 * furthest + 4, end)]
                bytes_of = np.flatnonzero((stretch & 0xC0) != 0x80)
                marked[byte + bytes_of[edges]] = True
                character += furthest
                byte += int(bytes_of[furthest])
            go_on(byte)
    return np.packbits(marked, bitorder="little")


@lru_cache(maxsize=1)
def _segments_of(identity: str) -> Callable[[str], Iterator[tuple[int, int]]]:
    from bpeline.tokenizer_core.splitting.segmenters import (
        PUNKT,
        SEGMENTERS,
        of_text,
        segmenter_named,
    )

    if identity.startswith(PUNKT):
        spans: Callable[[str], Iterator[tuple[int, int]]] = of_text(identity).span_tokenize
        return spans
    name = identity.partition(",")[0]
    if SEGMENTERS[name].identity != identity:
        raise LookupError(f"{SEGMENTERS[name].identity} is installed, not {identity}")
    lengths_of = segmenter_named(name)

    def segments(characters: str) -> Iterator[tuple[int, int]]:
        end = 0
        for length in lengths_of(characters):
            yield end, (end := end + length)
        if end != len(characters):
            raise ValueError(f"segments cover {end} of {len(characters)} characters")

    return segments


LIMITS = Limits()

# Segmenters take 0.5 to 2 seconds per MB, and memory for their dictionaries.
SEGMENTER_LIMITS = Limits(60, 20, 60, memory=4 << 30, memory_per_byte=256)


def _turns() -> tuple[threading.Semaphore, threading.Semaphore]:
    return threading.Semaphore(MOST_PROCESSES), threading.Semaphore(available_processors())


_free = _turns()


def _after_fork() -> None:
    global _free
    _free = _turns()


os.register_at_fork(after_in_child=_after_fork)


class Cutter(NamedTuple):
    """What splits the text: a regex, or a segmenter by its identity."""

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
    """Set the bits in ``starts`` where pre-tokens start; 5 to 20 MB/s.

    Thread-safe: each call has its own process. A killed process is replaced once. For ``text`` and
    ``spans`` see `Splitter.mark`; ``starts`` is uint64 ``[size // 64 + 2]``.

    Raises:
        PatternExceedsLimit: too much time or memory.
        WorkerLost: the process cannot start, or was killed twice.
    """
    if (spans[:, 0] < spans[:, 1]).any():
        marks = ask(Cutter(regex, False, limits), text.data[: text.size], spans)
        starts.view(np.uint8)[: marks.size] |= marks


def ask(cutter: Cutter, content: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bitmap of `mark_matches`, from a worker process."""
    name = cutter.name if len(cutter.name) <= 200 else f"{cutter.name[:199]}…"
    pattern = f"the split pattern {name!r}"
    # Reuse processes of the same segmenter, which have loaded its dictionary.
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
            except BaseException:  # interrupted: an answer may still come
                _workers.end(worker)
                raise
            else:
                _workers.give_back(worker, kind)
                if outcome == DONE:
                    return np.frombuffer(answer, np.uint8)
                raise (SegmenterUnavailable if cutter.is_segmenter else InvalidPattern)(
                    f"{pattern} cannot split this text: {str(answer, 'utf-8', 'replace')}",
                    "expected the same segmenter as when this process began",
                    "restart if packages were installed since, or use another pattern",
                )
    raise WorkerLost(
        f"the process that runs {pattern} ended "
        f"{'because of an interruption' if worker.abandoned else 'twice'} (exit status {status})",
        _workers.purpose,
        "find out what kills processes on this machine (memory?), or use a pattern with a kernel "
        "such as 'gpt2'",
    )


def abandon_matching() -> None:
    """End all matching of this process when interrupted; threads get `WorkerLost`."""
    _workers.abandon()
