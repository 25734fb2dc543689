"""The addresses this process works with; the only file of this room that touches the environment.

A downstream script may set ``BPELINE_HOME`` and write nothing but ``from bpeline.registry import
load_tokenizer``; a program may call :func:`configure` instead, which wins over the environment.
The file knows addresses, never what lives behind them.
"""

from __future__ import annotations

import getpass
import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_bounded, read_toml
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import BpelineError, NotTrusted, likely
from bpeline.tokenizer_core.urls import is_url, refuse_secrets

HOME_VARIABLE = "BPELINE_HOME"
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
CATALOGUE_VARIABLE = "BPELINE_CATALOGUE_URL"
ARTIFACTS_VARIABLE = "BPELINE_ARTIFACTS_URL"
STORE_VARIABLE = "BPELINE_STORE"
TRUST_VARIABLE = "BPELINE_TRUST"

DEFAULT_HOME = Path(".bpeline")
PROJECT_FILE = "bpeline.toml"
PREFECT_FILES = (".env", "prefect.toml", "pyproject.toml")  # which Prefect reads where it starts
PROJECT_TABLE = "train"  # which no file of sources or rules alone has
_LARGEST_SETTINGS = 1 << 20  # bytes of a project's file, or of one of sources or rules

# What MLflow reads from the environment, some of it at its first import. Set only where the user
# has not: somebody who chose another time-out keeps it.
_MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # Cut parameters would make two runs look alike; too long ones are cut by us, visibly.
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a busy server may ask to wait for days
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # standard output is ours, often JSON
}


# The same of huggingface_hub, at its import.
_HUB_DEFAULTS = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def this_user() -> str:
    """Who works in this process; empty where that has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return ""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the workspace, the tracking server and the catalogue are.

    Attributes:
        home: directory of the workspace.
        store: URL of the store where its finished files are shared with other machines; empty for
            none.
        tracking_uri: an MLflow URI, or None for the SQLite file inside the workspace.
        catalogue_url: an SQLAlchemy URL, or None for the SQLite file inside the workspace.
        artifacts_url: where MLflow keeps files of new experiments, such as ``s3://bucket/mlflow``;
            None for a folder of the workspace, or what an MLflow server decides.
    """

    home: Path = DEFAULT_HOME
    store: str = ""
    tracking_uri: str | None = field(default=None, repr=False)  # may hold a password
    catalogue_url: str | None = field(default=None, repr=False)
    artifacts_url: str | None = None

    @property
    def workspace(self) -> str:
        """What names the workspace to another process of this machine."""
        if self.home == cache_of(self.store):
            return self.store
        named = str(self.home)  # ~ is for who opens it, as everywhere
        return named if named.startswith("~") else str(absolute_path(self.home))


def absolute_path(path: Path | str) -> Path:
    """A path from the root; one with ``..`` in it as the system finds it.

    Raises:
        RuntimeError: it begins with the home of nobody.
        FileNotFoundError: the current directory was removed.
    """
    path = Path(path).expanduser().absolute()
    return path.resolve() if ".." in path.parts else path


def own_users() -> set[int]:
    """The ids of this user, of root, and of the user who typed sudo."""
    user, sudo = os.geteuid(), os.environ.get("SUDO_UID", "")
    return {0, int(sudo)} if user == 0 and sudo.isdecimal() else {0, user}


