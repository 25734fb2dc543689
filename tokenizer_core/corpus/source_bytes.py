"""Read the decompressed content of one source file by position.

Plain files are read by seeking. Compressed files are a stream: memory holds the window from the
last piece taken to the furthest byte peeked at.
"""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.corpus.column_files import ColumnBlocks
from bpeline.tokenizer_core.corpus.file_kinds import HEAD_BYTES
from bpeline.tokenizer_core.corpus.first_look import (
    COMPRESSIONS,
    DAMAGED,
    decompressed,
    refuse_other_content,
)
from bpeline.tokenizer_core.corpus.sources import FileState, SourceFile, not_a_regular_file
from bpeline.tokenizer_core.corpus.text_records import document_blocks
from bpeline.tokenizer_core.errors import CorpusChanged, CorpusError, UnreadableSource
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import Memory, fresh
from bpeline.tokenizer_core.remote_files import RangeReader, describe, read_file
from bpeline.tokenizer_core.text import Text

# Minimum bytes per request, for files read by position and for streams.
_REMOTE_AHEAD = (1 << 20, 8 << 20)
_PLAIN_BLOCK = 1 << 20
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# Nanoseconds to wait after a file's last change. A write sets the times before it copies, rounded
# down to the system's tick (up to 10 ms), so a second write soon after may not change them. Some
# file systems keep whole or even seconds. Not detected: one longer write, and writes through mmap.
_SETTLED, _SETTLED_IN_SECONDS = 20_000_000, 2_000_000_000
# A file that expands more than this is a decompression bomb; text stays below 50.
_HIGHEST_RATIO = 200
_RATIO_MATTERS_FROM = 64 << 20  # decompressed bytes


class SourceBytes(Protocol):
    """Random access to the content of a source file, whatever its compression."""

    def reach(self, position: int) -> int:
        """Return ``position``, or the number of bytes if that is smaller."""

    def peek(self, begin: int, size: int) -> bytes:
        """Return ``size`` bytes from ``begin`` on, or fewer at the end of the file."""

    def take(self, begin: int, end: int) -> Text:
        """Copy the bytes in [begin, end); earlier bytes are then no longer available."""

    def row_ids(self, rows: int) -> list[bytes]:
        """Return the ids of the next ``rows`` documents taken, as JSON, if there are any."""

    def spent(self, position: int) -> int:
        """Return the bytes on disk read to know the text up to ``position``."""

    def close(self) -> None:
        """Release the file."""


def open_source(
    file: SourceFile,
    look_back: int,
    field: str | tuple[str, str] = "",
    part: tuple[int, int] | None = None,
    id_field: str = "",
    memory: Memory = fresh,
) -> SourceBytes:
    """Open a source file for reading, if it has not changed since it was found.

    Args:
        look_back: bytes before the end of the last piece taken that can still be peeked at.
        field: the text column of a file of records; the two columns of word counts.
        part: read only what begins in this range of bytes on disk (see `SourceFile.has_parts`);
            positions count from there.
        id_field: the column of ids in a file of records; empty for none.
        memory: allocates the bytes of each piece of a plain file.

    Raises:
        CorpusChanged: the file is gone, or another file, size or time of change.
        UnreadableSource: the file may not be read, or is not a regular file.
    """
    opened = RemoteSource(file) if file.is_remote else _open_local(file)
    try:
        opened.refuse_change()
        return _read_by(file, opened, look_back, field, part, id_field, memory)
    except BaseException:
        opened.close()
        raise


def _read_by(
    file: SourceFile,
    opened: OpenSource,
    look_back: int,
    field: str | tuple[str, str],
    part: tuple[int, int] | None,
    id_field: str,
    memory: Memory,
) -> SourceBytes:
    if not file.is_streamed:
        return PlainBytes(file, opened, memory)
    if file.format in ("parquet", "arrow", "counts"):
        return StreamedBytes(file, opened, look_back, _Records(file, opened, field, part, id_field))
    if file.is_of_records:
        assert isinstance(field, str)
        return StreamedBytes(file, opened, look_back, _TextRecords(file, opened, field, id_field))
    return StreamedBytes(file, opened, look_back, _Decompressed(file, opened))


