"""Freed memory goes back to the system where it can, and nothing happens where it cannot."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bpeline.tokenizer_core import freed_memory
from bpeline.tokenizer_core.freed_memory import return_freed_memory


@pytest.fixture(autouse=True)
def ask_again() -> Iterator[None]:
    freed_memory._trim.cache_clear()
    yield
    freed_memory._trim.cache_clear()


def resident_megabytes() -> float:
    status = Path("/proc/self/status").read_text().split("VmRSS:")[1]
    return int(status.split()[0]) / 1024


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="only glibc keeps freed memory and gives it back when asked",
)
def test_freed_memory_is_returned() -> None:
    blocks = [bytes(50_000) for _ in range(2_000)]  # below what glibc gets from the system singly
    last = bytes(50_000)
    before = resident_megabytes()
    del blocks
    return_freed_memory()
    assert resident_megabytes() < before - 50
    assert len(last) == 50_000


@pytest.mark.parametrize(
    "library", [SimpleNamespace(), OSError("no library"), TypeError("no None")]
)
def test_other_systems_are_left_alone(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_library(_: None) -> Any:
        if isinstance(library, Exception):
            raise library
        return library

    monkeypatch.setattr(freed_memory.ctypes, "CDLL", open_library)
    return_freed_memory()
    assert freed_memory._trim() is None
