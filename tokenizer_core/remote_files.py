"""Files named by URL: found, described, read in ranges, written whole; the one door to fsspec.

fsspec is imported when a URL is given. Errors are `OSError`, as those of local files are. Its
libraries read an answer whole, and all but a few read it by aiohttp: there it is counted, so
that no answer is longer than what was asked for.
"""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.redaction import without_secrets
from bpeline.tokenizer_core.urls import refuse_secrets


class TooMuch(OSError):
    """A server sends more than it was asked for."""


@dataclass(slots=True)
class Allowance:
    """What may still come.

    Attributes:
        most: bytes in all.
        received: bytes that came.
    """

    most: int
    received: int = 0

    @property
    def exceeded(self) -> bool:
        """Whether more came."""
        return self.received > self.most

    def count(self, content: bytes) -> bytes:
        """The same content.

        Raises:
            TooMuch: it is more than may come.
        """
        self.received += len(content)
        if self.exceeded:
            raise TooMuch(f"more than {self.most:,} bytes")
        return content


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def receiving(most: int) -> Iterator[Allowance]:
    """Bound what the calls of this thread receive meanwhile, the tasks they start included."""
    _bind()
    allowance = Allowance(most)
    token = _allowance.set(allowance)
    try:
        yield allowance
    finally:
        _allowance.reset(token)


def _bind() -> None:
    """Let answers of aiohttp be counted; again changes nothing."""
    try:
        from aiohttp import ClientResponse
    except ImportError:
        return  # then no store here asks by it
    theirs = ClientResponse.start
    if getattr(theirs, "counts_ours", False):
        return

    async def start(self: Any, connection: Any) -> Any:
        begun = await theirs(self, connection)
        allowance = _allowance.get()
        if allowance is not None:
            self.content = _Counted(self.content, allowance)
        return begun

    start.counts_ours = True  # type: ignore[attr-defined]
    ClientResponse.start = start  # type: ignore[method-assign]


class _Counted:
    """The body of an answer, counted as it is read; all else is the body's own."""

    def __init__(self, body: Any, allowance: Allowance) -> None:
        self._body = body
        self._allowance = allowance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    async def read(self, size: int = -1) -> bytes:
        if size >= 0:
            return self._allowance.count(await self._body.read(size))
        parts = []
        while part := await self.readany():
            parts.append(part)
        return b"".join(parts)

    async def readany(self) -> bytes:
        return self._allowance.count(await self._body.readany())

    async def readchunk(self) -> tuple[bytes, bool]:
        part, ends = await self._body.readchunk()
        return self._allowance.count(part), ends

    async def iter_chunked(self, size: int) -> Any:
        while part := await self.read(size):
            yield part

    async def iter_any(self) -> Any:
        while part := await self.readany():
            yield part


T = TypeVar("T")

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5
# Members of what a store says of a file that change whenever its content does.
_FINGERPRINTS = (
    "etag", "md5hash", "content-md5", "contentmd5", "digest", "checksum", "crc32c", "generation",
    "versionid",
)  # fmt: skip
_TIMES = ("lastmodified", "last-modified", "last_modified", "mtime", "updated", "modified",
          "created")  # fmt: skip
_MOST_AT_ONCE = 16 << 20  # bytes asked for in one request
# For a whole answer, repetitions by the store's own library included: one that comes byte by byte
# would never end otherwise.
ANSWER_SECONDS = 30.0
_LISTING_SECONDS = 300.0
_SLOWEST = 64 << 10  # bytes per second of content that is read or written
_LARGEST_ANSWER = 64 << 20  # bytes of an answer that is no content
_LARGEST_LISTING = 512 << 20  # bytes of all pages: more than a million files
_BESIDE_CONTENT = 64 << 10  # bytes of the refusal that may come instead of little content


class RemoteFailure(OSError):
    """A store does not answer, or answers with something else than the file."""


class _Futile(RemoteFailure):
    """It was given its time, or its fill; asking again would cost as much."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as its store describes it.

    Attributes:
        url: the whole of it, as the store spells it.
        size: bytes.
        fingerprint: 63 bits of a digest of what changes whenever the content does (ETag, checksum,
            generation), or else of the time of the last change; None where the store tells
            neither, so that nothing can be said to be unchanged.
    """

    url: str
    size: int
    fingerprint: int | None


