"""One MLflow: registered models, versions, aliases, runs, stored models and drift."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from bpeline.registry.records import Tombstone
from bpeline.registry.tracking import mlflow_database, snapshot, tracked
from bpeline.registry.tracking.descriptions import description_of_name, is_ours, linked_page
from bpeline.registry.tracking.mlflow_client import Connection, all_pages
from bpeline.registry.tracking.mlflow_errors import (
    MISSING,
    THERE,
    answering,
    fine_if,
    insisting,
    unshown,
)
from bpeline.registry.tracking.mlflow_models import Models
from bpeline.registry.tracking.mlflow_runs import Runs
from bpeline.registry.tracking.snapshot import Registered
from bpeline.registry.tracking.tracked import TrackedVersion, TrackingSettings, run_page
from bpeline.tokenizer_core.bounded_files import parse_json

Answer = TypeVar("Answer")

# An experiment that identifies this MLflow; no tokenizer can have its name.
_IDENTITY_EXPERIMENT = ".bpeline"
_IDENTITY_TAG = "bpeline.store"
_DELETED = "bpeline.deleted."  # followed by the version number
_SAID = ("digest", "by", "reason", "at")


@answering
class MlflowTracker:
    """One MLflow.

    All methods raise RegistryUnreachable if MLflow does not answer in time, RegistryError if it
    refuses, and StorageError if its SQLite database cannot be created or upgraded.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings
        self._connection = Connection(settings)
        self._latest: tuple[snapshot.Stamp, Registered] | None = None

    @cached_property
    def runs(self) -> Runs:
        """Experiments and runs."""
        return Runs(self._connection)

    @cached_property
    def models(self) -> Models:
        """Stored models, from which versions are registered."""
        return Models(self._connection, self.runs)

    @property
    def _client(self) -> Any:
        return self._connection.client

    def prepare(self) -> None:
        """Import MLflow and connect, which takes seconds, and longer for a new database."""
        _ = self._client

    def why_unusable(self) -> str:
        """Return why its SQLite database cannot be used as it is; empty if it can."""
        assert self._connection.database is not None
        return mlflow_database.why_unusable(self._connection.database, self._connection.open)

    def identity(self) -> str:
        """Return the unique id of this MLflow; empty if bpeline has never written to it."""
        return self._answer(lambda kept: kept.identity, self._identity)

    def ensure_identity(self) -> str:
        """Return the `identity`, created if there is none."""
        if existing := self._identity():
            return existing
        tags = {
            _IDENTITY_TAG: secrets.token_hex(8),
            "mlflow.note.content": "this experiment identifies this MLflow to bpeline",
        }
        place = self.settings.artifact_location
        with fine_if(THERE):
            self._client.create_experiment(_IDENTITY_EXPERIMENT, place, tags)
        experiment = self._client.get_experiment_by_name(_IDENTITY_EXPERIMENT)
        if (
            experiment is not None and _IDENTITY_TAG not in experiment.tags
        ):  # not created by bpeline
            identity = tags[_IDENTITY_TAG]
            self._client.set_experiment_tag(experiment.experiment_id, _IDENTITY_TAG, identity)
        created = self._identity()
        if not created:
            raise unshown(self.settings.place, "the experiment that it has just created")
        return created

    def aliases(self, name: str | None = None) -> dict[str, dict[str, int]]:
        """Return name → alias → version number, for all names or one."""
        aliases_by_name = self._answer(lambda kept: kept.aliases, lambda: self._models(name)[0])
        return {key: dict(aliases_by_name[key]) for key in aliases_by_name if name in (None, key)}

    def model_tags(self, name: str | None = None) -> dict[str, dict[str, str]]:
        """Return the tags of all registered models, or of one."""
        tags = self._answer(lambda kept: kept.model_tags, lambda: self._models(name)[1])
        return {key: dict(tags[key]) for key in tags if name in (None, key)}

    def versions(self, name: str | None = None) -> list[TrackedVersion]:
        """Return all bpeline versions, or those of ``name``."""
        chosen = "" if name is None else f"name = '{name}'"
        all_versions = self._answer(lambda kept: kept.versions, lambda: self._search(chosen))
        return [
            version for version in all_versions if version.digest and name in (None, version.name)
        ]

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """Return one version, or None if it does not exist."""
        return self._answer(
            lambda kept: kept.version(name, number),
            lambda: self._or_none(lambda: self._client.get_model_version(name, str(number))),
        )

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """Return the version an alias points to, or None if there is no such alias."""
        return self._answer(
            lambda kept: kept.version(name, kept.aliases.get(name, {}).get(alias, 0)),
            lambda: self._or_none(lambda: self._client.get_model_version_by_alias(name, alias)),
        )

    def find_versions(self, name: str, digest: str) -> list[TrackedVersion]:
        """Return the versions of ``name`` with this digest, lowest number first."""
        return self._search(f"name = '{name}' and tags.digest = '{digest}'")

    def keep_snapshot(self) -> None:
        """Cache the registry of a SQLite database for later reads; see `snapshot`."""
        if self._connection.database is not None:
            self._registered()

    def _answer(self, read: Callable[[Registered], Answer], ask: Callable[[], Answer]) -> Answer:
        """Answer from a current snapshot, else ask MLflow."""
        database = self._connection.database
        if database is None:
            return ask()
        if not mlflow_database.is_there(database):
            return read(Registered())
        cached = self._kept(snapshot.stamp_of(database))
        if cached is None and self._connection.is_open:
            return ask()
        return read(cached or self._registered())

    def _kept(self, stamp: snapshot.Stamp | None) -> Registered | None:
        file = self.settings.snapshot
        if stamp is None or file is None:
            return None
        if self._latest is None or self._latest[0] != stamp:
            cached = snapshot.read(file, stamp)
            self._latest = None if cached is None else (stamp, cached)
        return None if self._latest is None else self._latest[1]

    def _registered(self) -> Registered:
        """Read all of MLflow's registry and cache it, unless it changed meanwhile."""
        _ = self._client  # may create or upgrade the database
        database, file = self._connection.database, self.settings.snapshot
        before = None if database is None else snapshot.stamp_of(database)
        aliases, tags = self._models(None)
        registered = Registered(self._identity(), tuple(self._search("")), aliases, tags)
        if database and file and before and snapshot.stamp_of(database) == before:
            snapshot.write(file, before, registered)
        return registered

    def _identity(self) -> str:
        experiment = self._client.get_experiment_by_name(_IDENTITY_EXPERIMENT)
        return "" if experiment is None else str(experiment.tags.get(_IDENTITY_TAG, ""))

    def _models(
        self, name: str | None
    ) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, str]]]:
        """Return the aliases and tags of registered models."""
        chosen = None if name is None else f"name = '{name}'"
        aliases: dict[str, dict[str, int]] = {}
        tags: dict[str, dict[str, str]] = {}
        for model in all_pages(lambda token: self._client.search_registered_models(
            chosen, 1000, page_token=token
        )):  # fmt: skip
            tags[model.name] = dict(model.tags)
            if model.aliases:
                aliases[model.name] = {alias: int(at) for alias, at in model.aliases.items()}
        return aliases, tags

    def _search(self, chosen: str) -> list[TrackedVersion]:
        pages = all_pages(
            lambda token: self._client.search_model_versions(
                chosen or None, max_results=tracked.VERSIONS_AT_ONCE, page_token=token
            )
        )
        return sorted(
            map(TrackedVersion.of, pages), key=lambda version: (version.name, version.number)
        )

    def _or_none(self, ask: Callable[[], Any]) -> TrackedVersion | None:
        with fine_if(MISSING):
            return TrackedVersion.of(ask())
        return None

    def move_alias(self, name: str, alias: str, number: int) -> None:
        """Point an alias to a version."""
        insisting(lambda: self._client.set_registered_model_alias(name, alias, str(number)))

    def remove_alias(self, name: str, alias: str) -> None:
        """Remove an alias; a missing one is no error."""
        with fine_if(MISSING):
            self._client.delete_registered_model_alias(name, alias)

    def tag_version(self, name: str, number: int, tags: Mapping[str, str]) -> None:
        """Set tags on a version and on its run."""
        run_id = self._client.get_model_version(name, str(number)).run_id
        for key, value in tags.items():
            self._client.set_model_version_tag(name, str(number), key, tracked.shortened(value))
            if run_id:
                self._client.set_tag(run_id, key, tracked.shortened(value), synchronous=True)

    def tag_name(self, name: str, key: str, value: str) -> None:
        """Set a tag on a registered model; an empty value removes it."""
        if value:
            self._client.set_registered_model_tag(name, key, tracked.shortened(value))
        else:
            self._client.delete_registered_model_tag(name, key)

    def describe_name(self, name: str, measured_on: str, page: str = "") -> None:
        """Write the description of a registered model, unless a user has written one.

        Args:
            page: URL of the page with all versions; empty keeps the present link.
        """
        shown = self._client.get_registered_model(name).description or ""
        text = description_of_name(name, measured_on, page or linked_page(shown))
        if shown != text and is_ours(shown):
            self._client.update_registered_model(name, text)

    def show_name_page(self, name: str, mlflow_run_id: str, page: Path, measured_on: str) -> str:
        """Upload the page of a name as an artifact and link it in its description.

        Args:
            page: an HTML file; it replaces an artifact of the same name.
            measured_on: see `describe_name`; if empty, the description is not changed.
        """
        artifact = f"{page.stem}/{page.name}"
        run = self.runs.add_files(mlflow_run_id, {artifact: page})
        place = run_page(run.experiment_id, run.run_id, artifact)
        if measured_on:
            self.describe_name(name, measured_on, place)
        return f"{self.settings.ui}/{place}"

    def withdraw_version(self, name: str, number: int) -> None:
        """Delete a version and its aliases; a missing one is no error."""
        with fine_if(MISSING):
            self._client.delete_model_version(name, str(number))

    def tombstones(self, name: str | None = None) -> list[Tombstone]:
        """Return the tombstones of deleted versions, by name and number."""
        deleted = [
            tombstone
            for model, tags in self.model_tags(name).items()
            for key, value in tags.items()
            if key.startswith(_DELETED) and (tombstone := _tombstone(model, key, value))
        ]
        return sorted(deleted, key=lambda entry: (entry.name, entry.number))

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Record that a version was deleted; does nothing if the registered model is gone."""
        record = {part: getattr(tombstone, part) for part in _SAID}
        key = f"{_DELETED}{tombstone.number}"
        with fine_if(MISSING):
            self._client.set_registered_model_tag(tombstone.name, key, json.dumps(record))


def _tombstone(name: str, key: str, value: str) -> Tombstone | None:
    with suppress(ValueError, TypeError, KeyError):  # not written by bpeline
        record = parse_json(value)
        fields = {part: str(record[part]) for part in _SAID}
        return Tombstone(name, int(key.removeprefix(_DELETED)), **fields)
    return None
