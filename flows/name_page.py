"""The page of a name in MLflow: made anew whenever something about its versions has changed.

It lies with the run of the latest version, and the page of the registered model links it. A
courtesy: what changed has changed, whether or not the page can be shown. An MLflow that does not
answer gets it later, with whatever else waits for it; all else that keeps it out is a warning.
"""

from __future__ import annotations

import warnings

from bpeline.flows.pages import page_of_name
from bpeline.registry.aliases import name_history
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    ArtifactsRefused,
    BpelineError,
    RegistryUnreachable,
    UnknownVersion,
)


def show_name_page(registry: Registry, name: str) -> str:
    """Put the page of a name into MLflow.

    Returns:
        Its address; empty where it could not be shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other MLflows: whoever lists versions is told
            return _shown(registry, name)
    except (BpelineError, OSError) as error:
        waits = isinstance(error, RegistryUnreachable) and not isinstance(error, ArtifactsRefused)
        if not waits and not isinstance(error, UnknownVersion):
            said = error.happened if isinstance(error, BpelineError) else str(error)
            warnings.warn(
                f"the page of {name} in MLflow could not be written: {said}; "
                f"`bpeline versions {name} --html {name}.html` writes it anew",
                stacklevel=2,
            )
    return ""


def _shown(registry: Registry, name: str) -> str:
    history = name_history(registry, name)
    runs = [one.version.mlflow_run_id for one in history.versions if one.version.mlflow_run_id]
    if not runs:
        return ""
    with (
        registry.workspace.temporary_directory("name-page") as directory,
        DURABLE.passing(directory),
    ):
        path = directory / "versions.html"
        DURABLE.write(path, page_of_name(history).encode(errors="backslashreplace"))
        return registry.tracker.show_name_page(name, runs[-1], path, history.measured_on)
