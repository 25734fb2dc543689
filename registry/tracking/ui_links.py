"""Links into the MLflow UI; all select its classic view with charts."""

from __future__ import annotations

from urllib.parse import quote

_VIEW = "workflowType=machine_learning"


def is_server(tracking_uri: str) -> bool:
    """Whether a tracking URI names an HTTP server rather than a database."""
    return tracking_uri.startswith(("http://", "https://"))


def run_link(base: str, experiment_id: str, run_id: str) -> str:
    """Return the link to a run."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?{_VIEW}"


def run_page(experiment_id: str, run_id: str, artifact: str) -> str:
    """Return the relative link to an artifact of a run, for other pages of the UI."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{artifact}?{_VIEW}"


def model_link(base: str, name: str, number: int | None = None) -> str:
    """Return the link to a registered tokenizer or one of its versions."""
    version = "" if number is None else f"/versions/{number}"
    return f"{base}/#/models/{quote(name)}{version}?{_VIEW}"
