"""What an MLflow holds, read from its database or server without importing its client.

That import takes seconds. What is answered here is what the client would answer; where that is not
certain (another schema, a workspace of the server's, a refusal, no answer), `Unsure` is raised, and
the client is to be asked. Nothing is ever written.
"""

from __future__ import annotations

import http.client
import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bpeline.registry.environment import names_mlflow_workspace
from bpeline.registry.tracking import bounded_http
from bpeline.registry.tracking.tracked import (
    IDENTITY_EXPERIMENT,
    IDENTITY_TAG,
    MISSING,
    VERSIONS_AT_ONCE,
    TrackedVersion,
    all_pages,
)
from bpeline.registry.tracking.ui_links import is_server
from bpeline.tokenizer_core.bounded_files import parse_json

ANSWER_SECONDS = 3.0
LIST_SECONDS = 10.0  # for all versions: a server needs a second for each two thousand
_SQLITE = "sqlite:///"

# Alembic's names of the schemas whose tables mean what is read here: MLflow 3.17 and 3.18.
KNOWN_SCHEMAS = {"dc11669786a5"}


class Unsure(Exception):
    """The client has to be asked."""


def lookup(tracking_uri: str) -> TableLookup | ServerLookup | None:
    """What answers for an address; None for one that only the client understands."""
    if names_mlflow_workspace():
        return None
    if tracking_uri.startswith(_SQLITE) and "?" not in tracking_uri:
        return TableLookup(Path(tracking_uri.removeprefix(_SQLITE)))
    return ServerLookup(tracking_uri.rstrip("/")) if is_server(tracking_uri) else None


@dataclass(frozen=True, slots=True)
class TableLookup:
    """Reads the tables of a SQLite file; a file that is missing or empty holds nothing."""

    path: Path

    def identity(self) -> str:
        """See `MlflowModels.identity`."""
        query = (
            "SELECT t.value FROM experiments e JOIN experiment_tags t USING (experiment_id) "
            "WHERE e.name = ? AND t.key = ?"
        )
        rows = self._rows(query, IDENTITY_EXPERIMENT, IDENTITY_TAG)
        return str(rows[0][0]) if rows else ""

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """The version that an alias points to."""
        query = "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ?"
        rows = self._rows(query, name, alias)
        return self.version(name, int(rows[0][0])) if rows else None

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """The version of that number."""
        found = self._versions("v.name = ? AND v.version = ?", name, number)
        return found[0] if found else None

    def versions(self, name: str | None) -> list[TrackedVersion]:
        """All versions (of a name), ours or not."""
        return self._versions("v.name = ?", name) if name else self._versions("1")

    def aliases(self, name: str | None) -> dict[str, dict[str, int]]:
        """Of every name (or one), where its aliases point."""
        found: dict[str, dict[str, int]] = {}
        query = "SELECT name, alias, version FROM registered_model_aliases"
        for one, alias, number in self._rows(f"{query} WHERE name = ? OR ? IS NULL", name, name):
            found.setdefault(str(one), {})[str(alias)] = int(number)
        return found

    def model_tags(self, name: str | None) -> dict[str, dict[str, str]]:
        """Of every name (or one), the tags of the registered model."""
        found: dict[str, dict[str, str]] = {}
        query = "SELECT name, key, value FROM registered_model_tags"
        for one, key, value in self._rows(f"{query} WHERE name = ? OR ? IS NULL", name, name):
            found.setdefault(str(one), {})[str(key)] = str(value or "")
        return found

    def _versions(self, where: str, *values: Any) -> list[TrackedVersion]:
        query = (
            "SELECT v.name, v.version, v.run_id, v.creation_time, t.key, t.value "
            "FROM model_versions v LEFT JOIN model_version_tags t USING (name, version) "
            f"WHERE {where} AND v.current_stage <> 'Deleted_Internal' ORDER BY 1, 2"
        )
        tags: dict[tuple[str, int, str, int], dict[str, str]] = {}
        for name, number, run_id, made, key, value in self._rows(query, *values):
            of_one = tags.setdefault((name, number, run_id or "", made or 0), {})
            if key is not None:
                of_one[key] = value or ""
        return [
            TrackedVersion(name, number, known.get("digest", ""), run_id, known, made)
            for (name, number, run_id, made), known in tags.items()
        ]

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        if not (self.path.exists() and self.path.stat().st_size):
            return []
        address = f"file:{urllib.parse.quote(str(self.path))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as connection:
                self._check(connection)
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise Unsure from error

    def _check(self, connection: sqlite3.Connection) -> None:
        found = {row[0] for row in connection.execute("SELECT version_num FROM alembic_version")}
        # The same name in two of the server's workspaces makes two rows: then the client must tell.
        spaces = connection.execute(
            "SELECT count(DISTINCT workspace) FROM "
            "(SELECT workspace FROM registered_models UNION SELECT workspace FROM experiments)"
        ).fetchone()
        if not found or not found <= KNOWN_SCHEMAS or spaces[0] > 1:
            raise Unsure