def read_plain(file: SourceFile, view: memoryview) -> None:
    """Read a whole plain local file into ``view``; raises as `open_source`."""
    descriptor = _descriptor_of(file)
    try:
        _refuse_change(file, descriptor)
        filled = 0
        while filled < len(view):
            try:
                read = os.readv(descriptor, [view[filled:] if filled else view])
            except OSError as error:
                _refuse_change(file, descriptor)
                raise _unreadable(file, filled, error) from error
            if not read:
                raise changed(file, f"it ends at byte {filled}")
            filled += read
        _refuse_change(file, descriptor)
    finally:
        os.close(descriptor)
    refuse_other_content(file.path, file.format, bytes(view[:HEAD_BYTES]))


def _open_local(file: SourceFile) -> LocalSource:
    descriptor = _descriptor_of(file)
    try:
        _refuse_change(file, descriptor)  # first, as `LocalSource` cannot open a directory
    except BaseException:
        os.close(descriptor)
        raise
    return LocalSource(descriptor, file)


def _descriptor_of(file: SourceFile) -> int:
    settled = _SETTLED if file.ctime_ns % 1_000_000_000 else _SETTLED_IN_SECONDS
    age = time.time_ns() - file.ctime_ns
    if abs(age) < settled:
        time.sleep((settled - age) / 1e9)
    try:
        # Non-blocking: the file may now be a pipe, which would wait forever.
        return os.open(file.path, _TO_READ)
    except FileNotFoundError as error:
        raise changed(file, "it is gone") from error
    except OSError as error:
        raise UnreadableSource(
            f"{file.path} cannot be opened: {error.strerror}",
            "expected a regular file that you may read",
            f"ls -l {shlex.quote(file.path)}",
        ) from error


def _refuse_change(file: SourceFile, descriptor: int) -> None:
    """Raise `CorpusChanged` unless an open file is as it was when it was found."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise not_a_regular_file(file.path, status.st_mode)
    now = FileState.of(status)
    if now == (file.size, file.mtime_ns, file.ctime_ns, file.inode):
        return
    if now.inode != file.inode:
        raise changed(file, "it was replaced by another file")
    if now.size != file.size:
        raise changed(file, f"it had {file.size} bytes and now has {now.size}")
    raise changed(file, "it was written to, or its name, permissions or times changed")


class LocalSource(FileIO):
    """An open file on this machine."""

    def __init__(self, descriptor: int, file: SourceFile) -> None:
        super().__init__(descriptor, "r", closefd=True)
        self._file = file

    def refuse_change(self) -> None:
        _refuse_change(self._file, self.fileno())


class RemoteSource(RangeReader):
    """A file in an object store, read in ranges."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file.path, file.size, _REMOTE_AHEAD[file.compression is not None])
        self._file = file

    def refuse_change(self) -> None:
        file = self._file
        try:
            now = describe(file.path)
        except FileNotFoundError as error:
            raise changed(file, "it is gone") from error
        except OSError as error:
            raise UnreadableSource(
                f"{file.path} cannot be read: {error.strerror or error}",
                "expected a store that responds, and credentials that may read the file",
                "run the same command again; finished work is kept",
            ) from error
        if now.size != file.size:
            raise changed(file, f"it had {file.size} bytes and now has {now.size}")
        if now.fingerprint not in (None, file.inode):
            raise changed(file, "it was written again")


OpenSource = LocalSource | RemoteSource


def changed(file: SourceFile, how: str) -> CorpusChanged:
    return CorpusChanged(
        f"{file.path} changed while it was being read: {how}",
        "expected files that do not change during a run",
        "run the same command again when nothing writes to the corpus",
    )


