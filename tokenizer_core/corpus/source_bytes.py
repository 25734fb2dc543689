"""The bytes of one source file, decompressed, by position.

Plain files are read where they are asked for. Compressed files are a stream: a window of it is
kept in memory, from the last piece taken up to the furthest byte that was looked at.
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

# Bytes asked for at least, of files read in places and of files read from end to end.
_REMOTE_AHEAD = (1 << 20, 8 << 20)
_PLAIN_BLOCK = 1 << 20
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# Nanoseconds from a file's last change until it is read. A write sets the times before it copies,
# and to the system's last tick, which may be 10 ms ago: a second one soon after it may leave no
# trace in them. Some file systems keep whole seconds, or every other one. What is never seen: the
# rest of one write that takes longer, and writes to a file that is mapped into memory.
_SETTLED, _SETTLED_IN_SECONDS = 20_000_000, 2_000_000_000
# A file that grows more than this is a decompression bomb, not text (which stays below 50).
_HIGHEST_RATIO = 200
_RATIO_MATTERS_FROM = 64 << 20  # decompressed bytes


class SourceBytes(Protocol):
    """Random access to what a source file says, whatever its compression."""

    def reach(self, position: int) -> int:
        """``position``, or the number of bytes there are if that is smaller."""

    def peek(self, begin: int, size: int) -> bytes:
        """The bytes from ``begin`` on: ``size`` of them, or fewer where the file ends."""

    def take(self, begin: int, end: int) -> Text:
        """A copy of the bytes in [begin, end); later calls never ask for what lies before."""

    def row_ids(self, rows: int) -> list[bytes]:
        """What names the next ``rows`` documents that were taken, as JSON.

        Nothing where no id field was named, or none is there.
        """

    def spent(self, position: int) -> int:
        """Bytes on disk that were read to know the text up to ``position``."""

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
    """Open a source file for reading, provided it still is the file that was found.

    Args:
        file: what `find_source_files` found.
        look_back: bytes before the end of the last piece taken that may still be peeked at.
        field: the column of documents, for files of records; those of words and counts.
        part: of a file that `has_parts`, only what begins in this range of bytes on disk;
            positions count from there.
        id_field: the column that names a document, for files of records; empty: none.
        memory: gives so many bytes for each piece that is read, where it is read as it is.

    Raises:
        CorpusChanged: another file, another size or another time of change than when found.
        UnreadableSource: gone, not permitted, or no longer a regular file.
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
    """What reads a file that was opened; see `open_source`."""
    if not file.is_streamed:
        return PlainBytes(file, opened, memory)
    if file.format in ("parquet", "arrow", "counts"):
        return StreamedBytes(file, opened, look_back, _Records(file, opened, field, part, id_field))
    if file.is_of_records:
        assert isinstance(field, str)
        return StreamedBytes(file, opened, look_back, _TextRecords(file, opened, field, id_field))
    return StreamedBytes(file, opened, look_back, _Decompressed(file, opened))


def read_plain(file: SourceFile, view: memoryview) -> None:
    """Read all of a plain file of this machine, in fewer steps; errors as `open_source`.

    Args:
        view: takes its bytes, as many as were found.
    """
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
        _refuse_change(file, descriptor)  # here: of a directory there is no `LocalSource`
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
        # Not blocking: a pipe may stand in the file's place now, which would never answer.
        return os.open(file.path, _TO_READ)
    except FileNotFoundError as error:
        raise changed(file, "it is gone") from error
    except OSError as error:
        raise UnreadableSource(
            f"{file.path} cannot be opened: {error.strerror}",
            "regular files that this user may read",
            f"ls -l {shlex.quote(file.path)}",
        ) from error


def _refuse_change(file: SourceFile, descriptor: int) -> None:
    """Raise `CorpusChanged` unless an open file is in the state in which it was found."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise not_a_regular_file(file.path, status.st_mode)
    now = FileState.of(status)
    if now == (file.size, file.mtime_ns, file.ctime_ns, file.inode):
        return
    if now.inode != file.inode:
        raise changed(file, "another file stands in its place")
    if now.size != file.size:
        raise changed(file, f"it had {file.size} bytes and now has {now.size}")
    raise changed(file, "it was written to, or its name, rights or times were changed")


class LocalSource(FileIO):
    """An open file of this machine."""

    def __init__(self, descriptor: int, file: SourceFile) -> None:
        super().__init__(descriptor, "r", closefd=True)
        self._file = file

    def refuse_change(self) -> None:
        """Raise `CorpusChanged` unless the file is in the state in which it was found."""
        _refuse_change(self._file, self.fileno())


class RemoteSource(RangeReader):
    """A file of a store, read in ranges."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file.path, file.size, _REMOTE_AHEAD[file.compression is not None])
        self._file = file

    def refuse_change(self) -> None:
        """The same, as far as its store tells."""
        file = self._file
        try:
            now = describe(file.path)
        except FileNotFoundError as error:
            raise changed(file, "it is gone") from error
        except OSError as error:
            raise UnreadableSource(
                f"{file.path} cannot be read: {error.strerror or error}",
                "files that these credentials may read, in a store that answers",
                "run the same command again; what was finished is kept",
            ) from error
        if now.size != file.size:
            raise changed(file, f"it had {file.size} bytes and now has {now.size}")
        if now.fingerprint not in (None, file.inode):
            raise changed(file, "it was written anew")


OpenSource = LocalSource | RemoteSource


def changed(file: SourceFile, how: str) -> CorpusChanged:
    return CorpusChanged(
        f"{file.path} changed while it was being read: {how}",
        "files must stay as they are from the start of a run to its end",
        "run the same command again when nothing writes to the corpus any more",
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
    """What a file that is streamed says, one block after the other."""

    def __iter__(self) -> Iterator[bytes | memoryview]: ...

    @property
    def spent(self) -> int:
        """Bytes on disk that were read for it."""

    @property
    def row_ids(self) -> deque[bytes]:
        """What names documents that are not taken yet."""

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
        """Nothing is held but the file."""


class _TextRecords(_Decompressed):
    """A file of records that are text, whether or not it is compressed."""

    def __init__(self, file: SourceFile, opened: OpenSource, field: str, id_field: str) -> None:
        super().__init__(file, opened)
        place = file.path, file.format, field
        self._blocks = document_blocks(self._blocks, *place, id_field, self.row_ids)


class _Records:
    """A file of records that another process decodes; one of a store is copied to this machine."""

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
            "files that these credentials may read, in a store that answers",
            "run the same command again; what was finished is kept",
        ) from error
    return copy


class StreamedBytes:
    """A file that is read from its beginning; positions count bytes of what it says."""

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
        kept = max(self._begin, end - self._look_back)
        # Not cut in place: a thread that looks at frames of others (Dask's profiler does) may
        # still hold the view above, and what is viewed cannot be resized.
        self._window = self._window[kept - self._begin :]
        self._begin = kept
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
                    f"compressed text that grows up to {_HIGHEST_RATIO} times",
                    "if this is meant, write it as plain text first: zstd -d, gzip -d, or DuckDB "
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
        "complete files; several compressed members in one file are read as one text",
        "run the same command again" if file.is_remote else f"{command} {shlex.quote(file.path)}",
    )


def _blocks_of(file: SourceFile, opened: OpenSource) -> Iterator[bytes]:
    """What a file of text or of text records says, after a look at how it begins."""
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
