"""At which port a workspace's MLflow UI is served, or was last: links that are printed name it.

A hint for people: no server is asked. Who serves it holds a lock for as long, released by the
kernel however the server ends; a port that is lost or damaged costs nothing but a link to the usual
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from bpeline.registry.environment import UI_PORT
from bpeline.registry.workspace import lock
from bpeline.registry.workspace.processes import this_process
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError

_PORTS = range(1, 65536)


@contextmanager
def serving_ui(workspace: Workspace, port: int) -> Iterator[None]:
    """Serve it at a port while the block runs; of several who do, links name the first."""
    held = None
    with suppress(OSError, StorageError):  # without, links say what to type, and the port before
        remember_ui_port(workspace, port)
        held = lock.take(workspace.served_ui_file)
        if held is not None:
            since = datetime.now(UTC).isoformat(timespec="seconds")
            lock.HeldLock(held, since).doing(str(port))
    try:
        yield
    finally:
        if held is not None:
            lock.release(held)


def served_ui_port(workspace: Workspace) -> int | None:
    """Where somebody serves it on this machine now; None for nobody."""
    holder = lock.read_holder(workspace.served_ui_file)
    if holder is None or holder.process.host != this_process().host:
        return None
    port = _port_of(holder.purpose.encode())
    return port if lock.is_held(workspace.served_ui_file) else None


def remember_ui_port(workspace: Workspace, port: int) -> None:
    """Remember where it is served now."""
    if ui_port(workspace) != port:
        DURABLE.write(workspace.ui_port_file, f"{port}\n".encode())


def ui_port(workspace: Workspace) -> int:
    """Where it was served last; where nobody chose a port, the usual one."""
    try:
        return _port_of(read_file(workspace.ui_port_file, links=False)) or UI_PORT
    except OSError:
        return UI_PORT


def _port_of(text: bytes) -> int | None:
    try:
        port = int(text[:10])
    except ValueError:
        return None
    return port if port in _PORTS else None
