"""Which servers run for a workspace on this machine: Prefect's, and the one of MLflow's UI.

Each holds a lock for as long as it runs, released by the kernel however it ends, and says in the
locked file where it is: a file that nobody has locked names nobody. Asks no server. For links, the
port at which the UI was served last is remembered, too; one that is lost or damaged costs nothing
but a link to the usual one.
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
    """Say in a file what is served while the block runs; yields None where another does."""
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
    """What somebody on this machine says there and serves now; empty for nobody."""
    holder = lock.read_holder(file)
    if holder is None or holder.process.host != this_process().host:
        return ""
    return holder.purpose if lock.is_held(file) else ""


@contextmanager
def serving_prefect(workspace: Workspace) -> Iterator[Callable[[str], None]]:
    """Be the one who serves Prefect for a workspace.

    Yields:
        What to call with the API once it answers; commands use it from then on.

    Raises:
        WorkspaceLocked: somebody else does already.
        StorageError: the workspace cannot be written.
    """
    with _serving(workspace.prefect_server_file, "starting") as held:
        if held is None:
            holder = lock.read_holder(workspace.prefect_server_file)
            raise WorkspaceLocked(
                f"`bpeline serve` runs for {workspace.root} already"
                + (f", in process {holder.process.pid}: {holder.purpose}" if holder else ""),
                "one for each workspace",
                "use that one, or stop it with Ctrl-C",
            )
        yield held.doing


def served_prefect(workspace: Workspace) -> str:
    """The API of the Prefect server that runs for a workspace on this machine; empty for none."""
    said = _served(workspace.prefect_server_file)
    return said if is_url(said) else ""


@contextmanager
def serving_ui(workspace: Workspace, port: int) -> Iterator[None]:
    """Serve MLflow's UI at a port while the block runs; of several who do, links name the first."""
    with ExitStack() as held:
        # Without it, links say what to type, and the port before.
        with suppress(OSError, StorageError):
            remember_ui_port(workspace, port)
            held.enter_context(_serving(workspace.served_ui_file, str(port)))
        yield


def served_ui_port(workspace: Workspace) -> int | None:
    """Where somebody serves MLflow's UI on this machine now; None for nobody."""
    return _port_of(_served(workspace.served_ui_file).encode())


def remember_ui_port(workspace: Workspace, port: int) -> None:
    """Remember where MLflow's UI is served now."""
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
