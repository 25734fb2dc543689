"""Which Prefect server runs for a workspace: the one that its `bpeline server` started.

It holds a lock for as long as it runs, released by the kernel however it ends, and a file that
nobody has locked names nobody: a server that is gone is forgotten by that. Asks no server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bpeline.registry.workspace import lock
from bpeline.registry.workspace.processes import this_process
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.errors import WorkspaceLocked
from bpeline.tokenizer_core.urls import is_url


@contextmanager
def serving_prefect(workspace: Workspace) -> Iterator[Callable[[str], None]]:
    """Be the one who serves Prefect for a workspace.

    Yields:
        What to call with the API once it answers; commands use it from then on.

    Raises:
        WorkspaceLocked: somebody else does already.
    """
    try:
        with lock.holding(workspace.prefect_server_file, "starting") as held:
            yield held.doing
    except WorkspaceLocked as error:
        holder = lock.read_holder(workspace.prefect_server_file)
        raise WorkspaceLocked(
            f"`bpeline server` runs for {workspace.root} already"
            + (f", in process {holder.process.pid}: {holder.purpose}" if holder else ""),
            "one for each workspace",
            "use that one, or stop it with Ctrl-C",
        ) from error


def served_prefect(workspace: Workspace) -> str:
    """The API of the Prefect server that runs for a workspace on this machine; empty for none."""
    holder = lock.read_holder(workspace.prefect_server_file)
    if holder is None or holder.process.host != this_process().host:
        return ""
    held = lock.is_held(workspace.prefect_server_file)
    return holder.purpose if held and is_url(holder.purpose) else ""
