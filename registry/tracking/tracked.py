"""Settings, versions and naming rules for MLflow, without importing MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from bpeline.registry.environment import UI_PORT
from bpeline.tokenizer_core.evaluation import NEW_TEXT, depends_on_text
from bpeline.tokenizer_core.redaction import without_secrets

OWNER_TAG = "bpeline.workspace"  # the workspace that created a run or a model

# All versions in one page: a version registered between two pages would be in both or in neither.
# MLflow allows 200,000.
VERSIONS_AT_ONCE = 100_000

LONGEST_TEXT = 500  # characters of a parameter or tag; MLflow itself refuses more than 6,000
_OF_A_SET = re.compile(r"\.(?:set(\d+)|own_text)$")  # what `shown_metric` appends
_NUMBER = re.compile("[0-9]{1,9}")
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


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """Address and timeouts of MLflow.

    Attributes:
        uri: ``sqlite:////abs/mlflow.db``, a PostgreSQL URL or an ``http(s)://`` server.
        artifact_location: absolute ``file:///`` or object-store URI for new experiments; None
            lets an HTTP server decide.
        ui_port: port of the local UI for a SQLite file.
        snapshot: file of the cached registry content, see `snapshot`; None for no cache.
    """

    uri: str = field(repr=False)  # may hold a password
    artifact_location: str | None = None
    timeout_seconds: int = 10
    retries: int = 2
    ui_port: int = UI_PORT
    ui_is_served: bool = False
    owner: str = ""
    snapshot: Path | None = None

    @property
    def place(self) -> str:
        """The URI without its password."""
        return without_secrets(self.uri)

    @property
    def ui(self) -> str:
        """The base URL of MLflow's pages, without a password: the server or the local UI."""
        if not is_server(self.uri):
            return f"http://127.0.0.1:{self.ui_port}"
        return re.sub(r"//[^/]*@", "//", self.uri.rstrip("/"))

    @property
    def ui_command(self) -> str:
        """The command that starts the UI; empty if it is running or MLflow is a server."""
        if self.ui_is_served or is_server(self.uri):
            return ""
        return (
            "bpeline serve --mlflow-only"
            if self.ui_port == UI_PORT
            else f"bpeline serve --mlflow-only --mlflow-port {self.ui_port}"
        )


class Unended(NamedTuple):
    """A run that has not ended in MLflow, or a stored model without a version."""

    id: str
    run_id: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class TrackedVersion:
    """A version in MLflow's model registry; ``digest`` is empty if not from bpeline.

    ``created_ms`` is in milliseconds since 1970.
    """

    name: str
    number: int
    digest: str
    mlflow_run_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    @classmethod
    def of(cls, version: Any) -> TrackedVersion:
        """Convert MLflow's ``ModelVersion``."""
        tags = {str(key): str(value) for key, value in (version.tags or {}).items()}
        number, digest = int(version.version), tags.get("digest", "")
        created_ms = int(version.creation_timestamp or 0)
        return cls(version.name, number, digest, version.run_id or "", tags, created_ms)

    @property
    def run_id(self) -> str:
        """The bpeline run that made it; empty if not from bpeline."""
        return self.tags.get("run_id", "")

    @property
    def vocab_size(self) -> int:
        """The vocab size in its tag, which users can edit; 0 if that is not a number."""
        tag = self.tags.get("vocab_size", "")
        return int(tag) if _NUMBER.fullmatch(tag) else 0


def shown_set(digest: str) -> str:
    """Return the short name of an evaluation set; ``none`` for a training's own texts."""
    return digest[:8] or "none"


def shown_metric(name: str, set_number: int) -> str:
    """Return a metric's name in MLflow, which differs for different evaluation texts.

    The first evaluation set has plain names, the second the suffix ``.set2``; trainings without a
    set have ``.own_text``.
    """
    if set_number == 1 or not depends_on_text(name) or name.startswith(NEW_TEXT):
        return name
    return f"{name}.set{set_number}" if set_number else f"{name}.own_text"


def plain_metrics(shown: Mapping[str, float]) -> dict[str, float]:
    """Return metrics by their plain names, with the values of the latest set."""

    def set_number(name: str) -> int:
        match = _OF_A_SET.search(name)
        return int(match[1] or 0) if match else 1

    ordered = sorted(shown.items(), key=lambda metric: set_number(metric[0]))
    return {_OF_A_SET.sub("", name): value for name, value in ordered}


def milliseconds(time: str) -> int:
    """Convert an ISO 8601 time to MLflow's milliseconds since 1970."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def shortened(text: str) -> str:
    """Cut a parameter or tag to `LONGEST_TEXT` characters, ending in an ellipsis."""
    text = in_utf8(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def in_utf8(text: str) -> str:
    r"""Remove secrets and escape lone surrogates (``\udce9``)."""
    return without_secrets(text).encode(errors="backslashreplace").decode()
