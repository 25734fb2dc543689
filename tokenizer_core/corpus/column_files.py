"""Parquet and Arrow files, decoded in processes of their own; here these are kept and asked.

A decoder that crashes, hangs, fills the memory or is taken over by a crafted file ends with its
process (`column_worker`), and the error names the file. Processes start when they are needed, serve
all threads of this process, and end with it.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import bpeline
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.corpus.sources import FileState, SourceFile
from bpeline.tokenizer_core.errors import UnreadableSource, WorkerLost
from bpeline.tokenizer_core.processors import available_processors

# What `column_worker` says of itself, without importing it (it imports pyarrow).
_HEADER = struct.Struct("<BQQ")
_OUT_OF_MEMORY = 75
_DATA, _END, _IDS = 0, 1, 3
_LONGEST_REASON = 1 << 14
_SECONDS, _MEMORY = 120.0, 2 << 30
_SILENCE = 900.0  # seconds without a word after which a process hangs
_EXIT_SECONDS = 10  # for a process that has closed its files to be gone, on a busy machine
_MOST_AT_ONCE = 8 << 30  # bytes in one message that is believed: a single document, at most
_FROM = str(Path(bpeline.__file__).parents[1])
_PURPOSE = "Parquet and Arrow files are decoded in processes of their own"
# The child finds what this process would find, and nothing because of the directory it is in.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from bpeline.tokenizer_core.corpus.column_worker import serve; "
    "serve(int(sys.argv[1]))"
)


class ColumnBlocks:
    """The documents of a part of a file, block by block, each ended by `RECORD_END`.

    Attributes:
        spent: bytes on disk that they took so far.
        row_ids: what names documents, as JSON, at least those that were given.
    """

    def __init__(
        self,
        file: SourceFile,
        path: str,
        state: FileState,
        begin: int,
        end: int,
        field: str | tuple[str, str],
        id_field: str = "",
    ) -> None:
        self.spent = 0
        self.row_ids: deque[bytes] = deque()
        self._file, self._begin = file, min(begin, file.size)
        self._asked = path, state, file.format, begin, end, field, id_field, (_SECONDS, _MEMORY)
        self._blocks = self._received()

    def __iter__(self) -> Iterator[memoryview]:
        return self._blocks

    def close(self) -> None:
        """End reading; a process that is not done is of no use to others."""
        self._blocks.close()

    def _received(self) -> Generator[memoryview, None, None]:
        workers = _workers
        worker = workers.take()
        is_done = False
        try:
            try:
                worker.ask(self._asked)
                while True:
                    kind, spent, content = worker.receive()
                    if kind == _IDS:
                        self.row_ids.extend(bytes(content).splitlines())
                        continue
                    if kind == _DATA:
                        self.spent = max(self.spent, min(spent, self._file.size) - self._begin)
                        yield content
                        continue
                    is_done = True
                    break
            except (EOFError, OSError) as error:
                grace = 0 if isinstance(error, TimeoutError) else _EXIT_SECONDS
                raise self._lost(workers.end(worker, grace=grace), error) from None
        finally:
            if is_done:
                workers.give_back(worker)
            else:
                workers.end(worker)
        if kind != _END:
            self._refuse(content)

    def _lost(self, status: int, error: Exception) -> UnreadableSource:
        kind = "Arrow" if self._file.format == "arrow" else "Parquet"
        if status == -signal.SIGPROF:
            what = f"took more than {_SECONDS:g} s of processor time for a few rows"
        elif status in (_OUT_OF_MEMORY, -signal.SIGABRT):  # C++ ends itself so when it gets none
            what = f"takes more than {_MEMORY >> 20:,} MiB of memory to decode a few rows"
        elif isinstance(error, TimeoutError):
            what = f"gave nothing for {_SILENCE / 60:.0f} minutes"
        else:
            what = f"ended the process that decoded it (exit status {status})"
        return UnreadableSource(
            f"{self._file.path} {what}",
            f"{kind} files that are whole and come from somebody who is trusted: a crafted one can "
            "do this, which is why it is decoded in a process of its own",
            "write it anew, or write its text column as JSON lines (.jsonl)",
        )

    def _refuse(self, told: memoryview) -> None:
        try:
            happened, accepted, advice = map(str, json.loads(bytes(told)))
        except ValueError:
            happened, accepted, advice = "cannot be decoded", "", ""
        raise UnreadableSource(
            f"{self._file.path} {happened}",
            accepted or "complete Parquet or Arrow files with a column of text",
            advice or f"look into it with pyarrow or DuckDB, or write it anew: {self._file.path}",
        )


class _Worker:
    """A process; one reader at a time."""

    def __init__(self, python: str) -> None:
        self.pipe, theirs = socket.socketpair()
        with theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self.pipe.settimeout(_SILENCE)
            self.process = subprocess.Popen(
                [python, "-I", "-c", _PROGRAM, str(theirs.fileno()), _FROM, *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def ask(self, asked: Any) -> None:
        self.pipe.sendall(json.dumps(asked).encode() + b"\n")

    def receive(self) -> tuple[int, int, memoryview]:
        """The next message: bytes, and nothing that is unpickled: what it reads may have harmed it.

        Raises:
            EOFError, OSError: the process is gone, says nothing, or talks nonsense.
        """
        header = self._exactly(17)
        kind, spent, size = (
            header[0],
            *(int.from_bytes(header[i : i + 8], "little") for i in (1, 9)),
        )
        if size > (_MOST_AT_ONCE if kind in (_DATA, _IDS) else _LONGEST_REASON):
            raise EOFError
        return kind, spent, self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        view = np.empty(size, np.uint8).data
        filled = 0
        while filled < size:
            read = self.pipe.recv_into(view[filled:])
            if not read:
                raise EOFError
            filled += read
        return view


class _Workers:
    """All workers of one process: some idle, some lent."""

    def __init__(self) -> None:
        self.all: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._ended = False

    def take(self) -> _Worker:
        """An idle one, or a new one."""
        while self._idle:
            with suppress(IndexError):
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                self.end(worker)
        python = required_python(_PURPOSE, "use .jsonl files")
        try:
            if self._ended:
                raise OSError("this process is about to exit")
            worker = _Worker(python)
        except OSError as error:
            raise WorkerLost(
                f"no process could be started from {python!r}: {error}",
                _PURPOSE,
                "free some memory or processes, or use .jsonl files",
            ) from error
        self.all.add(worker)
        return worker

    def give_back(self, worker: _Worker) -> None:
        """Keep it for the next reader, as long as there are few."""
        if self._ended or len(self._idle) >= available_processors():
            self.end(worker)
        else:
            self._idle.append(worker)

    def end(self, worker: _Worker, *, grace: float = 0) -> int:
        """Kill it; its exit status, after ``grace`` seconds in which it may end on its own."""
        if worker not in self.all:
            return worker.process.wait()
        self.all.discard(worker)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(grace)
        worker.process.kill()
        worker.pipe.close()
        return worker.process.wait()

    def end_all(self) -> None:
        """End idle and busy workers; none are started afterwards."""
        self._ended = True
        for worker in list(self.all):
            self.end(worker)


_workers = _Workers()


def _after_fork() -> None:
    """Leave all workers to the process that started them: this one is a fork of that."""
    global _workers
    for worker in _workers.all:
        worker.pipe.close()
        worker.process.returncode = 0
    _workers = _Workers()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _workers.end_all())
