"""What the environment says about Prefect; the only file of this room that reads or sets it.

The addresses of the workspace, the tracking server and the catalogue are `registry.environment`'s.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

LOCAL_SERVER = "http://127.0.0.1:4200/api"

# Set only where the user has not. The log of a run goes to the server; on the terminal the command
# line speaks for itself, so Prefect prints nothing below CRITICAL there.
_QUIET_PREFECT = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_CLI_PROMPT": "false",
}
_QUIET_TERMINAL = {
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",
}
# Kept in memory, as is usual, the slots of runs that were under way when a server was killed are
# taken for ever, and a deployment with a limit never runs again. In files, they run out.
_LASTING_LEASES = {
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    )
}


@dataclass(frozen=True, slots=True)
class PrefectAddress:
    """Where a Prefect server is said to be.

    Attributes:
        api_url: its API, ending in ``/api`` for a server of one's own.
        api_key: for Prefect Cloud; None otherwise.
        origin: where that was found, for messages; empty when nobody configured it.
    """

    api_url: str
    api_key: str | None
    origin: str


def configured_prefect() -> PrefectAddress | None:
    """The Prefect API of the environment, else of the active profile; without importing Prefect."""
    url = os.environ.get("PREFECT_API_URL")
    key = os.environ.get("PREFECT_API_KEY") or None
    if url:
        return PrefectAddress(url, key, "PREFECT_API_URL")
    name, profile = _active_profile()
    if profile.get("PREFECT_API_URL"):
        found_key = key or profile.get("PREFECT_API_KEY") or None
        return PrefectAddress(profile["PREFECT_API_URL"], found_key, f"Prefect's profile {name!r}")
    return None


def _active_profile() -> tuple[str, dict[str, str]]:
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        name = os.environ.get("PREFECT_PROFILE") or str(content.get("active", ""))
        profile = content.get("profiles", {}).get(name, {})
        return name, {key: str(value) for key, value in profile.items()}
    except (OSError, ValueError, AttributeError):
        return "", {}


def prepare_prefect(api_url: str | None = None, *, quiet_terminal: bool = False) -> None:
    """Give Prefect its environment; call before the first import of Prefect.

    Args:
        api_url: the server that was chosen; None leaves the choice as it is.
        quiet_terminal: somebody else speaks on this terminal.
    """
    if api_url is not None:
        os.environ["PREFECT_API_URL"] = api_url
    for name, value in {**_QUIET_PREFECT, **(_QUIET_TERMINAL if quiet_terminal else {})}.items():
        os.environ.setdefault(name, value)


def prefect_environment(api_url: str, home: Path, store: str = "") -> dict[str, str]:
    """The environment for Prefect's own programs, and for the flows they start.

    Args:
        api_url: the server's.
        home: the workspace.
        store: where it is shared; empty for none.
    """
    shared = {"BPELINE_STORE": store} if store else {}
    quiet = {**_QUIET_PREFECT, "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL"}
    places = {"PREFECT_API_URL": api_url, "BPELINE_HOME": str(home), **shared}
    return {**quiet, **_LASTING_LEASES, **os.environ, **places}


def mlflow_server_environment(store: str, artifacts: str) -> dict[str, str]:
    """The environment for an MLflow server of one user: no telemetry, no background jobs.

    Without the last one it starts eight more processes.

    Args:
        store: URI of its database; not an argument, because other users see those.
        artifacts: where it keeps files.
    """
    defaults = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    places = {"MLFLOW_BACKEND_STORE_URI": store, "MLFLOW_ARTIFACTS_DESTINATION": artifacts}
    return {**defaults, **os.environ, **places}
