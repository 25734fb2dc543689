"""The addresses this process uses: workspace, MLflow, catalogue, artifacts.

:func:`configure` overrides environment variables such as ``BPELINE_HOME``. Without either, the
workspace is searched for from the current directory upward.
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
PREFECT_FILES = (".env", "prefect.toml", "pyproject.toml")  # read by Prefect on start
PROJECT_TABLE = "train"  # only a project file has this table
_LARGEST_SETTINGS = 1 << 20  # bytes of a project file, or of a file of sources or rules

# Environment variables of MLflow, some read at its first import. Values set by the user are kept.
_MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # Silently truncated parameters would make two runs look equal; we truncate visibly.
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a busy server may ask for days
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # our output may be JSON
}

# Environment variables that huggingface_hub reads at its import.
_HUB_DEFAULTS = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def this_user() -> str:
    """Return the user's name; empty if there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return ""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of the workspace, the tracking server and the catalogue.

    Attributes:
        home: directory of the workspace.
        store: URL of the store that shares finished files with other machines; empty for none.
        tracking_uri, catalogue_url: MLflow and SQLAlchemy; None for SQLite files in the workspace.
        artifacts_url: for files of new MLflow experiments, such as ``s3://bucket/mlflow``; None for
            the workspace, or for the default of an MLflow server.
    """

    home: Path = DEFAULT_HOME
    store: str = ""
    tracking_uri: str | None = field(default=None, repr=False)  # may hold a password
    catalogue_url: str | None = field(default=None, repr=False)
    artifacts_url: str | None = None

    @property
    def workspace(self) -> str:
        """The workspace as another process on this machine can name it."""
        if self.home == cache_of(self.store):
            return self.store
        home = str(self.home)  # ~ is expanded when it is opened
        return home if home.startswith("~") else str(absolute_path(self.home))


def absolute_path(path: Path | str) -> Path:
    """Return an absolute path; ``..`` is resolved by the file system."""
    path = Path(path).expanduser().absolute()
    return path.resolve() if ".." in path.parts else path


def own_users() -> set[int]:
    """Return the ids of this user, of root, and of the user who ran sudo."""
    user, sudo = os.geteuid(), os.environ.get("SUDO_UID", "")
    return {0, int(sudo)} if user == 0 and sudo.isdecimal() else {0, user}


def _trust_file() -> Path:
    config_home = os.environ.get("XDG_CONFIG_HOME", "")
    base = config_home if os.path.isabs(config_home) else os.path.expanduser("~/.config")
    return Path(base, "bpeline", "trusted")


def is_trusted(path: Path) -> bool:
    """Whether the user has marked a path as trusted."""
    paths = os.environ.get(TRUST_VARIABLE, "").split(os.pathsep)
    if "*" in paths:
        return True
    with suppress(OSError, BpelineError):  # missing or unreadable
        file = _trust_file()
        if _foreign_owner(file, own_users()) is None:
            paths += os.fsdecode(read_bounded(file)).splitlines()
    trusted = {os.path.realpath(name) for name in paths if os.path.isabs(name)}
    return os.path.realpath(path) in trusted


def _foreign_owner(path: Path, owners: set[int]) -> int | None:
    """The owner of a path or of a link in its chain, if not in ``owners``."""
    while (status := path.lstat()).st_uid in owners:
        if not stat.S_ISLNK(status.st_mode):
            return None
        path.stat()  # raises for a cycle of links
        path = path.parent / path.readlink()
    return status.st_uid


def refusal(path: Path, *more_owners: int) -> NotTrusted | None:
    """Return an error if another user owns a file or directory that is not trusted."""
    try:
        path = absolute_path(path)
        owner = _foreign_owner(path, {*own_users(), *more_owners})
    except OSError:
        return None
    is_well_known = path.name in (DEFAULT_HOME.name, PROJECT_FILE, *PREFECT_FILES)
    shown = path.parent if is_well_known else path  # trust covers the whole directory
    if owner is None or is_trusted(path) or is_trusted(shown):
        return None
    place, file = shlex.quote(str(shown)), shlex.quote(str(_trust_file()))
    folder = shlex.quote(str(_trust_file().parent))
    return NotTrusted(
        f"{path} belongs to another user ({owner})",
        "expected a project or workspace of this user or root, or one that you trust",
        f"to trust {shown}, type once `mkdir -p {folder} && echo {place} >> {file}`, "
        f"or set {TRUST_VARIABLE}={place}",
    )


def require_own(path: Path, *more_owners: int) -> None:
    """Raise the error that `refusal` returns, if any."""
    if (reason := refusal(path, *more_owners)) is not None:
        raise reason


_configured: Addresses | None = None
_project: Path | None = None  # set by `name_project`
_set_by_us: dict[str, str] = {}


def folders_upward(project: Path | None) -> Iterator[Path]:
    """Yield the current directory and its parents, as git looks for a repository.

    Stops at the first parent that this user neither owns nor trusts. If a project file was named,
    the walk starts at its directory.
    """
    try:
        start = Path.cwd() if project is None else project.parent
    except FileNotFoundError:  # the directory was removed
        return
    yield start
    owners = own_users() - ({0} if os.geteuid() else set())
    for folder in start.parents:
        if folder.stat().st_uid not in owners and not is_trusted(folder):
            return
        yield folder


def _found_home(project: Path | None) -> Path:
    """The workspace of the nearest directory with a workspace or project file."""
    for level, folder in enumerate(folders_upward(project)):
        home, file = folder / DEFAULT_HOME, folder / PROJECT_FILE
        if home.is_dir() or file.is_file():
            owners = [project.stat().st_uid] if project and project.exists() else []
            require_own(home if home.is_dir() else file, *owners)
            return home if level or project else DEFAULT_HOME
    return DEFAULT_HOME if project is None else project.parent / DEFAULT_HOME


def name_project(path: Path | str | None) -> None:
    """Set the project file and search for the workspace from there; None resets it."""
    global _project
    _project = None if path is None else absolute_path(path)


def find_project() -> Path | None:
    """Return the named project file, else the nearest upward; raises NotTrusted."""
    if _project is not None:
        return _project
    return _found_project()


def read_settings(
    path: Path, unusable: Callable[[str], Exception], known: Collection[str] = ()
) -> dict[str, Any]:
    """Read a TOML file of settings: a project file, or one of sources or rules.

    Args:
        unusable: makes the error to raise from a reason.
        known: the keys that a file of sources or rules may have; empty accepts any.
    """
    try:
        content = read_toml(path, _LARGEST_SETTINGS)
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise unusable(getattr(error, "strerror", None) or str(error)) from error
    strange = sorted(content.keys() - {*known})
    if known and strange and PROJECT_TABLE not in content:
        raise unusable(f"it has {', '.join(f'{name}{likely(name, known)}' for name in strange)}")
    return content


def _found_project() -> Path | None:
    files = (folder / PROJECT_FILE for folder in folders_upward(None))
    project = next((file for file in files if file.is_file()), None)
    if project is not None:
        require_own(project)
    return project


def named_elsewhere() -> tuple[str, str]:
    """Return workspace and project file, each empty if found without an option."""
    default_workspace, default_project = "", None
    try:
        workspace = addresses().workspace
        with suppress(NotTrusted):
            default_workspace, default_project = _addresses_of(None).workspace, _found_project()
    except (FileNotFoundError, NotTrusted):  # the current directory was removed
        return "", ""
    project = "" if _project in (None, default_project) else str(_project)
    return "" if workspace == default_workspace and not project else workspace, project


def elsewhere() -> str:
    """Describe the workspace in use; empty if it is here or was set explicitly."""
    if _configured is not None:
        return ""
    chosen = addresses().workspace
    if chosen == str(Path.cwd() / DEFAULT_HOME):
        return ""
    if os.environ.get(HOME_VARIABLE):
        return f"{chosen}, which {HOME_VARIABLE} names"
    return chosen if _project is not None else f"{chosen}, found above this directory"


def where_it_was_looked_for() -> str:
    """Describe how the workspace in use was chosen, for error messages."""
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
    """Read the addresses from the environment; empty values count as unset."""
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
    """Return the directory and store of a workspace; the directory of a URL is cached."""
    if not is_url(str(name)):
        return Path(name), ""
    refuse_secrets(str(name))
    return cache_of(str(name)), str(name)


def cache_of(store: str) -> Path:
    """Return the directory where this machine caches the files of a store."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "bpeline" / "workspaces" / digest_of(store.rstrip("/"))[:16]


