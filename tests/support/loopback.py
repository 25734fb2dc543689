"""Servers of a test on this machine: free ports, whether somebody listens, questions in JSON."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")

_BUSY = 503  # Prefect's database was locked for too long
_ATTEMPTS = 8


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def listens(port: int) -> bool:
    """Whether somebody does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def asked(url: str, content: Any = None, method: str | None = None) -> Any:
    """The answer of a server; None where it is empty. One that is busy is asked again."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    for busy in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
            return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code != _BUSY:
                raise
            time.sleep(busy)
    raise AssertionError(f"{url} is busy all the time")


def waiting_for(what: str, look: Callable[[], Found | None], seconds: float) -> Found:
    """What ``look`` finds as soon as it finds something.

    Raises:
        AssertionError: it does not.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"no {what} within {seconds:.0f} seconds")