class PlainBytes:
    """An uncompressed file, read by seeking."""

    def __init__(self, file: SourceFile, opened: OpenSource, memory: Memory) -> None:
        self._file = file
        self._opened = opened
        self._memory = memory

    def reach(self, position: int) -> int:
        return min(position, self._file.size)

    def peek(self, begin: int, size: int) -> bytes:
        return self.take(begin, self.reach(begin + size)).bytes()

    def take(self, begin: int, end: int) -> Text:
        data = self._memory(end - begin + PADDING)
        data[end - begin :] = 0
        view = data.data[: end - begin]
        self._opened.seek(begin)
        filled = 0
        while filled < len(view):
            read = self._read_into(view[filled:])
            if not read:
                raise changed(self._file, f"it ends at byte {begin + filled}")
            filled += read
        self._opened.refuse_change()
        if begin == 0:
            refuse_other_content(self._file.path, self._file.format, bytes(view[:HEAD_BYTES]))
        return Text(data, end - begin)

    def row_ids(self, rows: int) -> list[bytes]:
        return []

    def spent(self, position: int) -> int:
        return position

    def _read_into(self, view: memoryview) -> int:
        try:
            return self._opened.readinto(view) or 0
        except OSError as error:
            self._opened.refuse_change()
            raise _unreadable(self._file, self._opened.tell(), error) from error

    def close(self) -> None:
        self._opened.close()


class _Blocks(Protocol):
    """The content of a streamed file, block by block."""

    def __iter__(self) -> Iterator[bytes | memoryview]: ...

    @property
    def spent(self) -> int:
        """Bytes on disk read so far."""

    @property
    def row_ids(self) -> deque[bytes]:
        """Ids of the documents that are not taken yet."""

    def close(self) -> None: ...


class _Decompressed:
    """A compressed file."""

    def __init__(self, file: SourceFile, opened: OpenSource) -> None:
        self._opened = opened
        self._blocks = _blocks_of(file, opened)
        self.row_ids: deque[bytes] = deque()

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    @property
    def spent(self) -> int:
        return self._opened.tell()

    def close(self) -> None:
        """Nothing to release: the caller closes the file."""


class _TextRecords(_Decompressed):
    """A file of text records, compressed or not."""

    def __init__(self, file: SourceFile, opened: OpenSource, field: str, id_field: str) -> None:
        super().__init__(file, opened)
        place = file.path, file.format, field
        self._blocks = document_blocks(self._blocks, *place, id_field, self.row_ids)


class _Records:
    """A file of records that another process decodes; a remote file is copied first."""

    def __init__(
        self,
        file: SourceFile,
        opened: OpenSource,
        field: str | tuple[str, str],
        part: tuple[int, int] | None,
        id_field: str,
    ) -> None:
        self._copy = None
        path, state = file.path, file.state
        if file.is_remote:
            self._copy = _copied(file)
            path = self._copy.name
            state = FileState.of(os.stat(path))
        begin, end = part or (0, file.size + 1)
        if begin == 0:
            with open_file(path) as there:
                refuse_other_content(file.path, file.format, there.read(HEAD_BYTES))
        self._columns = ColumnBlocks(file, path, state, begin, end, field, id_field)
        self._opened = opened

    def __iter__(self) -> Iterator[memoryview]:
        yield from self._columns
        self._opened.refuse_change()

    @property
    def spent(self) -> int:
        return self._columns.spent

    @property
    def row_ids(self) -> deque[bytes]:
        return self._columns.row_ids

    def close(self) -> None:
        self._columns.close()
        if self._copy is not None:
            self._copy.close()


def _copied(file: SourceFile) -> Any:
    copy = tempfile.NamedTemporaryFile(  # noqa: SIM115
        prefix="bpeline-", suffix=f".{file.format}"
    )
    try:
        read_file(file.path, Path(copy.name))
    except OSError as error:
        copy.close()
        raise UnreadableSource(
            f"{file.path} cannot be read: {error.strerror or error}",
            "expected a store that responds, and credentials that may read the file",
            "run the same command again; finished work is kept",
        ) from error
    return copy


