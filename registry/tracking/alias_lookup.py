"""Where an alias points now, asked of MLflow's database or server without importing its client.

That import takes two seconds. What is answered here is what the client would answer; where that is
not certain (another schema, a workspace of the server's, a refusal, no answer), nothing is, and the
client is to be asked.
"""

from __future__ import annotations

import json
import sqlite3
import urllib.parse
import urllib.request
from contextlib import closing
from typing import Any

from bpeline.registry.environment import names_mlflow_workspace
from bpeline.registry.tracking.tracked import TrackedVersion
from bpeline.registry.tracking.ui_links import is_server

ANSWER_SECONDS = 3.0
_LARGEST_ANSWER = 1 << 20  # bytes
_SQLITE = "sqlite:///"

# The same name in two of the server's workspaces gives two rows: then the client must tell.
_ALIAS = """
SELECT a.version, v.run_id, t.value
FROM registered_model_aliases a
JOIN model_versions v ON v.name = a.name AND v.version = a.version
JOIN model_version_tags t ON t.name = a.name AND t.version = a.version AND t.key = 'digest'
WHERE a.name = ? AND a.alias = ? AND v.current_stage <> 'Deleted_Internal'
"""


def tracked_alias(tracking_uri: str, name: str, alias: str) -> TrackedVersion | None:
    """The version of ours that an alias points to; None when the client has to be asked."""
    if names_mlflow_workspace():
        return None
    if tracking_uri.startswith(_SQLITE) and "?" not in tracking_uri:
        return _in_database(tracking_uri.removeprefix(_SQLITE), name, alias)
    if is_server(tracking_uri):
        return _of_server(tracking_uri, name, alias)
    return None


def _in_database(path: str, name: str, alias: str) -> TrackedVersion | None:
    address = f"file:{urllib.parse.quote(path)}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            rows = connection.execute(_ALIAS, (name, alias)).fetchmany(2)
    except sqlite3.Error:
        return None
    if len(rows) != 1:
        return None
    number, run_id, digest = rows[0]
    return TrackedVersion(name, int(number), str(digest), str(run_id or ""))


def _of_server(uri: str, name: str, alias: str) -> TrackedVersion | None:
    asked = urllib.parse.urlencode({"name": name, "alias": alias})
    address = f"{uri.rstrip('/')}/api/2.0/mlflow/registered-models/alias?{asked}"
    local = urllib.parse.urlsplit(uri).hostname in {"127.0.0.1", "localhost", "::1"}
    handlers = [urllib.request.ProxyHandler({})] if local else []
    try:
        opener = urllib.request.build_opener(*handlers)
        with opener.open(address, timeout=ANSWER_SECONDS) as answer:
            found: Any = json.loads(answer.read(_LARGEST_ANSWER))["model_version"]
        tags = {str(tag["key"]): str(tag.get("value", "")) for tag in found.get("tags", [])}
        if found["name"] != name or "digest" not in tags:
            return None
        run_id = str(found.get("run_id") or "")
        return TrackedVersion(name, int(found["version"]), tags["digest"], run_id)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
