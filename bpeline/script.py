"""Entry point of the command ``bpeline``: Ctrl-C handling and safe import paths.

Imports no other bpeline module before both are set up.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType

INTERRUPTED = 130
# Importing MLflow or loading a vocab creates half a million lasting objects. Garbage collection
# takes 17 to 33 % of that time at Python's threshold of 700, and 5 % at 100,000.
NEW_OBJECTS = 1_000_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(NEW_OBJECTS)
    for descriptor in range(3):  # else the next opened file would become a standard stream
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # MLflow, Prefect and Dask start `python -c` and `python -m`, which would import modules from
    # the current directory first, such as a user's signal.py or typing.py.
    os.environ["PYTHONSAFEPATH"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # shells may ignore SIGINT
        signal.signal(signal.SIGINT, leave_at_once)
    from bpeline.flows.cli.main import main as run

    run()


def leave_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process without a traceback; used before and after the command's work."""
    os.write(2, b"\r\x1b[Kinterrupted\n" if os.isatty(2) else b"interrupted\n")
    os._exit(INTERRUPTED)
