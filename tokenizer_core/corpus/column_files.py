"""Decode Parquet and Arrow files in separate processes, see `column_worker`."""

from __future__ import annotations

import json
import signal
from collections import deque
from collections.abc import Generator, Iterator

from bpeline.tokenizer_core.corpus.sources import FileState, SourceFile
from bpeline.tokenizer_core.errors import UnreadableSource
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.worker_processes import EXIT_SECONDS, OUT_OF_MEMORY, Workers

_DATA, _END, _IDS = 1, 2, 3  # as in `column_worker`, which imports pyarrow
_SECONDS, _MEMORY = 120.0, 2 << 30
_SILENCE = 900.0  # seconds without a message until a process counts as hung
_MOST_AT_ONCE = 8 << 30  # bytes in one message: at most one document

_workers = Workers(
    "bpeline.tokenizer_core.corpus.column_worker",
    "Parquet and Arrow files are decoded in separate processes",
    "use .jsonl files",
    available_processors(),
    _SILENCE,
)


class ColumnBlocks:
    """Iterate over blocks of documents, each followed by `RECORD_END`.

    Attributes:
        spent: bytes on disk read so far.
        row_ids: ids as JSON, of at least the documents yielded so far.
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
        self._asked = path, state, file.format, begin, end, field, id_field, _SECONDS, _MEMORY
        self._blocks = self._received()

    def __iter__(self) -> Iterator[memoryview]:
        return self._blocks

    def close(self) -> None:
        self._blocks.close()

    def _received(self) -> Generator[memoryview, None, None]:
        workers = _workers
        worker = workers.take()
        is_done = False
        try:
            try:
                worker.ask(self._asked)
                while True:
                    kind, spent, content = worker.receive(_MOST_AT_ONCE)
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
                grace = 0 if isinstance(error, TimeoutError) else EXIT_SECONDS
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
            problem = f"took more than {_SECONDS:g} s of processor time for a few rows"
        elif status in (OUT_OF_MEMORY, -signal.SIGABRT):  # C++ aborts without memory
            problem = f"takes more than {_MEMORY >> 20:,} MiB of memory to decode a few rows"
        elif isinstance(error, TimeoutError):
            problem = f"gave no data for {_SILENCE / 60:.0f} minutes"
        else:
            problem = f"crashed the process that decoded it (exit status {status})"
        return UnreadableSource(
            f"{self._file.path} {problem}",
            f"expected a complete {kind} file from a source you trust: a crafted file can do this",
            "write the file again, or write its text column as JSON lines (.jsonl)",
        )

    def _refuse(self, reason: memoryview) -> None:
        try:
            message, expected, advice = map(str, json.loads(bytes(reason)))
        except ValueError:
            message, expected, advice = "cannot be decoded", "", ""
        raise UnreadableSource(
            f"{self._file.path} {message}",
            expected or "expected a complete Parquet or Arrow file with a column of text",
            advice or f"inspect it with pyarrow or DuckDB, or write it again: {self._file.path}",
        )
