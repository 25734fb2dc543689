"""A command that gets a signal in its middle: a process of its own, at a chosen call."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

# Runs the command line; the process sends itself a signal when one function has been called so
# many times. Checkpoints are written after every merge, so that there is always a middle.
PROGRAM = """
import importlib, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a shell's job asks us
place, name, times, number = sys.argv[1:5]
from bpeline.tokenizer_core.merging import learning
Schedule = learning.CheckpointSchedule
learning.CheckpointSchedule = lambda path, blank, saved, every: Schedule(path, blank, saved, 1)
module = importlib.import_module(place)
original, calls = getattr(module, name), 0
def counting(*arguments, **options):
    global calls
    result = original(*arguments, **options)
    calls += 1
    if calls == int(times):
        os.kill(os.getpid(), int(number))
    return result
# Where the process is a fork of a warm one, other modules have it by its name already.
for one in list(sys.modules.values()):
    if vars(one).get(name) is original:
        setattr(one, name, counting)
sys.argv = ["bpeline", *sys.argv[5:]]
from bpeline.flows.cli.main import main
main()
"""


Interrupted = Callable[..., subprocess.CompletedProcess[str]]


def interrupting(warm: Path) -> Interrupted:
    """``interrupted(place, name, times, number, *typed)``: a command, and how it ended.

    Args:
        warm: the folder of `warm_commands`.
    """

    def interrupted(
        place: str, name: str, times: int, number: int, *typed: str
    ) -> subprocess.CompletedProcess[str]:
        command = [warm / "own/python", "-c", PROGRAM, place, name, str(times), str(number), *typed]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    return interrupted


SAVE = ("bpeline.tokenizer_core.merging.checkpoint", "save_checkpoint")