class StreamedBytes:
    """A file read from its beginning; positions count bytes of its content."""

    def __init__(
        self, file: SourceFile, opened: OpenSource, look_back: int, blocks: _Blocks
    ) -> None:
        self._file = file
        self._opened = opened
        self._look_back = look_back
        self._all = blocks
        self._blocks = iter(blocks)
        self._window = bytearray()
        self._begin = 0  # position of the window's first byte

    def reach(self, position: int) -> int:
        self._read_up_to(position)
        return min(position, self._begin + len(self._window))

    def peek(self, begin: int, size: int) -> bytes:
        self._read_up_to(begin + size)
        return bytes(self._window[begin - self._begin : begin + size - self._begin])

    def take(self, begin: int, end: int) -> Text:
        self._read_up_to(end)
        with memoryview(self._window) as window:
            text = Text.of(window[begin - self._begin : end - self._begin])
        window_begin = max(self._begin, end - self._look_back)
        # A copy, not a resize: a thread that inspects frames (Dask's profiler) may still hold the
        # view above, which forbids resizing.
        self._window = self._window[window_begin - self._begin :]
        self._begin = window_begin
        return text

    def row_ids(self, rows: int) -> list[bytes]:
        waiting = self._all.row_ids
        return [waiting.popleft() for _ in range(min(rows, len(waiting)))]

    def spent(self, position: int) -> int:
        return self._all.spent

    def _read_up_to(self, end: int) -> None:
        while self._begin + len(self._window) < end:
            position = self._begin + len(self._window)
            try:
                block = next(self._blocks, None)
            except DAMAGED as error:
                self._opened.refuse_change()
                raise _unreadable(self._file, position, error, self._all.spent) from error
            if block is None:
                self._opened.refuse_change()
                return
            self._window += block
            position += len(block)
            if position > _RATIO_MATTERS_FROM and position > _HIGHEST_RATIO * self._all.spent:
                raise UnreadableSource(
                    f"{self._file.path} is a decompression bomb: {position} bytes so far",
                    f"expected compressed text that expands at most {_HIGHEST_RATIO} times",
                    "if this is intended, decompress it first: zstd -d, gzip -d, or DuckDB "
                    f"{self._file.path}",
                )

    def close(self) -> None:
        self._all.close()
        self._opened.close()


def _unreadable(
    file: SourceFile, position: int, error: Exception, spent: int | None = None
) -> CorpusError:
    command = {"gz": "gzip -t", "zst": "zstd -t", "bz2": "bzip2 -t", "xz": "xz -t"}.get(
        file.compression or "", "ls -l"
    )
    if isinstance(error, FileNotFoundError):
        return changed(file, "it is gone")
    near = "" if spent is None else f", within the first {spent} of {file.size} bytes on disk"
    return UnreadableSource(
        f"{file.path} is broken after byte {position} of its text{near}: {error}",
        "expected a complete file; several compressed members are read as one text",
        "run the same command again" if file.is_remote else f"{command} {shlex.quote(file.path)}",
    )


def _blocks_of(file: SourceFile, opened: OpenSource) -> Iterator[bytes]:
    """Yield the content of a text file, after a check of its first bytes."""
    if file.compression is None:
        blocks = iter(lambda: opened.read(_PLAIN_BLOCK), b"")
    else:
        refuse_other_content(file.path, file.compression, opened.read(HEAD_BYTES))
        opened.seek(0)
        blocks = decompressed(opened.read, COMPRESSIONS[file.compression])
    head, damage = b"", None
    try:
        while len(head) < HEAD_BYTES and (block := next(blocks, b"")):
            head += block
    except DAMAGED as error:
        damage = error
    refuse_other_content(file.path, file.format, head, file.compression)
    if head:
        yield head
    if damage is not None:
        raise damage
    yield from blocks
