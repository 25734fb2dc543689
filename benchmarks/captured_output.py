"""What native code prints, kept from the terminal: it writes past Python's own streams."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def captured_errors() -> Iterator[Callable[[], str]]:
    """Standard error of the whole process goes into a file; the function returns its text."""
    with _into_file(2) as said:
        yield said


@contextmanager
def silenced_output() -> Iterator[None]:
    """Standard output of the whole process goes nowhere."""
    with _into_file(1):
        yield


@contextmanager
def _into_file(descriptor: int) -> Iterator[Callable[[], str]]:
    text = ""
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield lambda: text
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)
            file.seek(0)
            text = file.read().decode(errors="replace")