def find_remote_files(pattern: str, wanted: Callable[[str], bool]) -> list[RemoteFile]:
    """The files that a URL means, sorted: one file, those below a folder, or those of a glob.

    Args:
        pattern: a URL; ``*`` and ``**`` as in local globs.
        wanted: whether a file found below a folder is taken, by its path below.

    Raises:
        InvalidOption: a scheme that is not known or not installed, or a password in the URL.
        PermissionError: forbidden.
        RemoteFailure: the store does not answer.
    """

    def look(files: Any, path: str) -> list[RemoteFile]:
        if _has_magic(pattern):
            found = files.glob(path, detail=True).values()
            return [_listed(files, one) for one in found if one["type"] == "file"]
        try:
            about = files.info(path, timeout=ANSWER_SECONDS)
        except FileNotFoundError:
            return []
        if about["type"] == "file":
            return [_described(files, about)]
        below = files.find(path, detail=True).values()
        start = len(str(about["name"]).rstrip("/")) + 1
        return [_listed(files, one) for one in below if wanted(str(one["name"])[start:])]

    found = _asked(pattern, look, _LISTING_SECONDS, _LARGEST_LISTING)
    return sorted(found, key=lambda file: file.url)


def describe(url: str) -> RemoteFile:
    """A file as it is now.

    Raises:
        FileNotFoundError, PermissionError, RemoteFailure: it cannot be described.
    """
    return _asked(url, lambda files, path: _described(files, files.info(path)))


def read_range(url: str, begin: int, end: int) -> bytes:
    """The bytes [begin, end) of a file that has them.

    Raises:
        FileNotFoundError, PermissionError: it cannot be read.
        RemoteFailure: the store does not answer, or with other bytes than were asked for, as web
            servers do that know no ranges.
    """

    def read(files: Any, path: str) -> bytes:
        content = bytes(files.cat_file(path, start=begin, end=end))
        if len(content) != end - begin:
            raise RemoteFailure(
                f"{len(content)} bytes came where {end - begin} from byte {begin} on were asked for"
            )
        return content

    return _asked(url, read, _seconds_for(end - begin), end - begin + _BESIDE_CONTENT)


def read_file(url: str, target: Path) -> None:
    """Copy a whole file to a path of this machine.

    Raises:
        FileNotFoundError, PermissionError: it cannot be read.
        RemoteFailure: the same, or what came is not as long as the store says the file is.
    """
    size = describe(url).size

    def read(files: Any, path: str) -> None:
        files.get_file(path, str(target))

    _asked(url, read, _seconds_for(size), size + _BESIDE_CONTENT)
    if not target.exists():
        raise FileNotFoundError(2, "no such file", url)
    if (came := target.stat().st_size) != size:
        raise RemoteFailure(f"{came:,} bytes came of a file that has {size:,}")


def write_file(url: str, content: Path | bytes) -> None:
    """Store a whole file; whoever reads meanwhile finds the earlier one, as far as stores can.

    Raises:
        FileNotFoundError, PermissionError, RemoteFailure: it cannot be written.
    """

    def put(files: Any, path: str) -> None:
        if isinstance(content, Path):
            files.put_file(str(content), path)
        else:
            files.pipe_file(path, bytes(content))

    size = content.stat().st_size if isinstance(content, Path) else len(content)
    _asked(url, put, _seconds_for(size))


def remove_file(url: str) -> None:
    """Remove a file, if there is one.

    Raises:
        PermissionError, RemoteFailure: it cannot be removed.
    """

    def remove(files: Any, path: str) -> None:
        with suppress(FileNotFoundError):
            files.rm_file(path)

    _asked(url, remove)


def names_below(url: str) -> list[str]:
    """The files below a folder, by their paths from there; none where there is no such folder.

    Raises:
        PermissionError, RemoteFailure: the store does not answer.
    """

    def look(files: Any, path: str) -> list[str]:
        start = len(str(path).rstrip("/")) + 1
        try:
            return sorted(str(name)[start:] for name in files.find(path))
        except FileNotFoundError:
            return []

    return _asked(url, look, _LISTING_SECONDS, _LARGEST_LISTING)


class RangeReader(io.RawIOBase):
    """A remote file as a file object that asks for ranges.

    Holds one answer in memory, of 16 MiB at most.

    Args:
        url: of the file.
        size: its bytes.
        ahead: bytes to ask for at least.
    """

    def __init__(self, url: str, size: int, ahead: int) -> None:
        self._url = url
        self._size = size
        self._ahead = ahead
        self._position = 0
        self._answer = b""
        self._begin = 0  # position of the answer's first byte

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = origin[whence] + offset
        return self._position

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        size = min(len(view), self._size - self._position)
        if size <= 0:
            return 0
        if not 0 <= self._position - self._begin < len(self._answer):
            wanted = min(max(size, self._ahead), _MOST_AT_ONCE)
            self._begin = self._position
            self._answer = read_range(self._url, self._begin, min(self._begin + wanted, self._size))
        offset = self._position - self._begin
        part = memoryview(self._answer)[offset : offset + size]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)


def _listed(files: Any, about: Any) -> RemoteFile:
    """A file of a list; stores that list no ETag are asked, for a list may tell less."""
    if not any(str(name).lower() == _FINGERPRINTS[0] for name in about):
        about = files.info(about["name"])
    return _described(files, about)


