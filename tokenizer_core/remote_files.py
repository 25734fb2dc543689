"""Find, describe, read and write files by URL; the only module that uses fsspec.

fsspec is imported at first use, and its errors become `OSError`. Most of its libraries read whole
responses with aiohttp, where the received bytes are counted to limit the size of responses.
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
    """A server sends more than was requested."""


@dataclass(slots=True)
class Allowance:
    """A limit for received bytes, and the bytes received so far."""

    most: int
    received: int = 0

    @property
    def exceeded(self) -> bool:
        return self.received > self.most

    def count(self, content: bytes) -> bytes:
        """Count received bytes, and return them; raises `TooMuch` beyond the limit."""
        self.received += len(content)
        if self.exceeded:
            raise TooMuch(f"more than {self.most:,} bytes")
        return content


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def receiving(most: int) -> Iterator[Allowance]:
    """Limit the bytes received in the block by this thread and its tasks."""
    _bind()
    allowance = Allowance(most)
    token = _allowance.set(allowance)
    try:
        yield allowance
    finally:
        _allowance.reset(token)


def _bind() -> None:
    """Count the responses of aiohttp; idempotent."""
    try:
        from aiohttp import ClientResponse
    except ImportError:
        return  # no installed store uses aiohttp
    theirs = ClientResponse.start
    if getattr(theirs, "counts_ours", False):
        return

    async def start(self: Any, connection: Any) -> Any:
        response = await theirs(self, connection)
        allowance = _allowance.get()
        if allowance is not None:
            self.content = _Counted(self.content, allowance)
        return response

    start.counts_ours = True  # type: ignore[attr-defined]
    ClientResponse.start = start  # type: ignore[method-assign]


class _Counted:
    """A response body that counts what is read."""

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
# Attributes of a file in a store that change whenever its content does.
_FINGERPRINTS = (
    "etag", "md5hash", "content-md5", "contentmd5", "digest", "checksum", "crc32c", "generation",
    "versionid",
)  # fmt: skip
_TIMES = ("lastmodified", "last-modified", "last_modified", "mtime", "updated", "modified",
          "created")  # fmt: skip
_MOST_AT_ONCE = 16 << 20  # bytes per request
# For a complete response with retries by the store's library; else one that arrives byte by byte
# would never end.
ANSWER_SECONDS = 30.0
_LISTING_SECONDS = 300.0
_SLOWEST = 64 << 10  # minimum bytes per second of content
_LARGEST_ANSWER = 64 << 20  # bytes of a response without content
_LARGEST_LISTING = 512 << 20  # bytes of all pages: more than a million files
_BESIDE_CONTENT = 64 << 10  # bytes of an error page that may come instead of content


class RemoteFailure(OSError):
    """A store does not answer, or answers with something other than the file."""


class _Futile(RemoteFailure):
    """A failure that is not retried, because it used up its time or size limit."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as described by its store.

    Attributes:
        url: complete URL, as the store spells it.
        size: bytes.
        fingerprint: 63-bit digest of an attribute that changes with the content (ETag, checksum,
            generation), else of the modification time; None if the store reports neither.
    """

    url: str
    size: int
    fingerprint: int | None


def find_remote_files(pattern: str, wanted: Callable[[str], bool]) -> list[RemoteFile]:
    """Find the files of a URL, sorted: a file, a folder or a glob.

    Args:
        wanted: filter for files below a folder, by their relative path.

    Raises:
        InvalidOption: unknown or missing scheme, or a password in the URL.
        PermissionError: access denied.
        RemoteFailure: the store does not answer.
    """

    def look(files: Any, path: str) -> list[RemoteFile]:
        if _has_magic(pattern):
            matches = files.glob(path, detail=True).values()
            return [_listed(files, match) for match in matches if match["type"] == "file"]
        try:
            entry = files.info(path, timeout=ANSWER_SECONDS)
        except FileNotFoundError:
            return []
        if entry["type"] == "file":
            return [_described(files, entry)]
        entries = files.find(path, detail=True).values()
        start = len(str(entry["name"]).rstrip("/")) + 1
        return [_listed(files, match) for match in entries if wanted(str(match["name"])[start:])]

    matches = _asked(pattern, look, _LISTING_SECONDS, _LARGEST_LISTING)
    return sorted(matches, key=lambda file: file.url)


def describe(url: str) -> RemoteFile:
    """Describe a file, or raise FileNotFoundError, PermissionError, RemoteFailure."""
    return _asked(url, lambda files, path: _described(files, files.info(path)))


def read_range(url: str, begin: int, end: int) -> bytes:
    """Read the bytes [begin, end) of a file; raises like `describe`."""

    def read(files: Any, path: str) -> bytes:
        content = bytes(files.cat_file(path, start=begin, end=end))
        if len(content) != end - begin:
            raise RemoteFailure(
                f"received {len(content)} bytes instead of {end - begin} from byte {begin}"
            )
        return content

    return _asked(url, read, _seconds_for(end - begin), end - begin + _BESIDE_CONTENT)


def read_file(url: str, target: Path) -> None:
    """Copy a whole file to a local path; raises like `describe`."""
    size = describe(url).size

    def read(files: Any, path: str) -> None:
        files.get_file(path, str(target))

    _asked(url, read, _seconds_for(size), size + _BESIDE_CONTENT)
    if not target.exists():
        raise FileNotFoundError(2, "no such file", url)
    if (received := target.stat().st_size) != size:
        raise RemoteFailure(f"received {received:,} of {size:,} bytes")


def write_file(url: str, content: Path | bytes) -> None:
    """Store a whole file, atomically where supported; raises like `describe`."""

    def put(files: Any, path: str) -> None:
        if isinstance(content, Path):
            files.put_file(str(content), path)
        else:
            files.pipe_file(path, bytes(content))

    size = content.stat().st_size if isinstance(content, Path) else len(content)
    _asked(url, put, _seconds_for(size))


def remove_file(url: str) -> None:
    """Remove a file if it exists; raises like `describe`."""

    def remove(files: Any, path: str) -> None:
        with suppress(FileNotFoundError):
            files.rm_file(path)

    _asked(url, remove)


def names_below(url: str) -> list[str]:
    """List the files below a folder by relative path; empty if there is no folder."""

    def look(files: Any, path: str) -> list[str]:
        start = len(str(path).rstrip("/")) + 1
        try:
            return sorted(str(name)[start:] for name in files.find(path))
        except FileNotFoundError:
            return []

    return _asked(url, look, _LISTING_SECONDS, _LARGEST_LISTING)


class RangeReader(io.RawIOBase):
    """A remote file as a file object that buffers a response of up to 16 MiB."""

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
    """Describe a listed file; requests details if the listing has no ETag."""
    if not any(str(name).lower() == _FINGERPRINTS[0] for name in about):
        about = files.info(about["name"])
    return _described(files, about)


def _described(files: Any, about: Any) -> RemoteFile:
    """Convert a description by fsspec, whose attribute names differ between stores."""
    members = {str(name).lower(): value for name, value in about.items() if value is not None}
    size = members.get("size")
    if size is None:
        raise RemoteFailure("the store does not report its size, so it cannot be read in parts")
    attribute = next((name for name in (*_FINGERPRINTS, *_TIMES) if name in members), None)
    identity = None if attribute is None else [attribute, _instant(members[attribute]), size]
    fingerprint = None if identity is None else int(digest_of(identity)[:16], 16) >> 1
    return RemoteFile(str(files.unstrip_protocol(about["name"])), int(size), fingerprint)


def _instant(value: Any) -> str:
    """Format an attribute; times have different types in listings and descriptions."""
    if isinstance(value, datetime):
        value = value.timestamp()
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _has_magic(url: str) -> bool:
    question = not url.startswith(("http://", "https://"))  # there, "?" begins the query
    return "*" in url or "[" in url or (question and "?" in url)


def _seconds_for(size: int) -> float:
    """Return the time limit for content of this size."""
    return ANSWER_SECONDS + size / _SLOWEST


class _Bounded:
    """A store of fsspec with limits; only network stores accept a timeout."""

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
                    if allowance.exceeded:  # whatever error the store's library raised
                        raise _Futile(f"received more than {self._most:,} bytes") from error
                    if isinstance(error, TimeoutError):
                        raise _Futile(
                            f"no complete answer within {timeout:,.0f} seconds"
                        ) from error
                    if isinstance(error, FileNotFoundError):
                        _raise_failure_behind(error)
                    raise

        return ask


def _raise_failure_behind(error: FileNotFoundError) -> None:
    """Raise the real cause where fsspec reports any HTTP failure as "not found"."""
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
    """Call a store, with retries for immediate failures; ``seconds`` limits each call."""
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

        # Cached per process and thread; without the listings cache, results are current.
        files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ValueError as error:
        raise InvalidOption(
            f"files cannot be read from {url}: {error}",
            "expected a path, or a URL known to fsspec: s3:// gs:// az:// https:// file://",
            "correct the URL, or name a local file",
        ) from error
    except ImportError as error:
        raise InvalidOption(
            f"files cannot be read from {url}: {error}",
            "expected a URL whose scheme's package is installed",
            "type `pip install 'bpeline[remote]'` for s3://; other schemes need their own package",
        ) from error
    return files, path


@contextmanager
def _translating(url: str) -> Iterator[None]:
    """Turn errors of fsspec and its libraries into `OSError` with a short reason."""
    try:
        yield
    except (InvalidOption, FileNotFoundError, RemoteFailure):
        raise
    except PermissionError as error:
        raise PermissionError(13, _reason(error), url) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise  # the local disk is full
        if "credentials" in type(error).__name__.lower():
            raise PermissionError(13, _reason(error), url) from error
        raise RemoteFailure(_reason(error)) from error


def _reason(error: Exception) -> str:
    message = without_secrets(" ".join(str(error).split()))[:300]
    return message or type(error).__name__
