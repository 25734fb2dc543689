"""Servers of nonsense: whatever is asked, they answer what no server should, or never."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _whole(content: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(content)) + content


def _dripped(content: bytes, at_once: bytes = b"") -> Iterator[bytes]:
    yield at_once
    for byte in itertools.chain(content, itertools.repeat(0x20)):
        yield bytes([byte])
        time.sleep(1.0)


def _bomb() -> Iterator[bytes]:
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield _JSON + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
    for _ in range(1024):  # 8 GB
        yield packed.compress(bytes(8 << 20))
    yield packed.flush()


Answer = Callable[[], Iterator[bytes]]

# Each is what it sends after it has read a request; what it sends nothing after, it closes.
MODES: dict[str, Answer] = {
    "no HTTP": lambda: iter([b"-ERR unknown command\r\n" * 3]),
    "a dripped status line": lambda: _dripped(_whole(b"{}")),
    "dripped headers": lambda: _dripped(b"X-Slow: ", b"HTTP/1.1 200 OK\r\n"),
    "a dripped body": lambda: _dripped(b"{", _JSON + b"Content-Length: 100000\r\n\r\n"),
    "an endless body": lambda: itertools.chain([_JSON + b"\r\n["], itertools.repeat(b"1," * 32768)),
    "endless headers": lambda: itertools.chain(
        [b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"X-More: " + b"y" * 60_000 + b"\r\n")
    ),
    "an empty object": lambda: iter([_whole(b"{}")]),
    "a list": lambda: iter([_whole(b"[1, 2]")]),
    "a number": lambda: iter([_whole(b"7")]),
    "null": lambda: iter([_whole(b"null")]),
    "deeply nested JSON": lambda: iter([_whole(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)]),
    "members of other types": lambda: iter([_whole(
        b'{"experiment": 3, "run": [], "runs": 7, "model_version": "x", "model_versions": {"a": 1},'
        b'"registered_models": 5, "next_page_token": 4, "model": null, "info": [], "files": "no"}'
    )]),
    "pages without end": lambda: iter([_whole(
        b'{"model_versions": [], "registered_models": [], "runs": [], "experiments": [], '
        b'"next_page_token": "again"}'
    )]),
    "a page in HTML": lambda: iter([_whole(b"<html>sign in</html>", b"text/html")]),
    "an inner error": lambda: iter([_whole(b"oh", b"text/plain", b"500 Internal Server Error")]),
    "busy until tomorrow": lambda: iter([
        b"HTTP/1.1 503 Busy\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"
    ]),
    "redirected in a circle": lambda: iter([
        b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ]),
    "redirected elsewhere": lambda: iter([
        b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    ]),
    "half a body": lambda: iter([_JSON + b'Content-Length: 500\r\n\r\n{"experiment": {"na']),
    "no answer": lambda: iter([]),  # see below
    "closed at once": lambda: iter([]),
    "a gzip bomb": _bomb,
    "no gzip": lambda: iter([_JSON + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"]),
    "invalid UTF-8": lambda: iter([_whole(b'{"error_code": "\xff\xfe", "experiment": {"\xc3"}}')]),
}  # fmt: skip


class NonsenseServer:
    """Answers every request in one of `MODES`.

    Attributes:
        url: its address.
        mode: how it answers from now on.
        asked: first lines of the requests that came.
    """

    def __init__(self, listener: socket.socket, mode: str) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.mode = mode
        self.asked: list[bytes] = []
        self._listener = listener
        self._ended = threading.Event()

    def serve(self) -> None:
        """Answer until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def end(self) -> None:
        """Answer nobody any more."""
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self.asked.append(connection.recv(65536).partition(b"\r\n")[0])
            if self.mode == "no answer":
                self._ended.wait()
                return
            for part in MODES[self.mode]():
                if self._ended.is_set():
                    return
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(5)
            while connection.recv(65536):  # a body that is still coming is no reset connection
                pass


@contextmanager
def nonsense(mode: str) -> Iterator[NonsenseServer]:
    """Such a server for as long as the block lasts."""
    server = NonsenseServer(socket.create_server(("127.0.0.1", 0)), mode)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()
