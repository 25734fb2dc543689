"""The values that stand for MLflow's things: settings, runs, versions, tags.

They let the rest of this room speak of MLflow without importing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from bpeline.registry.environment import UI_PORT
from bpeline.registry.tracking.ui_links import is_server
from bpeline.tokenizer_core.evaluation import NEW_TEXT, depends_on_text
from bpeline.tokenizer_core.redaction import without_secrets

OWNER_TAG = "bpeline.workspace"  # the workspace that shows a run or stored a model

# All versions in one answer: pages are of different moments, and a version that is registered or
# tagged between two of them is in both or in neither. MLflow allows 200,000.
VERSIONS_AT_ONCE = 100_000

LONGEST_TEXT = 500  # characters of a parameter or tag; MLflow itself refuses more than 6,000
_OF_A_SET = re.compile(r"\.(?:set(\d+)|own_text)$")  # what `shown_metric` appends
_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """Where MLflow is and how long to wait for it.

    Attributes:
        uri: ``sqlite:////abs/mlflow.db``, a PostgreSQL URL or an ``http(s)://`` server.
        artifact_location: absolute ``file:///`` or object-store URI under which new experiments
            keep their files; None lets an HTTP server decide.
        timeout_seconds: per HTTP request.
        retries: how often MLflow repeats a failed HTTP request.
        ui_port: where this machine serves the UI of a SQLite file.
        ui_is_served: whether it does so now.
        owner: the workspace that writes; see `Workspace.id`.
        snapshot: the file in which `snapshot` keeps what MLflow's registry holds; None for none.
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
        """The URI as people may see it: without a password."""
        return without_secrets(self.uri)

    @property
    def ui(self) -> str:
        """The address of MLflow's pages, which links begin with: the server, or that of the UI."""
        if not is_server(self.uri):
            return f"http://127.0.0.1:{self.ui_port}"
        return re.sub(r"//[^/]*@", "//", self.uri.rstrip("/"))  # links tell no password

    @property
    def ui_command(self) -> str:
        """What to type so that they are served; empty where they are, or a server does that."""
        if self.ui_is_served or is_server(self.uri):
            return ""
        return (
            "bpeline serve --mlflow-only"
            if self.ui_port == UI_PORT
            else f"bpeline serve --mlflow-only --mlflow-port {self.ui_port}"
        )


class Unended(NamedTuple):
    """A run that has not ended in MLflow, or a model that no version has.

    Attributes:
        id: MLflow's.
        run_id: our run that made it; empty for those of no training.
        begun_ms: when, in milliseconds since 1970.
    """

    id: str
    run_id: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class TrackedVersion:
    """One version in MLflow's model registry; ``digest`` is empty when it is not one of ours.

    ``created_ms`` is when MLflow made it, in milliseconds since 1970.
    """

    name: str
    number: int
    digest: str
    mlflow_run_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    @classmethod
    def of(cls, version: Any) -> TrackedVersion:
        """From MLflow's own value."""
        tags = {str(key): str(value) for key, value in (version.tags or {}).items()}
        number, digest = int(version.version), tags.get("digest", "")
        made = int(version.creation_timestamp or 0)
        return cls(version.name, number, digest, version.run_id or "", tags, made)

    @property
    def run_id(self) -> str:
        """Our run that made it; empty when it is not one of ours."""
        return self.tags.get("run_id", "")

    @property
    def vocab_size(self) -> int:
        """What its tag says, which people can edit in MLflow; 0 where that is no number."""
        said = self.tags.get("vocab_size", "")
        return int(said) if _NUMBER.fullmatch(said) else 0


def shown_set(digest: str) -> str:
    """An evaluation set as runs and versions name it; ``none`` for texts of a training's own."""
    return digest[:8] or "none"


def shown_metric(name: str, set_number: int) -> str:
    """What a metric is called in MLflow, where figures of different texts share no column.

    Those of the first evaluation set of a name have their plain names, those of the second end in
    ``.set2``; those of a training that had no set in ``.own_text``.
    """
    if set_number == 1 or not depends_on_text(name) or name.startswith(NEW_TEXT):
        return name
    return f"{name}.set{set_number}" if set_number else f"{name}.own_text"


def plain_metrics(shown: Mapping[str, float]) -> dict[str, float]:
    """Metrics by their plain names, those of the latest set."""

    def set_number(name: str) -> int:
        found = _OF_A_SET.search(name)
        return int(found[1] or 0) if found else 1

    ordered = sorted(shown.items(), key=lambda one: set_number(one[0]))
    return {_OF_A_SET.sub("", name): value for name, value in ordered}


def milliseconds(time: str) -> int:
    """A time as MLflow counts it, from UTC in ISO 8601."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def shortened(text: str) -> str:
    """``text``, cut visibly where MLflow would refuse it or people would stop reading."""
    text = in_utf8(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def in_utf8(text: str) -> str:
    r"""``text`` as MLflow may keep it: without secrets; names that are no UTF-8 show ``\udce9``."""
    return without_secrets(text).encode(errors="backslashreplace").decode()
