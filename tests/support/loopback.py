"""Servers of a test on this machine: free ports, whether somebody listens, questions in JSON."""

from __future__ import annotations

import json
import os
import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Found = TypeVar("Found")

_BUSY = 503  # Prefect's database was locked for too long
_ATTEMPTS = 8

# Below those that a system hands out by itself: one of these it could give to somebody else before
# the server of a test has begun, and whoever asks whether that listens yet could meet himself.
_FIRST_PORT, _OF_A_WORKER, _WORKERS = 12_000, 1_000, 16
_worker = int("0" + os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")) % _WORKERS
_next = random.Random(os.getpid()).randrange(_OF_A_WORKER)  # another run may be at work beside


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on, and that nobody is given by chance."""
    global _next
    ports: list[int] = []
    for _ in range(_OF_A_WORKER):
        if len(ports) == number:
            return ports
        port = _FIRST_PORT + _worker * _OF_A_WORKER + _next
        _next = (_next + 1) % _OF_A_WORKER
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    raise AssertionError("hardly any port is free")


def listens(port: int) -> bool:
    """Whether somebody does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def asked(url: str, content: Any = None, method: str | None = None, **headers: str) -> Any:
    """The answer of a server; None where it is empty. One that is busy is asked again."""
    body = None if content is None else json.dumps(content).encode()
    every = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, body, every, method=method)
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