@dataclass(frozen=True, slots=True)
class ServerLookup:
    """Asks a server's public API; one that wants a password is the client's affair."""

    address: str

    def identity(self) -> str:
        """See `MlflowModels.identity`."""
        found = self._ask("experiments/get-by-name", experiment_name=IDENTITY_EXPERIMENT)
        if found is None:
            return ""
        return _tags(_member(found, "experiment")).get(IDENTITY_TAG, "")

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """The version that an alias points to."""
        found = self._ask("registered-models/alias", name=name, alias=alias)
        return None if found is None else _version(_member(found, "model_version"), name)

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """The version of that number."""
        found = self._ask("model-versions/get", name=name, version=number)
        return None if found is None else _version(_member(found, "model_version"), name)

    def versions(self, name: str | None) -> list[TrackedVersion]:
        """All versions (of a name), ours or not."""
        pages = self._pages("model-versions/search", "model_versions", VERSIONS_AT_ONCE, name)
        return [_version(one, name) for one in pages]

    def aliases(self, name: str | None) -> dict[str, dict[str, int]]:
        """Of every name (or one), where its aliases point."""
        found: dict[str, dict[str, int]] = {}
        for one in self._models(name):
            try:
                if listed := one.get("aliases"):
                    found[one["name"]] = {str(a["alias"]): int(a["version"]) for a in listed}
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise Unsure from error
        return found

    def model_tags(self, name: str | None) -> dict[str, dict[str, str]]:
        """Of every name (or one), the tags of the registered model."""
        try:
            return {str(one["name"]): _tags(one) for one in self._models(name)}
        except (KeyError, TypeError) as error:
            raise Unsure from error

    def _models(self, name: str | None) -> Iterator[Any]:
        return self._pages("registered-models/search", "registered_models", 1000, name)

    def _pages(self, question: str, member: str, most: int, name: str | None) -> Iterator[Any]:
        asked = {"filter": f"name = '{name}'"} if name else {}

        def page_of(token: str) -> tuple[list[Any], str]:
            more = {"page_token": token} if token else {}
            page = self._ask(question, LIST_SECONDS, max_results=most, **asked, **more)
            if page is None or not isinstance(page.get(member, []), list):
                raise Unsure
            return page.get(member, []), page.get("next_page_token", "")

        try:
            yield from all_pages(page_of)
        except ValueError as error:
            raise Unsure from error

    def _ask(
        self, question: str, seconds: float = ANSWER_SECONDS, **asked: Any
    ) -> Mapping[str, Any] | None:
        """The answer, or None when it is that there is no such thing."""
        address = f"{self.address}/api/2.0/mlflow/{question}?{urllib.parse.urlencode(asked)}"
        try:
            status, content = bounded_http.ask(address, seconds)
            found = parse_json(content)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unsure from error
        if not isinstance(found, dict):
            raise Unsure
        if status == HTTPStatus.OK:
            return found
        if found.get("error_code") in MISSING:
            return None
        raise Unsure


def _member(found: Mapping[str, Any], name: str) -> Any:
    if name not in found:
        raise Unsure
    return found[name]


def _tags(found: Any) -> dict[str, str]:
    try:
        return {str(tag["key"]): str(tag.get("value", "")) for tag in found.get("tags", [])}
    except (KeyError, TypeError, AttributeError) as error:
        raise Unsure from error


def _version(found: Any, name: str | None) -> TrackedVersion:
    tags = _tags(found)
    try:
        number, made = int(found["version"]), int(found.get("creation_timestamp", 0))
        run_id, called = str(found.get("run_id") or ""), str(found["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise Unsure from error
    if name is not None and called != name:
        raise Unsure
    return TrackedVersion(called, number, tags.get("digest", ""), run_id, tags, made)
