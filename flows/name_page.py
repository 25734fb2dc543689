"""The page of a name in MLflow: made anew whenever something about its versions has changed.

It lies with the run of the latest version, and the page of the registered model links it. A
courtesy: what changed has changed, whether or not the page can be shown.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

from bpeline.flows.pages import page_of_name
from bpeline.registry.name_history import name_history
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError


def show_name_page(registry: Registry, name: str) -> str:
    """Put the page of a name into MLflow.

    Returns:
        Its address; empty where it could not be shown.
    """
    with suppress(BpelineError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other MLflows, which whoever lists versions is told
        history = name_history(registry, name)
        runs = [one.version.mlflow_run_id for one in history.versions]
        if not any(runs):
            return ""
        with registry.workspace.temporary_directory("name-page") as directory:
            path = directory / "versions.html"
            DURABLE.write(path, page_of_name(history).encode(errors="backslashreplace"))
            latest = [run for run in runs if run][-1]
            return registry.tracker.show_name_page(name, latest, path, history.measured_on)
    return ""
