"""What a process of its own does for a split pattern without a kernel: cut, within limits.

It reads requests from one pipe and answers on another until its parent is gone. The operating
system enforces the limits, so they hold inside of the ``regex`` package and of segmenters too:
processor time by a timer whose signal ends the process, memory by its address space. Knows nothing
of processes but its own.

A request: `REQUEST` (kind, bytes of the pattern, number of spans, bytes of the text, seconds,
seconds per MB, seconds per MB done, bytes of memory), the pattern in UTF-8 (a regex, or the
identity of a segmenter), spans (int64 ``[n, 2]``), the text. The answer: `ANSWER` (status, size),
then a bitmap of that many bytes with a bit for each byte of the text where a pre-token starts; or
so many bytes of text that say what went wrong.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import regex
from numpy.typing import NDArray

REQUEST = struct.Struct("<BQQQdddQ")
ANSWER = struct.Struct("<BQ")
READY = b"bpeline regex worker 2\n"
REGEX, SEGMENTER = 0, 1
DONE, OUT_OF_MEMORY, FAILED = 0, 1, 2

Edges = Callable[[str], Iterator[NDArray[np.int64]]]

_AT_ONCE = 1 << 12  # matches or segments
_MB = 1e6


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parent, base = os.getppid(), _address_space()
    answers.write(READY)
    answers.flush()
    while header := requests.read(REQUEST.size):
        kind, pattern_size, span_count, size, *seconds, memory = REQUEST.unpack(header)
        pattern = requests.read(pattern_size).decode()
        spans = np.frombuffer(requests.read(16 * span_count), np.int64).reshape(-1, 2)
        content = requests.read(size)
        go_on = _allowance(parent, size, *seconds)
        status, answer = FAILED, b""
        try:
            with _memory_limit(base + memory if base else 0):
                edges_of = _matches_of(pattern) if kind == REGEX else _segments_of(pattern)
                marks = mark(np.frombuffer(content, np.uint8), spans, edges_of, go_on)
                status, answer = DONE, marks.tobytes()
        except MemoryError:
            status = OUT_OF_MEMORY
        except BaseException as error:  # what Rust panics with, as Sudachi may, is no Exception
            answer = f"{type(error).__name__}: {error}".encode(errors="replace")
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(ANSWER.pack(status, len(answer)))
        answers.write(answer)
        answers.flush()


def _allowance(
    parent: int, size: int, seconds: float, per_mb: float, per_mb_done: float
) -> Callable[[int], None]:
    """Set a timer whose signal ends this process; gives what sets it anew when bytes are done."""
    end = time.process_time() + seconds + per_mb * size / _MB

    def go_on(done: int) -> None:
        if os.getppid() != parent:
            os._exit(0)  # nobody waits for the answer
        left = end + per_mb_done * done / _MB - time.process_time()
        signal.setitimer(signal.ITIMER_PROF, max(left, 1e-3))  # zero would switch it off

    go_on(0)
    return go_on


def mark(
    text: NDArray[np.uint8],
    spans: NDArray[np.int64],
    edges_of: Edges,
    go_on: Callable[[int], None],
) -> NDArray[np.uint8]:
    """Where pre-tokens start.

    Args:
        text: uint8 ``[size]``, UTF-8 within the spans.
        spans: int64 ``[n, 2]``, half-open, each cut on its own.
        edges_of: gives where the pre-tokens of a string start and end, but for its end: int64
            arrays, ascending.
        go_on: told after each array how many bytes are done.

    Returns:
        uint8 ``[ceil((size + 1) / 8)]``: bit ``i & 7`` of byte ``i >> 3`` for byte i of the text.
    """
    marked = np.zeros(text.size + 1, np.bool_)
    for begin, end in spans.tolist():
        if begin == end:
            continue
        marked[begin] = True
        characters = str(text[begin:end].data, "utf-8")
        # Edges ascend, so characters are found among bytes a stretch at a time.
        character, byte = 0, begin
        for found in edges_of(characters):
            edges = found - character
            if edges.size:
                furthest = int(edges[-1])
                stretch = text[byte : min(byte + 4 * furthest + 4, end)]
                bytes_of = np.flatnonzero((stretch & 0xC0) != 0x80)
                marked[byte + bytes_of[edges]] = True
                character += furthest
                byte += int(bytes_of[furthest])
            go_on(byte)
    return np.packbits(marked, bitorder="little")


def _matches_of(pattern: str) -> Edges:
    """Every non-empty match is a pre-token, and so is what lies between."""
    compiled = regex.compile(pattern)

    def edges_of(characters: str) -> Iterator[NDArray[np.int64]]:
        matches = compiled.finditer(characters)
        while batch := [edge for match in islice(matches, _AT_ONCE) for edge in match.span()]:
            matched = np.array(batch, np.int64).reshape(-1, 2)
            edges = matched[matched[:, 0] < matched[:, 1]].ravel()
            yield edges[edges < len(characters)]

    return edges_of


@lru_cache(maxsize=1)
def _segments_of(identity: str) -> Edges:
    """Segments of the segmenter that is meant, whose dictionary is loaded now.

    Raises:
        LookupError: another version, or another dictionary, is installed.
    """
    from bpeline.tokenizer_core.splitting.segmenters import SEGMENTERS
    from bpeline.tokenizer_core.splitting.segmenting import segmenter_named

    name = identity.partition(",")[0]
    if SEGMENTERS[name].identity != identity:
        raise LookupError(f"{SEGMENTERS[name].identity} is installed, not {identity}")
    lengths_of = segmenter_named(name)

    def edges_of(characters: str) -> Iterator[NDArray[np.int64]]:
        lengths = iter(lengths_of(characters))
        end = 0
        while batch := list(islice(lengths, _AT_ONCE)):
            edges = np.cumsum(np.array(batch, np.int64)) + end
            end = int(edges[-1])
            yield edges[edges < len(characters)]
        if end != len(characters):
            raise ValueError(f"segments cover {end} of {len(characters)} characters")

    return edges_of


def _address_space() -> int:
    """Bytes of address space in use, or 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextlib.contextmanager
def _memory_limit(limit: int) -> Any:
    """Limit the address space where the system can; a limit that was there before stays."""
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    if not limit or 0 <= before <= limit or 0 <= hard <= limit:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
