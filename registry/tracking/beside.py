"""A process beside this one that imports MLflow at once, and the pipe between them.

Importing MLflow is a second of Python, which threads cannot share. Knows how questions and answers
are carried; neither what is asked nor what answers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

from bpeline.tokenizer_core.another_python import another_python
from bpeline.tokenizer_core.errors import RegistryUnreachable
from bpeline.tokenizer_core.processors import available_processors

# It calculates nothing: threads for that would take a core to wait for work.
_PROGRAM = """
import gc, os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from bpeline.script import NEW_OBJECTS
gc.set_threshold(NEW_OBJECTS)
from bpeline.registry.tracking.tracker_beside import answer_beside
answer_beside(int(sys.argv[1]))
"""


class NobodyThere(Exception):
    """It was not asked: the process is gone, or could not be begun."""


class NotPickled(NobodyThere):
    """It was not asked: the question cannot be pickled, or not be read by the other process."""


class Beside:
    """The process. It ends with this one, whatever ends this one.

    Attributes:
        is_gone: whether it was ended, or found to be.
        turn: held while it is asked.

    Raises:
        NobodyThere: there is no Python to run, or no room for it.
        OSError: this process may open no more files.
    """

    def __init__(self) -> None:
        self.is_gone = False
        self._pipe, theirs = Pipe()
        self.turn = threading.RLock()
        with theirs:
            end = theirs.fileno()
            process = another_python(_PROGRAM, str(end), pass_fds=[end])
        if process is None:
            self._pipe.close()
            raise NobodyThere
        self._process = process

    def ask(self, question: Any) -> Any:
        """Its answer; questions of several threads are asked one after another.

        Raises:
            NobodyThere: it is gone.
            NotPickled: it is not, and cannot be given this question.
            RegistryUnreachable: it went before it answered, or its answer cannot be read; what it
                had done by then is not known.
        """
        with self.turn:
            try:
                self._pipe.send(question)
            except OSError as error:
                self.end()
                raise NobodyThere from error
            except Exception as error:  # pickling fails before anything is sent
                raise NotPickled from error
            except BaseException:
                self.end()
                raise
            try:
                answer = self._pipe.recv()
            except (EOFError, OSError) as error:
                self.end()
                raise RegistryUnreachable(
                    "the process that speaks to MLflow ended, or was ended, before it answered",
                    "accepted is memory enough for it, and nobody who ends it before the command",
                    "type the same command again",
                ) from error
            except MemoryError:  # of an answer that is half received
                self.end()
                raise
            except Exception as error:  # of all that was received
                raise RegistryUnreachable(
                    f"the process that speaks to MLflow said what cannot be read here: {error!r}",
                    "accepted is an installation whose parts fit together",
                    "type `bpeline doctor`, then the same command again",
                ) from error
            except BaseException:  # an interruption: the next question would get this answer
                self.end()
                raise
        if isinstance(answer, NotPickled):
            raise answer
        return answer

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
def mlflow_beside(tracking_uri: str | None) -> Iterator[None]:
    """Let the registries that are opened while the block runs speak to MLflow by another process.

    Where there is one already, or no core for one, or MLflow is imported here or is no SQLite
    file, nothing changes.

    Args:
        tracking_uri: of the MLflow; None for the SQLite file inside a workspace.
    """
    global _present
    begun = None
    if _present is None and _is_of_use(tracking_uri):
        with suppress(NobodyThere, OSError):
            _present = begun = Beside()
    try:
        yield
    finally:
        if begun is not None:
            _present = None
            begun.end()


def _is_of_use(tracking_uri: str | None) -> bool:
    if available_processors() == 1 or "mlflow" in sys.modules:
        return False
    if tracking_uri is None:  # at once: what the next line imports takes longer than all before
        return True
    from bpeline.registry.tracking.mlflow_database import database_of

    return database_of(tracking_uri) is not None


def answering(end: int, answer: Callable[[Any, Callable[[Any], None]], None]) -> None:
    """Of that process: answer until nobody asks any more.

    Args:
        end: the number of its open file, the pipe's other end.
        answer: is given a question, and what carries its answer back.
    """
    with Connection(end) as pipe, suppress(EOFError, OSError):
        while True:
            try:
                question = pipe.recv()
            except (EOFError, OSError):
                return
            except Exception:  # a class that only the asking process can import
                pipe.send(NotPickled())
            else:
                answer(question, pipe.send)
