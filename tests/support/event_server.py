"""A stand-in for a Prefect server that takes events and remembers them, or refuses them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Prefect(HTTPServer):
    """As much of a Prefect server as events need."""

    refuses = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.events: list[dict[str, Any]] = []
        self.authorized: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/api"


class Answers(BaseHTTPRequestHandler):
    server: Prefect

    def do_GET(self) -> None:
        found = {"/api/health": b"true", "/api/admin/version": b'"3.8.8"'}.get(self.path)
        self.answer(404 if found is None else 200, found or b"")

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/events" and not self.server.refuses:
            self.server.events += told
            self.server.authorized.append(self.headers.get("Authorization", ""))
        self.answer(500 if self.server.refuses else 204, b"")

    def answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def event_server() -> Iterator[Prefect]:
    """One that answers while the block runs."""
    with Prefect() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
