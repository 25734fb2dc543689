"""A real browser without a window, asked through its debugging protocol for what it shows."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def installed_browser() -> str | None:
    """The path of a browser of the Chromium family; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._calls = 0

    def call(self, method: str, **parameters: Any) -> Any:
        self._calls += 1
        request = {"id": self._calls, "method": method, "params": parameters}
        self._connection.send(json.dumps(request))
        while True:
            answer = json.loads(self._connection.recv(timeout=60))
            if answer.get("id") == self._calls:
                return answer.get("result")

    def text(self) -> str:
        found = self.call("Runtime.evaluate", expression="document.body.innerText")
        return str(found["result"].get("value", ""))

    def shows(self, url: str, *expected: str, seconds: float = 60) -> str:
        """Open a page and wait until all of some texts are drawn.

        Raises:
            AssertionError: they do not appear; says what is there instead.
        """
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + seconds
        while True:
            text = self.text()
            missing = [one for one in expected if one not in text]
            if not missing:
                return text
            assert time.monotonic() < deadline, f"{url} does not show {missing}, but:\n{text}"
            time.sleep(0.5)


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Page]:
    """A tab of a fresh browser.

    Args:
        program: from `installed_browser`.
        profile: an empty directory.
    """
    from websockets.sync.client import connect

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}", f"--remote-debugging-port={port}",
        "--remote-allow-origins=*", "--window-size=1700,3000", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with connect(_address(port), max_size=None) as connection:
                page = Page(connection)
                page.call("Page.enable")
                yield page
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(port: int) -> str:
    for _ in range(120):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                tabs = json.load(answer)
            return str(next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"])
        except (OSError, StopIteration):
            time.sleep(0.5)
    raise AssertionError("the browser does not start")
