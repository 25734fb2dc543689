"""Steps that a test's workers import: they tell where they ran, and die when they are told to."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from bpeline.flows.running import progress
from bpeline.flows.running.steps import raise_if_stopped
from bpeline.tokenizer_core.errors import InvalidUtf8, StorageError


def tell(number: int, begin: int = 0) -> tuple[int, int]:
    """Where this ran."""
    progress.current().step_advanced("tell", 10)
    time.sleep(0.05)
    return begin + number, os.getpid()


def wait(seconds: float) -> int:
    """Wait until somebody says stop; where this ran."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        raise_if_stopped()
        time.sleep(0.02)
    progress.current().step_advanced("wait", 1)
    return os.getpid()


def wait_for_marks(number: int, marks: Path, wanted: int) -> int:
    """Wait until so many processes have left a mark, half a minute at most; how many there are."""
    progress.current().step_advanced("gather", 1)
    for _ in range(600 if number else 1):
        if len(list(marks.iterdir())) >= wanted:
            break
        time.sleep(0.05)
    return len(list(marks.iterdir()))


def die_once(number: int, marks: Path) -> int:
    """Kill this very process, unless that was done before; an even number never does."""
    mark = marks / str(number)
    if number % 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> None:
    """Kill this very process."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number: int, marks: Path) -> None:
    """The first one fails; the others write down that they were told to stop."""
    if number == 0:
        time.sleep(0.3)
        raise InvalidUtf8("a.txt has a byte", "UTF-8", "look at it")
    for _ in range(500):
        try:
            raise_if_stopped()
        except BaseException:
            (marks / f"stopped-{number}").touch()
            raise
        time.sleep(0.02)


def fail_once(number: int, marks: Path) -> int:
    """Fail at the first attempt of each number."""
    mark = marks / str(number)
    if not mark.exists():
        mark.touch()
        raise StorageError("the network is gone", "a network", "wait for it")
    return number


def refuse_the_first(*places: Path) -> None:
    """In the processes that come first, one for each place: they may not read the store."""
    for place in places:
        with suppress(FileExistsError):
            with place.open("x") as file:
                file.write(str(os.getpid()))
            raise StorageError("s3://store cannot be read", "a key", "give it one")


def leave_a_mark(marks: Path) -> None:
    """Write down which process was prepared."""
    (marks / f"prepared-{os.getpid()}").touch()


def square(number: int) -> int:
    """A function that is no step."""
    return number * number
