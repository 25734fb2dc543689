"""Serves the applications of MLflow and Prefect, behind the gate unless no password is asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bpeline.registry.serving.gate import Gate
from bpeline.registry.workspace import read_server_secret

SECRET_VARIABLE = "BPELINE_SERVER_PASSWORD_FILE"
HOSTS_VARIABLE = "BPELINE_SERVER_HOSTS"


def is_gated() -> bool:
    """Whether this server asks for a password."""
    return bool(os.environ.get(SECRET_VARIABLE))


def serve_application(application: Any, host: str, port: int) -> None:
    """Serve an ASGI application until the process is ended.

    The environment names the file of the password; without it nobody is asked.
    """
    import uvicorn

    if is_gated():
        secret = read_server_secret(Path(os.environ[SECRET_VARIABLE]))
        hosts = os.environ.get(HOSTS_VARIABLE, "").split(",")
        application = Gate(application, secret, port, [one.strip() for one in hosts if one.strip()])
    uvicorn.run(application, host=host, port=port, log_level="critical")
