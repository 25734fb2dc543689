"""Open the registry of a workspace: its files, its catalogue and its MLflow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.environment import (
    ARTIFACTS_VARIABLE,
    CATALOGUE_VARIABLE,
    TRACKING_VARIABLE,
    Addresses,
    addresses,
    enables_mlflow_workspaces,
    where_it_was_looked_for,
    workspace_of,
)
from bpeline.registry.tracking import MlflowTracker, TrackingSettings, is_server
from bpeline.registry.workspace import (
    Workspace,
    known_store,
    remember_place,
    remember_store,
    served_ui_port,
    ui_port,
    workspace_root,
)
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption, StorageError, StoreLost
from bpeline.tokenizer_core.redaction import tell_secrets_of
from bpeline.tokenizer_core.urls import is_in_memory, is_url, refuse_secrets

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses of a registry; opens nothing."""

    workspace: Workspace
    tracking_uri: str = field(repr=False)  # may hold a password
    catalogue_url: str = field(repr=False)

    def __post_init__(self) -> None:
        tell_secrets_of(self.tracking_uri)
        tell_secrets_of(self.catalogue_url)

    @property
    def key(self) -> str:
        """Identify this registry; a digest, because addresses can contain passwords."""
        return digest_of([self.tracking_uri, self.catalogue_url])


class Registry:
    """The registry of one workspace: files, catalogue rows and MLflow.

    MLflow decides which versions exist and where aliases point. Catalogue and MLflow are opened on
    first use; StorageError is raised if another or an empty store is found at a known address.
    """

    def __init__(self, place: Place, tracker: MlflowTracker | None = None) -> None:
        self.place = place
        self.workspace: Workspace = place.workspace
        settings = tracking_settings(place.tracking_uri, place.workspace)
        self.tracker: MlflowTracker = tracker or MlflowTracker(settings)

    @cached_property
    def catalogue(self) -> Catalogue:
        from bpeline.registry.catalogue import Catalogue

        workspace, url = self.workspace, self.place.catalogue_url
        file, address = workspace.known_stores, self._address(url)
        known = known_store(file, "catalogue", address)
        had = known or (url == workspace.catalogue_url and workspace.had_a_catalogue)
        catalogue = Catalogue(url, workspace.id, make=not had)
        if not catalogue.id or (known and catalogue.id != known):
            raise _lost("catalogue", catalogue.place, known, catalogue.id)
        if not known and workspace.manifest.exists():
            with suppress(OSError, StorageError):  # a read-only workspace
                remember_store(file, "catalogue", address, catalogue.id)
        return catalogue

    def adopt_catalogue(self) -> None:
        """Accept the catalogue at its address as ours; create it if missing."""
        from bpeline.registry.catalogue import Catalogue

        catalogue = Catalogue(self.place.catalogue_url, self.workspace.id)
        address = self._address(self.place.catalogue_url)
        remember_store(self.workspace.known_stores, "catalogue", address, catalogue.id)
        self.__dict__["catalogue"] = catalogue

    @property
    def store(self) -> str:
        """The identity of its MLflow; empty if nothing was ever written there.

        Raises:
            StorageError: another MLflow than before is at this address.
            RegistryUnreachable: MLflow does not answer.
        """
        return self._as_known(self.tracker.identity)

    def make_store(self) -> str:
        """Like `store`, but gives an MLflow without an identity a new one."""
        self._as_known(self.tracker.identity)
        return self._as_known(self.tracker.ensure_identity)

    @property
    def known_store(self) -> str:
        """The identity of the MLflow last seen at this address; no request."""
        address = self._address(self.place.tracking_uri)
        return known_store(self.workspace.known_stores, "mlflow", address)

    def forget_mlflow(self) -> None:
        """Accept another MLflow at this address, now or later."""
        self._remember_mlflow("")

    def _as_known(self, ask: Callable[[], str]) -> str:
        known = self.known_store
        is_own = self.place.tracking_uri == self.workspace.mlflow_uri
        # `ask` may create a database.
        lost = not known and is_own and self.workspace.lost_its_mlflow
        identity = "" if lost else ask()
        if lost or (known and identity != known):
            raise _lost("MLflow", self.tracker.settings.place, known, identity)
        if identity and self.workspace.manifest.exists():
            if not known:
                with suppress(OSError, StorageError):
                    self._remember_mlflow(identity)
            self._warn_if_moved()
        return identity

    def _warn_if_moved(self) -> None:
        """Warn once that the workspace was moved and MLflow has the old paths."""
        artifacts = self.workspace.mlflow_artifacts.resolve()
        is_own = self.tracker.settings.artifact_location == artifacts.as_uri()
        if is_own and (former := remember_place(self.workspace.mlflow_places, artifacts)):
            warnings.warn(
                f"the workspace was at {str(former.parent)!r} before, and MLflow looks for its "
                "files there. Versions load from here. For what to do, type `bpeline doctor`",
                stacklevel=2,
            )

    def _remember_mlflow(self, identity: str) -> None:
        address = self._address(self.place.tracking_uri)
        remember_store(self.workspace.known_stores, "mlflow", address, identity)

    def _address(self, url: str) -> str:
        """The address relative to the workspace, so that it survives a move."""
        return url.replace(str(self.workspace.root), "")


