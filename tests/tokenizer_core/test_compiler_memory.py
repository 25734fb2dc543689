"""The compiler gives pages back, they come again when it works, and nothing else is touched."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from bpeline.tokenizer_core.kernels.compiling import compiler_memory
from bpeline.tokenizer_core.kernels.compiling.compiler_memory import give_back_compiler

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Iterator[None]:
    compiler_memory._code.cache_clear()
    yield
    compiler_memory._code.cache_clear()


def kilobytes_of_code() -> tuple[int, int]:
    """Resident pages of the library's machine code, and those that are in no file."""
    found = {"Rss": 0, "Anonymous": 0}
    is_code = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_code = "/libllvmlite" in line and " r-xp " in line
        elif is_code and (name := line.split(":")[0]) in found:
            found[name] += int(line.split()[1])
    return found["Rss"], found["Anonymous"]


@LINUX
def test_pages_go_and_come_back() -> None:
    assert numba.njit(lambda number: number + 1)(41) == 42
    before, written = kilobytes_of_code()
    assert before > 1_000
    assert written == 0
    give_back_compiler()
    assert kilobytes_of_code()[0] < before // 4
    assert numba.njit(lambda number: number + 2)(40) == 42
    assert kilobytes_of_code()[0] > 1_000


def test_where_the_system_does_not_say_nothing_is_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiler_memory, "_MAPS", tmp_path / "none")
    give_back_compiler()
    assert compiler_memory._code() == []


def test_only_code_that_nobody_writes_is_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "1000-3000 r--p 00000000 fe:00 7   /place/libllvmlite.so\n"
        "3000-8000 r-xp 00003000 fe:00 7   /a place/libllvmlite.so\n"
        "8000-9000 rw-p 00008000 fe:00 7   /place/libllvmlite.so\n"
        "9000-a000 r-xp 00000000 fe:00 8   /place/libother.so\n"
        "a000-b000 rwxp 00000000 00:00 0\n"
        "b000-c000 ---p 00000000 00:00 0\n"
    )
    monkeypatch.setattr(compiler_memory, "_MAPS", maps)
    assert compiler_memory._code() == [(0x3000, 0x5000)]