def _trust_file() -> Path:
    """The paths that the user trusts, one a line."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = named if os.path.isabs(named) else os.path.expanduser("~/.config")
    return Path(base, "bpeline", "trusted")


def is_trusted(path: Path) -> bool:
    """Whether the user has named a path as trusted."""
    named = os.environ.get(TRUST_VARIABLE, "").split(os.pathsep)
    if "*" in named:
        return True
    with suppress(OSError, BpelineError):  # there is none, or it cannot be read
        file = _trust_file()
        if _foreign_owner(file, own_users()) is None:
            named += os.fsdecode(read_bounded(file)).splitlines()
    trusted = {os.path.realpath(name) for name in named if os.path.isabs(name)}
    return os.path.realpath(path) in trusted


def _foreign_owner(path: Path, owners: set[int]) -> int | None:
    """The owner of a path, or of a link that it is, who is none of ``owners``."""
    while (status := path.lstat()).st_uid in owners:
        if not stat.S_ISLNK(status.st_mode):
            return None
        path.stat()  # fails for links in a circle
        path = path.parent / path.readlink()
    return status.st_uid


def refusal(path: Path, *more_owners: int) -> NotTrusted | None:
    """Why a file or directory may not be used: its owner is another user and not trusted."""
    try:
        path = absolute_path(path)
        owner = _foreign_owner(path, {*own_users(), *more_owners})
    except OSError:
        return None
    found = path.name in (DEFAULT_HOME.name, PROJECT_FILE, *PREFECT_FILES)
    named = path.parent if found else path  # the directory stands for all of them
    if owner is None or is_trusted(path) or is_trusted(named):
        return None
    place, file = shlex.quote(str(named)), shlex.quote(str(_trust_file()))
    folder = shlex.quote(str(_trust_file().parent))
    return NotTrusted(
        f"{path} belongs to another user ({owner})",
        "expected a project or workspace of this user or root, or one that you trust",
        f"to trust {named}, type once `mkdir -p {folder} && echo {place} >> {file}`, "
        f"or set {TRUST_VARIABLE}={place}",
    )


def require_own(path: Path, *more_owners: int) -> None:
    """Raise what `refusal` returns, if anything."""
    if (reason := refusal(path, *more_owners)) is not None:
        raise reason


_configured: Addresses | None = None
_project: Path | None = None  # the file that was named
_set_by_us: dict[str, str] = {}


def folders_upward(project: Path | None) -> Iterator[Path]:
    """The current directory, and those above it up to one that is another's and not trusted.

    A workspace or a project is found from below, as a repository of git is. Where a project's file
    was named, its directory takes the place of the current one.
    """
    try:
        here = Path.cwd() if project is None else project.parent
    except FileNotFoundError:  # it was removed
        return
    yield here
    owners = own_users() - ({0} if os.geteuid() else set())
    for folder in here.parents:
        if folder.stat().st_uid not in owners and not is_trusted(folder):
            return
        yield folder


def _found_home(project: Path | None) -> Path:
    """The workspace of the nearest directory that has one or is a project's; else of this one."""
    for number, folder in enumerate(folders_upward(project)):
        home, file = folder / DEFAULT_HOME, folder / PROJECT_FILE
        if home.is_dir() or file.is_file():
            owners = [project.stat().st_uid] if project and project.exists() else []
            require_own(home if home.is_dir() else file, *owners)
            return home if number or project else DEFAULT_HOME
    return DEFAULT_HOME if project is None else project.parent / DEFAULT_HOME


def name_project(path: Path | str | None) -> None:
    """Let a file be the project's, wherever the current directory is; with None it is found.

    The workspace is then looked for from its directory upward, and is beside it where none is.
    """
    global _project
    _project = None if path is None else absolute_path(path)


def find_project() -> Path | None:
    """The file of the project in force: that was named, else of this directory or one above it.

    Raises:
        NotTrusted: it was found, and belongs to another user.
    """
    if _project is not None:
        return _project
    return _found_project()


