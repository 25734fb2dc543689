"""At which port a workspace's MLflow UI was served last: links that are printed later name it.

A hint for people. Nobody asks whether it is still served there, and one that is lost or damaged
costs nothing but a link to the usual port.
"""

from __future__ import annotations

from bpeline.registry.environment import UI_PORT
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.durable_files import DURABLE

_PORTS = range(1, 65536)


def remember_ui_port(workspace: Workspace, port: int) -> None:
    """Remember where it is served now."""
    if ui_port(workspace) != port:
        DURABLE.write(workspace.ui_port_file, f"{port}\n".encode())


def ui_port(workspace: Workspace) -> int:
    """Where it was served last; where nobody chose a port, the usual one."""
    try:
        port = int(workspace.ui_port_file.read_bytes()[:10])
    except (OSError, ValueError):
        return UI_PORT
    return port if port in _PORTS else UI_PORT
