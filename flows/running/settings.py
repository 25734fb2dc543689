"""Environment variables of Prefect and of the terminal.

Addresses of workspace, MLflow and catalogue are in `registry.environment`. Prefect's client reads
keys, certificates and headers. A workspace server's password is sent only to that server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from bpeline.registry.environment import HOME_VARIABLE, PREFECT_FILES, addresses, require_own
from bpeline.registry.workspace import Workspace, read_server_secret, served_prefect
from bpeline.tokenizer_core.bounded_files import read_file, read_toml
from bpeline.tokenizer_core.errors import InvalidOption, NotTrusted, StorageError
from bpeline.tokenizer_core.redaction import tell_secrets_of, without_secrets

# Defaults, which the user's variables override. A run's log goes to the server; the command line
# reports on the terminal, so Prefect prints only CRITICAL messages there.
_QUIET_PREFECT = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_CLI_PROMPT": "false",
    "NO_PROXY": "127.0.0.1,localhost",  # else Prefect contacts local servers through a proxy
}
_QUIET_TERMINAL = {
    # The user waits for this run, and does not need anything from the server.
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # else a line per event that a lost server misses
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",
}
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.")
_SERVERS = {
    **_QUIET_PREFECT,
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_UI_API_URL": "/api",  # relative to the host in the browser: tunnels use other ports
    # With leases in memory, the default, slots of runs stay taken forever if the server is killed,
    # and a deployment with a limit never runs again. Leases in files expire.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # MLflow's job execution would start eight more processes.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


class PrefectAddress(NamedTuple):
    """The address of a Prefect server, and the setting it is from."""

    api_url: str
    origin: str


def configured_prefect() -> PrefectAddress | None:
    """Return the API address in the environment or in Prefect's active profile."""
    if url := os.environ.get("PREFECT_API_URL"):
        return PrefectAddress(url, "PREFECT_API_URL")
    try:
        content = read_toml(_profiles())
        name = os.environ.get("PREFECT_PROFILE") or content["active"]
        url = str(content["profiles"][name]["PREFECT_API_URL"])
    except (OSError, RuntimeError, ValueError, LookupError, TypeError):
        return None  # Prefect cannot read the profile either
    tell_secrets_of(url)
    return PrefectAddress(url, f"Prefect's profile {name!r}") if url else None


def _profiles() -> Path:
    home = os.environ.get("PREFECT_HOME") or "~/.prefect"
    return Path(os.environ.get("PREFECT_PROFILES_PATH") or f"{home}/profiles.toml").expanduser()


def prefect_of(workspace: Workspace) -> dict[str, str]:
    """Return variables that move Prefect's home and default database into a workspace.

    Empty on network file systems, where SQLite's write-ahead log is unsafe. A configured database
    is kept.
    """
    if on_network_disk(workspace.root):
        return {}
    home = workspace.root / "prefect"
    return {"PREFECT_HOME": str(home), "PREFECT_PROFILES_PATH": str(_profiles())}


def on_network_disk(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Return whether a path is on a network file system; False if unknown."""
    try:
        lines = [line.split()[1:3] for line in os.fsdecode(read_file(mounts)).splitlines()]
    except OSError:
        return False
    above = [(len(place), kind) for place, kind in lines if path.resolve().is_relative_to(place)]
    return bool(above) and max(above)[1].startswith(_NETWORK)


def own_workspace() -> Workspace | None:
    """Return the current workspace; None if it is unusable (opening it tells why)."""
    try:
        return Workspace(addresses().home.expanduser().absolute())
    except (RuntimeError, NotTrusted):  # RuntimeError: the user has no home directory
        return None


def require_workspace() -> dict[str, str]:
    """Refuse to deploy without a workspace: a build step of ``prefect.yaml``."""
    if missing := [n for n in (HOME_VARIABLE, "BPELINE_INSTALLED") if not os.environ.get(n)]:
        raise InvalidOption(
            f"the deployments name a workspace by {' and '.join(missing)}, which is not set",
            "expected the variables that `bpeline deploy` sets",
            "type `bpeline deploy` instead of `prefect deploy`",
        )
    return {}


def own_server(api_url: str) -> dict[str, str]:
    """Return Prefect's variables for a server, with the password of our own server."""
    workspace = own_workspace()
    variables = {"PREFECT_API_URL": api_url}
    if workspace is not None and served_prefect(workspace) == api_url.rstrip("/"):
        with suppress(StorageError):  # the server will then ask for a password
            secret = read_server_secret(workspace.server_secret_file)
            variables["PREFECT_API_AUTH_STRING"] = f"bpeline:{secret}"
    return variables


def prepare_program() -> None:
    """Configure a program to use its workspace's server, before Prefect is imported."""
    os.environ |= own_server(os.environ["PREFECT_API_URL"])


def prepare_prefect(api_url: str | None = None, *, quiet_terminal: bool = False) -> None:
    """Set Prefect's environment variables; call it before Prefect is imported.

    Args:
        quiet_terminal: keep Prefect from printing, as the command line reports.
    """
    for name in PREFECT_FILES:
        require_own(Path(name))
    if api_url is not None:
        os.environ |= own_server(api_url)
    for name, value in {**_QUIET_PREFECT, **(_QUIET_TERMINAL if quiet_terminal else {})}.items():
        os.environ.setdefault(name, value)


@contextmanager
def importing_prefect() -> Iterator[None]:
    """Set Prefect's environment, and convert errors of its import inside the block."""
    prepare_prefect()
    try:
        yield
    except (Exception, SystemExit) as error:  # Prefect says why, and exits
        reason = without_secrets(str(error)).partition("\n")[0] or type(error).__name__
        raise InvalidOption(
            f"Prefect cannot be imported: {reason}",
            "expected valid settings in variables PREFECT_…, prefect.toml, pyproject.toml and "
            "profiles.toml",
            "type `prefect config view` to check them",
        ) from error


def naming(api_url: str) -> AbstractContextManager[None]:
    """Set a Prefect server in this process's environment inside the block."""
    return _setting(own_server(api_url))


@contextmanager
def _setting(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def server_environment(**places: str) -> dict[str, str]:
    """Return the environment of Prefect's and MLflow's servers and of their flows."""
    return {**_SERVERS, **os.environ, **places}


def starting_nothing_from_here() -> AbstractContextManager[None]:
    """Prevent child processes from importing modules from the current directory.

    `python -c` and `python -m` would import a user's signal.py or typing.py from there. The
    `bpeline` script does the same for all commands.
    """
    return _setting({"PYTHONSAFEPATH": "1"})


def somebody_watches() -> bool:
    """Return whether the terminal can erase lines and no completion is running."""
    return os.environ.get("TERM", "dumb") != "dumb" and "_BPELINE_COMPLETE" not in os.environ