def names_mlflow_workspace() -> bool:
    """Whether MLFLOW_WORKSPACE selects a workspace of an MLflow server."""
    return bool(os.environ.get("MLFLOW_WORKSPACE"))


def enables_mlflow_workspaces() -> bool:
    """Whether MLflow opens its database for several workspaces, as servers can."""
    return os.environ.get("MLFLOW_ENABLE_WORKSPACES", "").lower() in ("true", "1")


def addresses() -> Addresses:
    """Return the addresses of :func:`configure`, else those of the environment."""
    return _configured if _configured is not None else read_environment()


def configure(
    workspace: Path | str | None = None,
    tracking_uri: str | None = None,
    catalogue_url: str | None = None,
) -> Addresses:
    """Set addresses for the rest of this process; omitted ones stay unchanged.

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
    """Set our defaults for MLflow; call before MLflow is first imported.

    MLflow reads telemetry settings at its import and HTTP limits at every request, both only from
    the environment. With its own limits, a server that does not answer costs several minutes.
    """
    limits = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(timeout_seconds),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    for name, value in {**_MLFLOW_DEFAULTS, **limits}.items():
        if os.environ.get(name) == _set_by_us.get(name):  # unset, or set by us
            os.environ[name] = _set_by_us[name] = value


UI_PORT = 5000  # default port of the MLflow UI on a SQLite file


def prepare_hub() -> None:
    """Set our defaults for huggingface_hub; call before it is imported."""
    for name, value in _HUB_DEFAULTS.items():
        os.environ.setdefault(name, value)
