"""What the environment says about Prefect and the terminal; in this room nobody else reads it.

The addresses of the workspace, the tracking server and the catalogue are `registry.environment`'s;
keys, certificates and headers are read by Prefect's own client. The password of a workspace's own
server is sent to that server only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from bpeline.registry.environment import HOME_VARIABLE, PREFECT_FILES, addresses, require_own
from bpeline.registry.workspace import Workspace, read_server_secret, served_prefect
from bpeline.tokenizer_core.bounded_files import read_file, read_toml
from bpeline.tokenizer_core.errors import InvalidOption, NotTrusted, StorageError
from bpeline.tokenizer_core.redaction import tell_secrets_of, without_secrets

# Set only where the user has not. The log of a run goes to the server; on the terminal the command
# line speaks for itself, so Prefect prints nothing below CRITICAL there.
_QUIET_PREFECT = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_CLI_PROMPT": "false",
    "NO_PROXY": "127.0.0.1,localhost",  # else Prefect asks a server of this machine through one
}
_QUIET_TERMINAL = {
    # Somebody waits for this run, and nothing that it needs is kept at the server.
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # else each event that a lost server does not get
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",
}
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.")
_SERVERS = {
    **_QUIET_PREFECT,
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_UI_API_URL": "/api",  # of the host that the browser knows: a tunnel has another port
    # Kept in memory, as is usual, the slots of runs that were under way when a server was killed
    # are taken for ever, and a deployment with a limit never runs again. In files, they run out.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # With its background jobs MLflow's server is eight processes more.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


class PrefectAddress(NamedTuple):
    """Where a Prefect server is said to be: its API, and what says so, for messages."""

    api_url: str
    origin: str


def configured_prefect() -> PrefectAddress | None:
    """The Prefect API of the environment, else of the active profile; without importing Prefect."""
    if url := os.environ.get("PREFECT_API_URL"):
        return PrefectAddress(url, "PREFECT_API_URL")
    try:
        content = read_toml(_profiles())
        name = os.environ.get("PREFECT_PROFILE") or content["active"]
        url = str(content["profiles"][name]["PREFECT_API_URL"])
    except (OSError, RuntimeError, ValueError, LookupError, TypeError):
        return None  # what Prefect cannot read either is no profile
    tell_secrets_of(url)
    return PrefectAddress(url, f"Prefect's profile {name!r}") if url else None


def _profiles() -> Path:
    home = os.environ.get("PREFECT_HOME") or "~/.prefect"
    return Path(os.environ.get("PREFECT_PROFILES_PATH") or f"{home}/profiles.toml").expanduser()


def prefect_of(workspace: Workspace) -> dict[str, str]:
    """Variables that move Prefect's home, and its default database, into a workspace.

    A database that the environment or a profile names stays the one. On a disk of another machine
    SQLite's write-ahead log is unsafe, so there Prefect's home stays where it is.
    """
    if on_network_disk(workspace.root):
        return {}
    home = workspace.root / "prefect"
    return {"PREFECT_HOME": str(home), "PREFECT_PROFILES_PATH": str(_profiles())}


def on_network_disk(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether a path is on a disk of another machine; False where the system does not say it."""
    try:
        lines = [line.split()[1:3] for line in os.fsdecode(read_file(mounts)).splitlines()]
    except OSError:
        return False
    above = [(len(place), kind) for place, kind in lines if path.resolve().is_relative_to(place)]
    return bool(above) and max(above)[1].startswith(_NETWORK)


def own_workspace() -> Workspace | None:
    """The workspace in force; None where it cannot be used, which opening it reports."""
    try:
        return Workspace(addresses().home.expanduser().absolute())
    except (RuntimeError, NotTrusted):  # the home directory of nobody
        return None


def require_workspace() -> dict[str, str]:
    """Refuse to deploy for no workspace: a build step of ``prefect.yaml``.

    Raises:
        InvalidOption: the file was not deployed by `bpeline deploy`, which names the workspace.
    """
    if missing := [n for n in (HOME_VARIABLE, "BPELINE_INSTALLED") if not os.environ.get(n)]:
        raise InvalidOption(
            f"the deployments name a workspace by {' and '.join(missing)}, which is not set",
            "expected the variables that `bpeline deploy` sets",
            "type `bpeline deploy` instead of `prefect deploy`",
        )
    return {}


def own_server(api_url: str) -> dict[str, str]:
    """Variables of Prefect's client for a server, with the password if it is the workspace's."""
    workspace = own_workspace()
    variables = {"PREFECT_API_URL": api_url}
    if workspace is not None and served_prefect(workspace) == api_url.rstrip("/"):
        with suppress(StorageError):  # the server then asks for a password
            secret = read_server_secret(workspace.server_secret_file)
            variables["PREFECT_API_AUTH_STRING"] = f"bpeline:{secret}"
    return variables


def prepare_program() -> None:
    """Let a program of a workspace's server ask it; call before the first import of Prefect."""
    os.environ |= own_server(os.environ["PREFECT_API_URL"])


def prepare_prefect(api_url: str | None = None, *, quiet_terminal: bool = False) -> None:
    """Give Prefect its environment; call before the first import of Prefect.

    Args:
        api_url: the server that was chosen; None leaves the choice as it is.
        quiet_terminal: somebody else speaks on this terminal.
    """
    for name in PREFECT_FILES:
        require_own(Path(name))
    if api_url is not None:
        os.environ |= own_server(api_url)
    for name, value in {**_QUIET_PREFECT, **(_QUIET_TERMINAL if quiet_terminal else {})}.items():
        os.environ.setdefault(name, value)


@contextmanager
def importing_prefect() -> Iterator[None]:
    """Let Prefect be imported in the block, with its environment.

    Raises:
        InvalidOption: it cannot read its settings.
        NotTrusted: some of them are another user's.
    """
    prepare_prefect()
    try:
        yield
    except (Exception, SystemExit) as error:  # Prefect says why, and exits
        said = without_secrets(str(error)).partition("\n")[0] or type(error).__name__
        raise InvalidOption(
            f"Prefect cannot be imported: {said}",
            "settings that Prefect accepts, in variables PREFECT_…, prefect.toml, pyproject.toml, "
            "and profiles.toml",
            "type `prefect config view` to see what it says of them",
        ) from error


@contextmanager
def naming(api_url: str) -> Iterator[None]:
    """Name a Prefect server in the environment of this process for as long as the block lasts."""
    variables = own_server(api_url)
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def server_environment(**places: str) -> dict[str, str]:
    """The environment for Prefect's programs, MLflow's server and the flows that they start.

    Args:
        places: variables that win over the user's, such as ``PREFECT_API_URL``.
    """
    return {**_SERVERS, **os.environ, **places}


@contextmanager
def starting_nothing_from_here() -> Iterator[None]:
    """Let processes that others start meanwhile import nothing from the current directory.

    `python -c` and `python -m` would look for every module there first: a signal.py or typing.py is
    somebody's. The script does it for all commands.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


def somebody_watches() -> bool:
    """Whether a terminal can erase what it shows, and no shell asks for completions instead."""
    return os.environ.get("TERM", "dumb") != "dumb" and "_BPELINE_COMPLETE" not in os.environ