def _described(files: Any, about: Any) -> RemoteFile:
    """What fsspec tells of a file, as every store tells it in words of its own."""
    members = {str(name).lower(): value for name, value in about.items() if value is not None}
    size = members.get("size")
    if size is None:
        raise RemoteFailure("its size is not told, so it cannot be read in parts")
    known = next((name for name in (*_FINGERPRINTS, *_TIMES) if name in members), None)
    mark = None if known is None else [known, _instant(members[known]), size]
    fingerprint = None if mark is None else int(digest_of(mark)[:16], 16) >> 1
    return RemoteFile(str(files.unstrip_protocol(about["name"])), int(size), fingerprint)


def _instant(value: Any) -> str:
    """What a store tells; a time is listed in one type and told in another."""
    if isinstance(value, datetime):
        value = value.timestamp()
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _has_magic(url: str) -> bool:
    question = not url.startswith(("http://", "https://"))  # there it begins the query
    return "*" in url or "[" in url or (question and "?" in url)


def _seconds_for(size: int) -> float:
    """That content of so many bytes may take."""
    return ANSWER_SECONDS + size / _SLOWEST


class _Bounded:
    """A store of fsspec that gives each call a time to be answered in, and an amount to receive.

    Those that ask over a network are asynchronous and take a time-out; the others are on this
    machine.
    """

    _ASKING = frozenset(
        ("cat_file", "find", "get_file", "glob", "info", "pipe_file", "put_file", "rm_file")
    )

    def __init__(self, files: Any, seconds: float, most: int) -> None:
        self._files = files
        self._seconds = seconds
        self._most = most

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._files, name)
        if name not in self._ASKING:
            return member

        def ask(*arguments: Any, timeout: float = self._seconds, **options: Any) -> Any:
            if not getattr(self._files, "async_impl", False):
                return member(*arguments, **options)
            with receiving(self._most) as allowance:
                try:
                    return member(*arguments, timeout=timeout, **options)
                except Exception as error:
                    if allowance.exceeded:  # whatever the store's library made of it
                        raise _Futile(
                            f"more came than the {self._most:,} bytes that were asked for at most"
                        ) from error
                    if isinstance(error, TimeoutError):
                        raise _Futile(f"no whole answer within {timeout:,.0f} seconds") from error
                    if isinstance(error, FileNotFoundError):
                        _raise_failure_behind(error)
                    raise

        return ask


def _raise_failure_behind(error: FileNotFoundError) -> None:
    """Raise what failed where fsspec's HTTP says "not found" of every failure.

    Raises:
        PermissionError: the server refuses.
        RemoteFailure: it does not answer, or with another error than "not found".
    """
    cause = error.__cause__
    if not isinstance(cause, Exception) or isinstance(cause, FileNotFoundError):
        return
    is_of_http = type(cause).__module__.startswith("aiohttp") or isinstance(cause, OSError)
    status = getattr(cause, "status", None)
    if not is_of_http or status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise PermissionError(_reason(cause)) from error
    raise RemoteFailure(_reason(cause)) from error


def _asked(
    url: str,
    ask: Callable[[Any, str], T],
    seconds: float | None = None,
    most: int = _LARGEST_ANSWER,
) -> T:
    """Ask the store of a URL, again when it fails at once; each call may take some seconds."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with _translating(url):
                files, path = _store_of(url)
                return ask(_Bounded(files, seconds or ANSWER_SECONDS, most), path)
        except _Futile:
            raise
        except RemoteFailure:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def _store_of(url: str) -> tuple[Any, str]:
    refuse_secrets(url)
    try:
        import fsspec

        # The instance of this process and thread; nothing it listed earlier is believed.
        files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ValueError as error:
        raise InvalidOption(
            f"files cannot be read from {url}: {error}",
            "accepted are paths, and URLs that fsspec knows: s3:// gs:// az:// https:// file://",
            "mend the URL, or name a local file",
        ) from error
    except ImportError as error:
        raise InvalidOption(
            f"files cannot be read from {url}: {error}",
            "a URL whose scheme's package is installed",
            "type `pip install 'bpeline[remote]'` for s3://; other schemes need their own package",
        ) from error
    return files, path


@contextmanager
def _translating(url: str) -> Iterator[None]:
    """Turn what fsspec and its many libraries raise into `OSError` with a short reason."""
    try:
        yield
    except (InvalidOption, FileNotFoundError, RemoteFailure):
        raise
    except PermissionError as error:
        raise PermissionError(13, _reason(error), url) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise  # of this disk
        if "credentials" in type(error).__name__.lower():
            raise PermissionError(13, _reason(error), url) from error
        raise RemoteFailure(_reason(error)) from error


def _reason(error: Exception) -> str:
    said = without_secrets(" ".join(str(error).split()))[:300]
    return said or type(error).__name__