def _lost(what: str, place: str, known: str, found: str) -> StoreLost:
    now = f"another one ({found}) is there" if found else "the store there is empty or missing"
    called = f" ({known})" if known else ""
    return StoreLost(
        f"the {what} of this workspace{called} is not at {place} any more: {now}",
        "expected the store that was there, or a restored backup of it",
        "put it back; or type `bpeline doctor` to see what can be rebuilt without it",
    )


def locate(workspace: Workspace | Path | str | None = None, *, make: bool = True) -> Place:
    """Find the registry of a workspace; see `open_registry`."""
    chosen = addresses()
    if not isinstance(workspace, Workspace):
        home, store = workspace_of(chosen.home if workspace is None else workspace)
        store = store or chosen.store
        remote = chosen.tracking_uri is not None and chosen.catalogue_url is None
        # A store is read through a local workspace, which caches the fetched files.
        if make or remote or store or Workspace.is_at(home):
            # A sweep takes the lock for an instant; readers must not.
            workspace = Workspace.open(home, store=store, sweep=False)
        elif chosen.catalogue_url is not None:
            workspace = Workspace(workspace_root(home), store)
        else:
            inside = workspace_root(home) / ".bpeline"
            raise StorageError(
                f"there is no workspace at {workspace_root(home)}"
                + ("" if workspace is not None else where_it_was_looked_for()),
                "expected a directory that `bpeline train` made",
                f"pass the one inside it: {inside}"
                if Workspace.is_at(inside)
                else "type `bpeline train --demo` to make one; set yours with --workspace, "
                "BPELINE_HOME=/srv/bpeline or bpeline.configure(workspace='/srv/bpeline')",
            )
    _refuse_memory(chosen)
    tracking_uri = chosen.tracking_uri or workspace.mlflow_uri
    if enables_mlflow_workspaces() and not is_server(tracking_uri):
        raise InvalidOption(
            "MLFLOW_ENABLE_WORKSPACES is set, and MLflow's database is used without a server",
            "expected the address of an MLflow server: the variable is for servers",
            "type `unset MLFLOW_ENABLE_WORKSPACES`, or set MLFLOW_TRACKING_URI to the server",
        )
    if workspace.store:
        require_a_server(workspace.store, chosen.catalogue_url)
    return Place(workspace, tracking_uri, chosen.catalogue_url or workspace.catalogue_url)


def _refuse_memory(chosen: Addresses) -> None:
    """Reject addresses of databases in memory, which end with the process."""
    urls = {
        TRACKING_VARIABLE: chosen.tracking_uri,
        CATALOGUE_VARIABLE: chosen.catalogue_url,
        ARTIFACTS_VARIABLE: chosen.artifacts_url,
    }
    for variable, url in urls.items():
        if url and is_in_memory(url):
            raise InvalidOption(
                f"{url} is in memory: its data is lost when the process ends",
                "expected the address of a file or of a server",
                f"set {variable} to another address, or leave it out",
            )


def require_a_server(store: str, catalogue_url: str | None) -> None:
    """Require a store URL and a catalogue that other machines can reach."""
    refuse_secrets(store)
    if not is_url(store):
        raise InvalidOption(
            f"BPELINE_STORE is {store!r}",
            "expected a URL such as s3://bucket/prefix",
            "correct it, or set BPELINE_HOME to a directory and leave BPELINE_STORE out",
        )
    if catalogue_url is None or catalogue_url.startswith("sqlite"):
        raise InvalidOption(
            f"{store} is shared with other machines, but the catalogue is a file of this one",
            "expected a catalogue that all machines can reach: PostgreSQL",
            "set BPELINE_CATALOGUE_URL=postgresql+psycopg://user@host/name",
        )


def open_registry(
    workspace: Registry | Workspace | Path | str | None = None, *, make: bool = True
) -> Registry:
    """Open the registry of a workspace; sends no requests yet.

    Args:
        workspace: a workspace or its directory; None takes the configured one
            (:func:`registry.configure`, else ``BPELINE_HOME``, else ``.bpeline`` here). An open
            registry is returned as it is.
        make: whether to create a missing workspace. If False, none is created unless only MLflow is
            configured: then a workspace caches files from there. A configured catalogue is read
            without a workspace.

    Raises:
        InvalidOption: the directory is not a workspace.
        StorageError: it cannot be used, or it is missing and ``make`` is False.
    """
    if isinstance(workspace, Registry):
        return workspace
    make = checks.flag("make", make)
    if workspace is not None and not isinstance(workspace, Workspace):
        checks.location("workspace", workspace)
    return Registry(locate(workspace, make=make))


def tracking_settings(uri: str, workspace: Workspace) -> TrackingSettings:
    """Return the MLflow settings; artifacts default to the server, store or workspace."""
    place = addresses().artifacts_url
    if place is None and not is_server(uri):
        place = workspace.mlflow_artifacts.resolve().as_uri()
        if workspace.store:
            place = f"{workspace.store.rstrip('/')}/mlflow-artifacts"
    served = served_ui_port(workspace)
    return TrackingSettings(
        uri,
        place,
        ui_port=served or ui_port(workspace),
        ui_is_served=served is not None,
        owner=workspace.id,
        snapshot=workspace.mlflow_snapshot if workspace.manifest.exists() else None,
    )
