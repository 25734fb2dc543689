"""Links into the MLflow UI.

MLflow opens in its view for generative models; every link here asks for the one with charts.
Knows URLs only, never whether a server is running there.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from bpeline.registry.environment import UI_PORT

_VIEW = "workflowType=machine_learning"


def ui_base(tracking_uri: str, port: int = UI_PORT) -> str:
    """Where the UI of a tracking URI is found: the server itself, or the local UI for SQLite."""
    if not is_server(tracking_uri):
        return f"http://127.0.0.1:{port}"
    return re.sub(r"//[^/]*@", "//", tracking_uri.rstrip("/"))  # links tell no password


def ui_command(tracking_uri: str, port: int = UI_PORT) -> str:
    """What to type so that somebody answers there; nothing where that is a server's own affair."""
    if is_server(tracking_uri):
        return ""
    return "bpeline ui" if port == UI_PORT else f"bpeline ui --port {port}"


def is_server(tracking_uri: str) -> bool:
    """Whether a tracking URI names an HTTP server rather than a database."""
    return tracking_uri.startswith(("http://", "https://"))


def run_link(base: str, experiment_id: str, run_id: str) -> str:
    """One run: parameters, metrics, inputs, artifacts."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?{_VIEW}"


def run_page(experiment_id: str, run_id: str, artifact: str) -> str:
    """A file of a run, linked from another page of the same UI, wherever that is served."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{artifact}?{_VIEW}"


def model_link(base: str, name: str, number: int | None = None) -> str:
    """A registered tokenizer, or one version of it."""
    version = "" if number is None else f"/versions/{number}"
    return f"{base}/#/models/{quote(name)}{version}?{_VIEW}"
