"""A process beside this one that imports MLflow at once, and the pipe between them.

Importing MLflow is a second of Python, which threads cannot share. Knows how questions and answers
are carried; neither what is asked nor what answers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import bpeline
from bpeline.tokenizer_core.errors import RegistryUnreachable
from bpeline.tokenizer_core.processors import available_processors

# It calculates nothing: threads for that would take a core to wait for work.
_PROGRAM = """
import gc, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, sys.argv[1])
from bpeline.script import NEW_OBJECTS
gc.set_threshold(NEW_OBJECTS)
from bpeline.registry.tracking.tracker_beside import answer_beside
answer_beside(int(sys.argv[2]))
"""


class NobodyThere(Exception):
    """It was not asked: the process is gone."""


class Beside:
    """The process. It ends with this one, whatever ends this one.

    Attributes:
        is_gone: whether it was ended, or found to be.

    Raises:
        OSError: the system has no room for it.
    """

    def __init__(self) -> None:
        self.is_gone = False
        self._pipe, theirs = Pipe()
        self._turn = threading.Lock()
        root = str(Path(bpeline.__file__).parents[1])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, root, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is for this process
            )

    def ask(self, question: Any) -> Any:
        """Its answer; questions of several threads are asked one after another.

        Raises:
            NobodyThere: it is gone.
            RegistryUnreachable: it went before it answered; what it had done by then is not known.
        """
        with self._turn:
            try:
                self._pipe.send(question)
            except OSError as error:
                self.end()
                raise NobodyThere from error
            except BaseException:
                self.end()
                raise
            try:
                return self._pipe.recv()
            except (EOFError, OSError) as error:
                self.end()
                raise RegistryUnreachable(
                    "the process that speaks to MLflow ended before it answered",
                    "accepted is enough memory for it",
                    "type the same command again",
                ) from error
            except BaseException:  # an interruption: the next question would get this answer
                self.end()
                raise

    def end(self) -> None:
        """End it, whatever it does."""
        self.is_gone = True
        self._pipe.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


_present: Beside | None = None


def present() -> Beside | None:
    """The process that was begun; None where there is none."""
    return _present


@contextmanager
def mlflow_beside() -> Iterator[None]:
    """Let the registries that are opened while the block runs speak to MLflow by another process.

    Where there is one already, or no core for one, or MLflow is imported here, nothing changes.
    """
    global _present
    begun = None
    if available_processors() > 1 and _present is None and "mlflow" not in sys.modules:
        with suppress(OSError):
            _present = begun = Beside()
    try:
        yield
    finally:
        if begun is not None:
            _present = None
            begun.end()


def answering(end: int, answer: Callable[[Any], Any]) -> None:
    """Of that process: answer until nobody asks any more.

    Args:
        end: the number of its open file, the pipe's other end.
    """
    with Connection(end) as pipe, suppress(EOFError, OSError):
        while True:
            pipe.send(answer(pipe.recv()))
