"""The registry of one workspace, opened: its workspace, catalogue and tracker together.

Turns addresses into things that answer; knows nothing of what is asked of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from registry.environment import addresses
from registry.tracked import TrackingSettings
from registry.tracking import MlflowTracker
from registry.ui_links import is_server
from registry.workspace import Workspace
from tokenizer_core.digests import digest_of
from tokenizer_core.errors import StorageError

if TYPE_CHECKING:
    from registry.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Place:
    """Where a registry is; nothing of it is open.

    Attributes:
        workspace: where files are kept.
        tracking_uri: of MLflow.
        catalogue_url: of the catalogue.
    """

    workspace: Workspace
    tracking_uri: str
    catalogue_url: str

    @property
    def key(self) -> str:
        """What tells this registry from others; a digest, because addresses hold passwords."""
        return digest_of([self.tracking_uri, self.catalogue_url])


@dataclass(frozen=True, slots=True)
class Registry:
    """Where versions are remembered: files, rows, and the window people look through."""

    workspace: Workspace
    catalogue: Catalogue
    tracker: MlflowTracker

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.workspace, self.tracker.settings.uri, self.catalogue.url)


def locate(workspace: Workspace | Path | str | None = None, *, make: bool = True) -> Place:
    """Find the registry of a workspace, as `open_registry` opens it.

    Raises:
        InvalidOption, StorageError: as there.
    """
    chosen = addresses()
    if not isinstance(workspace, Workspace):
        home = chosen.home if workspace is None else workspace
        remote = chosen.tracking_uri is not None and chosen.catalogue_url is None
        if make or remote or Workspace.is_at(home):
            # Without a sweep: that takes the lock for an instant, which a reader must not.
            workspace = Workspace.open(home, sweep=False)
        elif chosen.catalogue_url is not None:
            workspace = Workspace(Path(home).expanduser().absolute())
        else:
            raise StorageError(
                f"there is no workspace at {Path(home).expanduser().absolute()}",
                "a directory that `bpeline train` has made",
                "type `bpeline train --demo` to make one, or name yours with --workspace",
            )
    return Place(
        workspace,
        chosen.tracking_uri or workspace.mlflow_uri,
        chosen.catalogue_url or workspace.catalogue_url,
    )


def open_registry(
    workspace: Workspace | Path | str | None = None, *, make: bool = True
) -> Registry:
    """Open the registry of a workspace; MLflow is imported only when it is asked something.

    Args:
        workspace: an opened workspace or its directory; None takes the configured one
            (:func:`registry.configure`, else ``BPELINE_HOME``, else ``.bpeline`` here).
        make: whether to make a workspace where there is none. Without, none is made unless
            versions are somewhere else: a configured catalogue is read and nothing written here;
            for a configured MLflow alone, a workspace keeps what comes from there.

    Raises:
        InvalidOption: the directory is not a workspace.
        StorageError: it cannot be used, or there is none and none is to be made.
    """
    from registry.catalogue import Catalogue

    place = locate(workspace, make=make)
    return Registry(
        place.workspace,
        Catalogue(place.catalogue_url, place.workspace.id),
        MlflowTracker(tracking_settings(place.tracking_uri, place.workspace)),
    )


def tracking_settings(uri: str, workspace: Workspace) -> TrackingSettings:
    """Settings for a tracking URI: a server keeps artifacts itself, else the workspace does."""
    place = None if is_server(uri) else workspace.mlflow_artifacts.resolve().as_uri()
    return TrackingSettings(uri=uri, artifact_location=place)