def read_settings(
    path: Path, unusable: Callable[[str], Exception], known: Collection[str] = ()
) -> dict[str, Any]:
    """Read a TOML file of settings: a project's, or one of sources or rules alone.

    Args:
        unusable: makes the error from a reason.
        known: the members of a file that is not a project's; empty accepts any.

    Raises:
        Exception: what ``unusable`` returns; the file is not TOML or has other members.
    """
    try:
        content = read_toml(path, _LARGEST_SETTINGS)
    except (OSError, ValueError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise unusable(getattr(error, "strerror", None) or str(error)) from error
    strange = sorted(content.keys() - {*known})
    if known and strange and PROJECT_TABLE not in content:
        raise unusable(f"it has {', '.join(f'{name}{likely(name, known)}' for name in strange)}")
    return content


def _found_project() -> Path | None:
    files = (folder / PROJECT_FILE for folder in folders_upward(None))
    found = next((file for file in files if file.is_file()), None)
    if found is not None:
        require_own(found)
    return found


def named_elsewhere() -> tuple[str, str]:
    """The workspace in force, and the project's file: each empty where a command finds it here.

    That is where neither was named to this process alone, or what was named is what is found.
    """
    here, project_here = "", None
    try:
        workspace = addresses().workspace
        with suppress(NotTrusted):  # what is found here is refused
            here, project_here = _addresses_of(None).workspace, _found_project()
    except (FileNotFoundError, NotTrusted):  # the current directory was removed
        return "", ""
    project = "" if _project in (None, project_here) else str(_project)
    return "" if workspace == here and not project else workspace, project


def elsewhere() -> str:
    """The workspace that was found or that BPELINE_HOME names; empty if it is here or was typed."""
    if _configured is not None:
        return ""
    chosen = addresses().workspace
    if chosen == str(Path.cwd() / DEFAULT_HOME):
        return ""
    if os.environ.get(HOME_VARIABLE):
        return f"{chosen}, which {HOME_VARIABLE} names"
    return chosen if _project is not None else f"{chosen}, found above this directory"


def where_it_was_looked_for() -> str:
    """How the workspace in force was chosen, for who misses theirs."""
    if _configured is not None:
        return ", which was named"
    if os.environ.get(HOME_VARIABLE):
        return f", which {HOME_VARIABLE} names"
    last = Path()
    begin = "the current directory" if _project is None else str(_project.parent)
    for folder in folders_upward(_project):
        if (folder / PROJECT_FILE).is_file():
            return f", beside {folder / PROJECT_FILE}"
        if (folder / DEFAULT_HOME).is_dir():
            return ", for that directory holds none"
        last = folder
    return (
        f": {HOME_VARIABLE} is not set, and from {begin} up to {last} there is "
        f"neither a {DEFAULT_HOME} nor a {PROJECT_FILE}"
    )


def read_environment() -> Addresses:
    """The addresses the environment names, empty values counting as unset."""
    return _addresses_of(_project)


def _addresses_of(project: Path | None, named: Path | str | None = None) -> Addresses:
    home, store = workspace_of(named or os.environ.get(HOME_VARIABLE) or _found_home(project))
    return Addresses(
        home=home,
        store=os.environ.get(STORE_VARIABLE) or store,
        tracking_uri=os.environ.get(TRACKING_VARIABLE) or None,
        catalogue_url=os.environ.get(CATALOGUE_VARIABLE) or None,
        artifacts_url=os.environ.get(ARTIFACTS_VARIABLE) or None,
    )


def workspace_of(name: Path | str) -> tuple[Path, str]:
    """The directory and the store of a workspace: a URL is a store with a directory in the cache.

    Raises:
        InvalidOption: the URL holds a password.
    """
    if not is_url(str(name)):
        return Path(name), ""
    refuse_secrets(str(name))
    return cache_of(str(name)), str(name)


def cache_of(store: str) -> Path:
    """Where this machine keeps what it made for a store or fetched from it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "bpeline" / "workspaces" / digest_of(store.rstrip("/"))[:16]


def names_mlflow_workspace() -> bool:
    """Whether the user works in one of several workspaces of an MLflow server."""
    return bool(os.environ.get("MLFLOW_WORKSPACE"))


def enables_mlflow_workspaces() -> bool:
    """Whether MLflow's databases are opened for several workspaces, as its servers may do."""
    return os.environ.get("MLFLOW_ENABLE_WORKSPACES", "").lower() in ("true", "1")


def addresses() -> Addresses:
    """The addresses in force: those of :func:`configure`, else those of the environment."""
    return _configured if _configured is not None else read_environment()


def configure(
    workspace: Path | str | None = None,
    tracking_uri: str | None = None,
    catalogue_url: str | None = None,
) -> Addresses:
    """Set the addresses for the rest of this process; what is not given stays as it is.

    Example:
        >>> from bpeline import configure, load_tokenizer
        >>> configure(workspace="/srv/bpeline")         # doctest: +SKIP
        >>> load_tokenizer("news@champion")             # doctest: +SKIP
    """
    if workspace is not None:
        checks.location("workspace", workspace)
    for name, url in (("tracking_uri", tracking_uri), ("catalogue_url", catalogue_url)):
        if url is not None:
            checks.text(name, url, "sqlite:///news.db")
    global _configured
    chosen = _configured or _addresses_of(_project, workspace)
    if workspace is not None:
        home, store = workspace_of(workspace)
        chosen = replace(chosen, home=home, store=store or chosen.store)
    if tracking_uri is not None:
        chosen = replace(chosen, tracking_uri=tracking_uri)
    if catalogue_url is not None:
        chosen = replace(chosen, catalogue_url=catalogue_url)
    _configured = chosen
    return chosen


def prepare_mlflow(timeout_seconds: int, retries: int) -> None:
    """Give MLflow's environment variables our defaults; call before the first import of MLflow.

    MLflow decides about telemetry while it is imported and reads its HTTP limits from the
    environment at every request; it offers no other way to set either. Left alone, a server that
    does not answer costs several minutes.

    Args:
        timeout_seconds: how long one HTTP request may take.
        retries: how often MLflow repeats a request that failed.
    """
    limits = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(timeout_seconds),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    for name, value in {**_MLFLOW_DEFAULTS, **limits}.items():
        if os.environ.get(name) == _set_by_us.get(name):  # unset, or ours to change
            os.environ[name] = _set_by_us[name] = value


UI_PORT = 5000  # where the UI of a SQLite file is served unless somebody chose another port


def prepare_hub() -> None:
    """Set what huggingface_hub reads from the environment, before it is imported."""
    for name, value in _HUB_DEFAULTS.items():
        os.environ.setdefault(name, value)
