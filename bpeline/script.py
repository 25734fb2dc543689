"""The script ``bpeline``: Ctrl-C ends it without a traceback while the command line is loaded, and
no process that it starts imports what lies in the current directory.

Imports nothing of ours before that is so.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType

INTERRUPTED = 130
# Importing MLflow or loading a vocab makes half a million objects that stay: with Python's 700,
# looking through them for cycles takes a sixth to a third of that time, with 100,000 a twentieth.
NEW_OBJECTS = 1_000_000


def main() -> None:
    """Entry point of the script ``bpeline``."""
    gc.set_threshold(NEW_OBJECTS)
    for closed in range(3):  # or the next file that is opened would be a standard stream
        try:
            os.fstat(closed)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # `python -c` and `python -m`, by which MLflow, Prefect and Dask start processes, would look for
    # every module here first: a signal.py or typing.py is somebody's.
    os.environ["PYTHONSAFEPATH"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may ignore it
        signal.signal(signal.SIGINT, leave_at_once)
    from bpeline.flows.cli.main import main as run

    run()


def leave_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process, in which nothing was begun yet, or all is done."""
    os.write(2, b"\r\x1b[Kinterrupted\n" if os.isatty(2) else b"interrupted\n")
    os._exit(INTERRUPTED)
