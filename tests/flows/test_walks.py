"""How many modules of flows and registry a command passes: those in which a function is called.

Imports do not count, so each command runs once before it is watched. The core has numbers of its
own in `test_modules_passed`.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import Result

TRAIN = ("--vocab-size", "400", "--name", "news", "--held-out", "0.1")
# The goals are 14, 18 and 48; `tests/test_budget.py` says why more are passed.
MOST = {"promote": 48, "compare": 46, "train": 113}


def passed(call: Callable[[], Result]) -> set[str]:
    """The modules in which functions were called, in any thread."""
    modules: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            modules.add(frame.f_globals.get("__name__", ""))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return {one for one in modules if one.startswith(("bpeline.flows.", "bpeline.registry."))}


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with ``news/1`` and ``news/2``, where everything that is watched ran once."""
    files = {
        "first.txt": english_and_code[:30_000],
        "second.txt": english_and_code[10_000:50_000],
        "third.txt": english_and_code[20_000:80_000],
    }
    commands = [
        ("train", "first.txt", *TRAIN),
        ("train", "second.txt", *TRAIN),
        ("promote", "news/1"),
        ("compare", "news/1", "news/2", "-o", "before.html"),
    ]
    return folder_after(files, commands)


COMMANDS = {
    "promote": ("promote", "news/2"),
    "compare": ("compare", "news/1", "news/2", "-o", "page.html"),
    "train": ("train", "third.txt", *TRAIN),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_passes_few_modules(command: str, bpeline: Callable[..., Result]) -> None:
    modules = passed(lambda: bpeline(*COMMANDS[command]))
    assert len(modules) <= MOST[command], " ".join(sorted(modules))
