"""HTTP whose every exchange ends: a deadline for all of it and a limit on what is received.

`http.client` has one time-out, for each read: a server that sends a byte a second, or without end,
holds its caller for ever. All that a server sends goes through the stream of an `HTTPResponse`, so
both bounds are kept there, for status lines, headers and bodies alike. Knows no server; an exchange
is begun by whoever asks.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

LARGEST_ANSWER = 64 << 20  # bytes of one answer that is no file
_LONGEST_HEAD = 1 << 20  # bytes of status lines and headers, beside the body


class AnswerTooLarge(OSError):
    """A server sends more than is accepted."""


@dataclass(slots=True)
class Exchange:
    """One question and its answer, with all that is tried again and wherever it leads.

    Attributes:
        seconds: for all of it.
        most: bytes of one answer's body.
        slowest: bytes in each second by which files that are sent or received gain time; 0 for
            answers that are no files, which gain none.
    """

    seconds: float
    most: int = LARGEST_ANSWER
    slowest: int = 0
    begun: float = field(default_factory=time.monotonic)
    moved: int = 0

    def left(self) -> float:
        """Seconds that are left.

        Raises:
            TimeoutError: none.
        """
        allowed = self.seconds + (self.moved / self.slowest if self.slowest else 0.0)
        left = self.begun + allowed - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"it was not done within {allowed:.0f} seconds")
        return left


_exchange: ContextVar[Exchange] = ContextVar("exchange")
_bounded: ContextVar[bool] = ContextVar("bounded", default=False)


@contextmanager
def bounded() -> Iterator[None]:
    """Say that clients of others, which we use in this thread meanwhile, are to be bounded."""
    token = _bounded.set(True)
    try:
        yield
    finally:
        _bounded.reset(token)


def is_bounded() -> bool:
    """Whether this thread is inside of `bounded`."""
    return _bounded.get()


@contextmanager
def exchanging(exchange: Exchange) -> Iterator[Exchange]:
    """Bound what the bounded connections of this thread do meanwhile."""
    token = _exchange.set(exchange)
    try:
        yield exchange
    finally:
        _exchange.reset(token)


def current_exchange() -> Exchange:
    """The one that this thread is in."""
    return _exchange.get()


class BoundedResponse(http.client.HTTPResponse):
    """An answer that is read within the bounds of the exchange it belongs to.

    Nobody here asks for compressed answers, so one that comes compressed is refused: a few bytes of
    it may become more than fits into memory.
    """

    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        stream = _BoundedStream(self.fp.detach(), sock, current_exchange())
        self.fp = io.BufferedReader(stream)

    def begin(self) -> None:
        super().begin()
        if self.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise http.client.HTTPException("the answer is compressed, which nobody asked for")


class _BoundedStream(io.RawIOBase):
    """What comes from a socket, until an exchange is over or has brought too much."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, exchange: Exchange) -> None:
        self._raw = raw
        self._sock = sock
        self._exchange = exchange
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._exchange.left())
        got = self._raw.readinto(buffer)
        self._received += got or 0
        self._exchange.moved += got or 0
        if self._received > self._exchange.most + _LONGEST_HEAD:
            raise AnswerTooLarge(f"the answer is larger than {self._exchange.most:,} bytes")
        return got

    def close(self) -> None:
        self._raw.close()
        super().close()


class Bounded(http.client.HTTPConnection):
    """A connection that keeps to the current exchange; before others in a list of base classes."""

    response_class = BoundedResponse

    def connect(self) -> None:
        self.timeout = current_exchange().left()
        super().connect()

    def send(self, data: Any) -> None:
        exchange = current_exchange()
        if self.sock is not None:
            self.sock.settimeout(exchange.left())
        super().send(data)
        exchange.moved += len(data) if isinstance(data, bytes) else 0


class _SecureConnection(Bounded, http.client.HTTPSConnection):
    pass


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(Bounded, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, request)


def ask(url: str, seconds: float, most: int = LARGEST_ANSWER) -> tuple[int, bytes]:
    """What a server answers to GET, and its status; one of this machine is asked directly.

    Raises:
        OSError, ValueError, http.client.HTTPException: nothing that can be used, or not in time.
    """
    local = urllib.parse.urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
    proxies = [urllib.request.ProxyHandler({})] if local else []
    opener = urllib.request.build_opener(_Handler, _SecureHandler, *proxies)
    with exchanging(Exchange(seconds, most)):
        try:
            with opener.open(url, timeout=seconds) as answer:
                return answer.status, _whole(answer, most)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, _whole(refusal, most)


def _whole(answer: Any, most: int) -> bytes:
    content: bytes = answer.read(most + 1)
    if len(content) > most:
        raise AnswerTooLarge(f"the answer is larger than {most:,} bytes")
    return content


def answers(url: str, seconds: float) -> bool:
    """Whether ``/health`` below an address is answered by HTTP and without an inner error."""
    try:
        return ask(f"{url.rstrip('/')}/health", seconds)[0] < 500
    except (OSError, ValueError, http.client.HTTPException):
        return False
