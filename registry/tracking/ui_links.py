"""Links into the MLflow UI.

MLflow opens in its view for generative models; every link here asks for the one with charts.
"""

from __future__ import annotations

from urllib.parse import quote

_VIEW = "workflowType=machine_learning"


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
