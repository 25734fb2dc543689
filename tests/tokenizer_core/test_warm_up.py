"""The list of warm-ups: it leaves no kernel out, and a broken one is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bpeline.tokenizer_core import warm_up
from bpeline.tokenizer_core.errors import BpelineError

WARM_UP_EVERYTHING = """
from importlib import import_module
from pkgutil import walk_packages
from numba.core.dispatcher import Dispatcher
import bpeline.tokenizer_core as core
from bpeline.tokenizer_core.warm_up import WARM_UPS, warm_up

for name, _ in WARM_UPS:
    warm_up(name)
found, called, reached = {}, set(), set()
for module in walk_packages(core.__path__, "bpeline.tokenizer_core."):
    for name, value in vars(import_module(module.name)).items():
        if isinstance(value, Dispatcher):
            found[value.py_func] = value
            if value.signatures:
                called.add(value.py_func)
pending = list(called)
while pending:  # kernels that come out of the cache hold those that they call
    function = pending.pop()
    reached.add(function)
    for name in function.__code__.co_names:
        inner = getattr(function.__globals__.get(name), "py_func", None)
        if inner is not None and inner not in reached:
            pending.append(inner)
print(sorted(f"{function.__module__}.{function.__name__}" for function in set(found) - reached))
"""


@pytest.mark.slow
def test_no_kernel_is_left_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARM_UP_EVERYTHING], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_group_is_compiled_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [name for name, _ in warm_up.WARM_UPS]
    monkeypatch.setattr(warm_up, "_PROGRAM", "import sys; assert sys.argv[2] != 'broken'")
    took = dict(warm_up.compile_all())
    assert sorted(took) == sorted(named)
    assert all(seconds > 0 for seconds in took.values())
    monkeypatch.setattr(warm_up, "WARM_UPS", (("broken", lambda: None),))
    with pytest.raises(BpelineError, match=r"'broken' cannot be compiled: [^\\0]*AssertionError"):
        list(warm_up.compile_all())
