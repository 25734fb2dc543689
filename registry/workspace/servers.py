"""Find the Prefect server and the MLflow UI of a workspace on this machine.

Each server locks a file that contains its address; the kernel releases the lock when it ends. The
last port of the UI is also stored, for links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from bpeline.registry.environment import UI_PORT
from bpeline.registry.workspace import lock
from bpeline.registry.workspace.processes import this_process
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError, WorkspaceLocked
from bpeline.tokenizer_core.urls import is_url

_PORTS = range(1, 65536)


@contextmanager
def _serving(file: Path, said: str) -> Iterator[lock.HeldLock | None]:
    """Lock a file and write an address into it; yields None if it is locked."""
    descriptor = lock.take(file)
    if descriptor is None:
        yield None
        return
    try:
        held = lock.HeldLock(descriptor, datetime.now(UTC).isoformat(timespec="seconds"))
        held.doing(said)
        yield held
    finally:
        lock.release(descriptor)


def _served(file: Path) -> str:
    """Return the address in the file of a running server on this machine."""
    holder = lock.read_holder(file)
    if holder is None or holder.process.host != this_process().host:
        return ""
    return holder.purpose if lock.is_held(file) else ""


@contextmanager
def serving_prefect(workspace: Workspace) -> Iterator[Callable[[str], None]]:
    """Register this process as the Prefect server of a workspace while the block runs.

    Yields:
        A function to call with the API URL once the server answers.
    """
    with _serving(workspace.prefect_server_file, "starting") as held:
        if held is None:
            holder = lock.read_holder(workspace.prefect_server_file)
            raise WorkspaceLocked(
                f"`bpeline serve` runs for {workspace.root} already"
                + (f", in process {holder.process.pid}: {holder.purpose}" if holder else ""),
                "expected only one for each workspace",
                "use that one, or stop it with Ctrl-C",
            )
        yield held.doing


def served_prefect(workspace: Workspace) -> str:
    """Return the API URL of the running Prefect server; empty for none."""
    address = _served(workspace.prefect_server_file)
    return address if is_url(address) else ""


@contextmanager
def serving_ui(workspace: Workspace, port: int) -> Iterator[None]:
    """Register the port of an MLflow UI while the block runs."""
    with ExitStack() as held:
        # If this fails, links still work, with the former port and the command to type.
        with suppress(OSError, StorageError):
            remember_ui_port(workspace, port)
            held.enter_context(_serving(workspace.served_ui_file, str(port)))
        yield


def served_ui_port(workspace: Workspace) -> int | None:
    """Return the port of the MLflow UI running on this machine, or None."""
    return _port_of(_served(workspace.served_ui_file).encode())


def remember_ui_port(workspace: Workspace, port: int) -> None:
    """Store the current port of the MLflow UI."""
    if ui_port(workspace) != port:
        DURABLE.write(workspace.ui_port_file, f"{port}\n".encode())


def ui_port(workspace: Workspace) -> int:
    """Return the last port of the MLflow UI, or the default port."""
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
