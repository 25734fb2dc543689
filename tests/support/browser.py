"""A real browser for tests: headless Chromium, spoken to through its DevTools protocol.

Whoever needs one asks `installed_browser` first, and skips, saying why, where there is none.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1700,3000",
    "--remote-debugging-port=0",
    # Frames are read through their page's connection.
    "--disable-site-isolation-trials", "--disable-features=IsolateSandboxedIframes",
)  # fmt: skip
_PATIENCE = 60.0  # seconds


def installed_browser() -> str | None:
    """The path of a browser of the Chromium family; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._contexts: list[int] = []  # where each frame's scripts run
        #: What the page's console and its uncaught errors said, and addresses it asked for.
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._connection.send(json.dumps(message))
        while True:
            answer = self._hear()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self._connection.recv(timeout=_PATIENCE))
        said = heard.get("params", {})
        match heard.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(said["exceptionDetails"].get("exception", said)))
            case "Runtime.executionContextCreated":
                self._contexts.append(said["context"]["id"])
            case "Runtime.executionContextsCleared":
                self._contexts.clear()
            case "Log.entryAdded":
                self.complaints.append(str(said["entry"]["text"]))
            case "Network.requestWillBeSent":
                self.requests.append(str(said["request"]["url"]))
        return heard

    def open(self, path: Path, *, scripts: bool = True) -> None:
        """Show a file and wait until it is loaded."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=path.absolute().as_uri())
        while self._hear().get("method") != "Page.loadEventFired":
            pass

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, once a promise is kept."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def text(self) -> str:
        """What the page shows; nothing while it is on its way to another one."""
        try:
            return str(self.run("document.body ? document.body.innerText : ''"))
        except RuntimeError:
            return ""

    def shows(self, url: str, *expected: str, seconds: float = _PATIENCE) -> str:
        """Open a page and wait until all of some texts are drawn; returns all it shows.

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

    def within(self, *expected: str, seconds: float = _PATIENCE) -> str:
        """Wait until a frame of the page shows all of some texts; returns all it shows.

        Raises:
            AssertionError: none does; says what the frames show.
        """
        deadline = time.monotonic() + seconds
        while True:
            text = "\n".join(self._texts_of_frames())
            missing = [one for one in expected if one not in text]
            if not missing:
                return text
            assert time.monotonic() < deadline, f"no frame shows {missing}, but:\n{text}"
            time.sleep(0.5)

    def _texts_of_frames(self) -> Iterator[str]:
        for context in list(self._contexts):
            expression = "document.body ? document.body.innerText : ''"
            try:
                answer = self.call("Runtime.evaluate", expression=expression, contextId=context)
            except RuntimeError:  # it is gone
                continue
            yield str(answer["result"].get("value", ""))

    def look(self, path: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Write a picture of the whole page in a window of this width."""
        self.resize(width, height, dark=dark)
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page in a window of this size, in light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])


@contextmanager
def browsing(program: str, directory: Path) -> Iterator[Page]:
    """A browser of one's own with an empty profile, ended afterwards.

    Args:
        program: from `installed_browser`.
        directory: an empty one for its profile.
    """
    command = [program, *_OPTIONS, f"--user-data-dir={directory}", "about:blank"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        with connect(_address(directory), max_size=None, proxy=None) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(directory: Path) -> str:
    """Where the first tab listens."""
    port_file = directory / "DevToolsActivePort"
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if port_file.is_file() and (lines := port_file.read_text().split()):
            url = f"http://127.0.0.1:{lines[0]}/json"
            with urllib.request.urlopen(url) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise TimeoutError(f"{directory} has no browser")
