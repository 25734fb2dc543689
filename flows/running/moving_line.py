"""A progress line on a terminal while a command is silent.

It is drawn only at the beginning of a line. Watched streams erase it before they write.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, TextIO

from bpeline.flows.running import settings
from bpeline.tokenizer_core.redaction import TextWithoutControls, TextWithoutSecrets

FIRST_SECONDS = 0.05  # so that short commands never show it
SILENT_SECONDS = 0.5  # between output and the line
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_ERASE = b"\r\x1b[K"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class MovingLine:
    """Draws a line on the terminal ``descriptor`` from a thread, until it is stopped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._silent_since = time.monotonic()
        self._wait = FIRST_SECONDS
        self._what = "starting"
        self._drawn = False
        self._at_line_start = True

    def start(self) -> None:
        """Start drawing."""
        threading.Thread(target=self._draw, name="moving line", daemon=True).start()

    def stop(self) -> None:
        """Erase the line and stop drawing."""
        with self._lock:
            self._stopped.set()
            self._erase()

    def before_write(self, text: str) -> None:
        """Erase the line before other output; the caller holds the lock while it writes."""
        self._erase()
        self._silent_since = time.monotonic()
        self._wait, self._what = SILENT_SECONDS, "working"
        visible = _CONTROL.sub("", text)
        if visible:
            self._at_line_start = visible[-1] in "\r\n"
        elif "\x1b[2K" in text:
            self._at_line_start = True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _draw(self) -> None:
        frame = 0
        while not self._stopped.wait(_FRAME_SECONDS if self._drawn else 0.05):
            with self._lock:
                silent = time.monotonic() - self._silent_since
                if self._stopped.is_set() or silent < self._wait or not self._at_line_start:
                    continue
                frame += 1
                shown = f"\r{_FRAMES[frame % len(_FRAMES)]} {self._what}  {silent:.1f} s\x1b[K"
                self._write(shown.encode())
                self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._write(_ERASE)
            self._drawn = False

    def _write(self, shown: bytes) -> None:
        try:
            os.write(self._descriptor, shown)
        except OSError:  # the terminal is gone
            self._stopped.set()


_line: MovingLine | None = None
_first: list[
    TextIO
] = []  # the original streams: if they were collected, they would close the descriptor


def keep_moving(arguments: Sequence[str]) -> None:
    """Draw a line whenever this process is silent, until `stop_moving`.

    Not if standard error is no terminal or cannot erase, with ``--quiet``, or for completions.
    """
    global _line
    is_quiet = {"--quiet", "-q"} & {*arguments}
    if is_quiet or not settings.somebody_watches() or not _is_terminal(sys.stderr):
        return
    _line = MovingLine(sys.stderr.fileno())
    sys.stderr = _watched(_Errors, sys.stderr)
    if _is_terminal(sys.stdout):
        sys.stdout = _watched(_Output, sys.stdout)
    elif sys.stdout is not None:
        sys.stdout = _watched(_EndsLine, sys.stdout)
    if _is_terminal(sys.stdin):
        sys.stdin = _watched(_EndsLine, sys.stdin)
    _line.start()


def stop_moving() -> None:
    """Stop drawing, before prompting or starting another program."""
    if _line is not None:
        _line.stop()


def _is_terminal(stream: TextIO | None) -> bool:
    return isinstance(stream, io.TextIOWrapper) and stream.isatty()


def _watched(kind: type[io.TextIOWrapper], stream: TextIO) -> TextIO:
    _first.append(stream)
    return kind(stream.buffer, stream.encoding, "backslashreplace", line_buffering=True)


class _Bytes(TextWithoutControls):
    @property
    def buffer(self) -> Any:
        """The binary stream, whose use is not watched."""
        stop_moving()
        return super().buffer


class _Watched(_Bytes):
    def write(self, text: str, /) -> int:
        assert _line is not None
        with _line:
            _line.before_write(text)
            written = super().write(text)
            self.flush()
        return written


class _Output(_Watched):
    """Standard output, on a terminal."""


class _Errors(_Watched, TextWithoutSecrets):
    """Standard error, on a terminal."""


class _EndsLine(_Bytes):
    """Redirected standard output, or standard input of a terminal."""

    def write(self, text: str, /) -> int:
        stop_moving()
        return super().write(text)

    def read(self, size: int | None = -1, /) -> str:
        stop_moving()
        return super().read(size)
