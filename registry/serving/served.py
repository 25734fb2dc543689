"""Serve the applications of MLflow and Prefect, with or without a password."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bpeline.registry.serving.gate import Gate
from bpeline.registry.workspace import read_server_secret

SECRET_VARIABLE = "BPELINE_SERVER_PASSWORD_FILE"
HOSTS_VARIABLE = "BPELINE_SERVER_HOSTS"


def is_gated() -> bool:
    """Whether this server requires a password."""
    return bool(os.environ.get(SECRET_VARIABLE))


def serve_application(application: Any, host: str, port: int) -> None:
    """Serve an ASGI application until the process ends.

    ``BPELINE_SERVER_PASSWORD_FILE`` names the password file; without it, no password is required.
    """
    import uvicorn

    if is_gated():
        secret = read_server_secret(Path(os.environ[SECRET_VARIABLE]))
        hosts = os.environ.get(HOSTS_VARIABLE, "").split(",")
        application = Gate(
            application, secret, port, [name.strip() for name in hosts if name.strip()]
        )
    uvicorn.run(application, host=host, port=port, log_level="critical")
