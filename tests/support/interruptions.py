"""A command that gets a signal in its middle: a process of its own, at a chosen call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bpeline import flows

ROOT = Path(flows.__file__).parents[1]

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
setattr(module, name, counting)
sys.argv = ["bpeline", *sys.argv[5:]]
from bpeline.flows.cli.main import main
main()
"""


def interrupted(
    place: str, name: str, times: int, number: int, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, place, name, str(times), str(number), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


SAVE = ("bpeline.tokenizer_core.merging.checkpoint_schedule", "save_checkpoint")
