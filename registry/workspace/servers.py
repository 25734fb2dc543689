"""Find the Prefect server and the MLflow UI of a workspace on this machine.

Each server locks a file that contains its address; the kernel releases the lock when it ends. The
last port of the UI is also stored, for links, and the password of the servers in a file that only
its owner can read.
"""

from __future__ import annotations

import os
import secrets
import stat
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
from bpeline.tokenizer_core.redaction import tell_secrets_of
from bpeline.tokenizer_core.urls import is_url

_PORTS = range(1, 65536)
_SECRET_BYTES = 32
_LONGEST_SECRET = 4096
_PRIVATE = 0o600


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


def make_server_secret(path: Path) -> str:
    """Read the password; creates one if there is none."""
    if not os.path.lexists(path):
        DURABLE.require_changeable(path)
        aside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        try:
            os.write(descriptor, secrets.token_hex(_SECRET_BYTES).encode() + b"\n")
            os.fsync(descriptor)
            with suppress(FileExistsError):  # another process created it first
                os.link(aside, path)
        finally:
            os.close(descriptor)
            aside.unlink()
        DURABLE.sync(path.parent)
    return read_server_secret(path)


def read_server_secret(path: Path) -> str:
    """Read the password.

    Raises:
        StorageError: the file cannot be read, or other users own it or can access it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            text = os.read(descriptor, _LONGEST_SECRET).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        is_private = is_own and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        mode = stat.filemode(status.st_mode)
        why = "" if is_private and len(text) >= _SECRET_BYTES else f"{mode} of user {status.st_uid}"
    except OSError as error:
        why = str(error.strerror)
    if why:
        raise StorageError(
            f"the password of the workspace's servers, {path}, cannot be used: {why}",
            f"expected a file of {2 * _SECRET_BYTES} characters that only you can read",
            f"type `rm {path}`: the next `bpeline serve` creates a new one",
        )
    tell_secrets_of(f"http://bpeline:{text}@localhost")
    return text
