"""One MLflow: its registered models, versions and aliases; its runs, stored models and drift.

Knows no workspace and no catalogue; paths and values come in as arguments.
"""

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
from bpeline.registry.tracking.tracked import TrackedVersion, TrackingSettings
from bpeline.registry.tracking.ui_links import run_page
from bpeline.tokenizer_core.bounded_files import parse_json

Answer = TypeVar("Answer")

# A reserved experiment, whose name no tokenizer can have, tells one MLflow from all others.
_IDENTITY_EXPERIMENT = ".bpeline"
_IDENTITY_TAG = "bpeline.store"
_DELETED = "bpeline.deleted."  # and the number
_SAID = ("digest", "by", "reason", "at")


@answering
class MlflowTracker:
    """One MLflow.

    Its methods, and those of its parts, raise RegistryUnreachable when MLflow does not answer
    within the settings' limits, RegistryError when it refuses, and StorageError when its database,
    where that is a SQLite file, cannot be made ready.

    Attributes:
        settings: where it is.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self.settings = settings
        self._connection = Connection(settings)
        self._latest: tuple[snapshot.Stamp, Registered] | None = None

    @cached_property
    def runs(self) -> Runs:
        """Its experiments and runs."""
        return Runs(self._connection)

    @cached_property
    def models(self) -> Models:
        """The stored models that versions are made of."""
        return Models(self._connection, self.runs)

    @property
    def _client(self) -> Any:
        return self._connection.client

    def prepare(self) -> None:
        """Import MLflow and connect: seconds of plain Python, and more for a new database."""
        _ = self._client

    def why_unusable(self) -> str:
        """Why its database, a SQLite file, cannot be used as it is; empty where it can. Reads."""
        assert self._connection.database is not None
        return mlflow_database.why_unusable(self._connection.database, self._connection.open)

    # ---- what it holds -----------------------------------------------------------------------

    def identity(self) -> str:
        """What tells this MLflow from all others; empty where nothing of ours was ever written."""
        return self._answer(lambda kept: kept.identity, self._identity)

    def ensure_identity(self) -> str:
        """The same; made where there is none."""
        if known := self._identity():
            return known
        tags = {
            _IDENTITY_TAG: secrets.token_hex(8),
            "mlflow.note.content": "by this experiment bpeline knows which MLflow this is",
        }
        place = self.settings.artifact_location
        with fine_if(THERE):
            self._client.create_experiment(_IDENTITY_EXPERIMENT, place, tags)
        found = self._client.get_experiment_by_name(_IDENTITY_EXPERIMENT)
        if found is not None and _IDENTITY_TAG not in found.tags:  # somebody else made it
            identity = tags[_IDENTITY_TAG]
            self._client.set_experiment_tag(found.experiment_id, _IDENTITY_TAG, identity)
        made = self._identity()
        if not made:
            raise unshown(self.settings.place, "the experiment that it has just made")
        return made

    def aliases(self, name: str | None = None) -> dict[str, dict[str, int]]:
        """Of every name (or one), where its aliases point."""
        found = self._answer(lambda kept: kept.aliases, lambda: self._models(name)[0])
        return {one: dict(found[one]) for one in found if name in (None, one)}

    def model_tags(self, name: str | None = None) -> dict[str, dict[str, str]]:
        """Of every name (or one), what is said of the registered model, not of its versions."""
        found = self._answer(lambda kept: kept.model_tags, lambda: self._models(name)[1])
        return {one: dict(found[one]) for one in found if name in (None, one)}

    def versions(self, name: str | None = None) -> list[TrackedVersion]:
        """All versions of ``name`` (of all names), those that are not ours left out."""
        chosen = "" if name is None else f"name = '{name}'"
        found = self._answer(lambda kept: kept.versions, lambda: self._search(chosen))
        return [one for one in found if one.digest and name in (None, one.name)]

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """One version, or None when MLflow does not know it."""
        return self._answer(
            lambda kept: kept.version(name, number),
            lambda: self._or_none(lambda: self._client.get_model_version(name, str(number))),
        )

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """The version an alias points to now, or None when there is no such alias."""
        return self._answer(
            lambda kept: kept.version(name, kept.aliases.get(name, {}).get(alias, 0)),
            lambda: self._or_none(lambda: self._client.get_model_version_by_alias(name, alias)),
        )

    def find_versions(self, name: str, digest: str) -> list[TrackedVersion]:
        """Versions of ``name`` with this digest, lowest number first."""
        return self._search(f"name = '{name}' and tags.digest = '{digest}'")

    def keep_snapshot(self) -> None:
        """Keep what a SQLite file of MLflow's holds for commands that only read; see `snapshot`."""
        if self._connection.database is not None:
            self._registered()

    def _answer(self, read: Callable[[Registered], Answer], ask: Callable[[], Answer]) -> Answer:
        """From the snapshot where it counts; else MLflow is asked."""
        database = self._connection.database
        if database is None:
            return ask()
        if not mlflow_database.is_there(database):
            return read(Registered())
        kept = self._kept(snapshot.stamp_of(database))
        if kept is None and self._connection.is_open:
            return ask()
        return read(kept or self._registered())

    def _kept(self, stamp: snapshot.Stamp | None) -> Registered | None:
        file = self.settings.snapshot
        if stamp is None or file is None:
            return None
        if self._latest is None or self._latest[0] != stamp:
            kept = snapshot.read(file, stamp)
            self._latest = None if kept is None else (stamp, kept)
        return None if self._latest is None else self._latest[1]

    def _registered(self) -> Registered:
        """All that MLflow's registry holds, which is kept where nobody changed it meanwhile."""
        _ = self._client  # which may make or upgrade the database
        database, file = self._connection.database, self.settings.snapshot
        before = None if database is None else snapshot.stamp_of(database)
        aliases, tags = self._models(None)
        found = Registered(self._identity(), tuple(self._search("")), aliases, tags)
        if database and file and before and snapshot.stamp_of(database) == before:
            snapshot.write(file, before, found)
        return found

    def _identity(self) -> str:
        found = self._client.get_experiment_by_name(_IDENTITY_EXPERIMENT)
        return "" if found is None else str(found.tags.get(_IDENTITY_TAG, ""))

    def _models(
        self, name: str | None
    ) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, str]]]:
        """Aliases and tags of registered models."""
        chosen = None if name is None else f"name = '{name}'"
        aliases: dict[str, dict[str, int]] = {}
        tags: dict[str, dict[str, str]] = {}
        for model in all_pages(lambda token: self._client.search_registered_models(
            chosen, 1000, page_token=token
        )):  # fmt: skip
            tags[model.name] = dict(model.tags)
            if model.aliases:
                aliases[model.name] = {one: int(at) for one, at in model.aliases.items()}
        return aliases, tags

    def _search(self, chosen: str) -> list[TrackedVersion]:
        pages = all_pages(
            lambda token: self._client.search_model_versions(
                chosen or None, max_results=tracked.VERSIONS_AT_ONCE, page_token=token
            )
        )
        return sorted(map(TrackedVersion.of, pages), key=lambda one: (one.name, one.number))

    def _or_none(self, ask: Callable[[], Any]) -> TrackedVersion | None:
        with fine_if(MISSING):
            return TrackedVersion.of(ask())
        return None

    # ---- what is written ---------------------------------------------------------------------

    def move_alias(self, name: str, alias: str, number: int) -> None:
        """Let an alias point to a version."""
        insisting(lambda: self._client.set_registered_model_alias(name, alias, str(number)))

    def remove_alias(self, name: str, alias: str) -> None:
        """Let an alias point nowhere; one that does already is fine."""
        with fine_if(MISSING):
            self._client.delete_registered_model_alias(name, alias)

    def tag_version(self, name: str, number: int, tags: Mapping[str, str]) -> None:
        """Say something of a version, on its page and on that of its run."""
        run_id = self._client.get_model_version(name, str(number)).run_id
        for key, value in tags.items():
            self._client.set_model_version_tag(name, str(number), key, tracked.shortened(value))
            if run_id:
                self._client.set_tag(run_id, key, tracked.shortened(value), synchronous=True)

    def tag_name(self, name: str, key: str, value: str) -> None:
        """Say something of a registered model; an empty value takes it back."""
        if value:
            self._client.set_registered_model_tag(name, key, tracked.shortened(value))
        else:
            self._client.delete_registered_model_tag(name, key)

    def describe_name(self, name: str, measured_on: str, page: str = "") -> None:
        """Say on the page of a name what its versions are; what a person wrote there stays.

        Args:
            measured_on: the evaluation set, for people.
            page: a link to the page with all versions; one that is linked already stays.
        """
        shown = self._client.get_registered_model(name).description or ""
        text = description_of_name(name, measured_on, page or linked_page(shown))
        if shown != text and is_ours(shown):
            self._client.update_registered_model(name, text)

    def show_name_page(self, name: str, mlflow_run_id: str, page: Path, measured_on: str) -> str:
        """Keep the page of a name with the run of a version, and link it from the name's own.

        Args:
            mlflow_run_id: of the latest version.
            page: an HTML file; one of the same name is replaced.
            measured_on: as of `describe_name`; empty for a name without a set, which is not
                described.

        Returns:
            The page's address.
        """
        artifact = f"{page.stem}/{page.name}"
        run = self.runs.add_files(mlflow_run_id, {artifact: page})
        place = run_page(run.experiment_id, run.run_id, artifact)
        if measured_on:
            self.describe_name(name, measured_on, place)
        return f"{self.settings.ui}/{place}"

    def withdraw_version(self, name: str, number: int) -> None:
        """Remove a version, and its aliases; one that is gone already is fine."""
        with fine_if(MISSING):
            self._client.delete_model_version(name, str(number))

    # ---- versions that were deleted ----------------------------------------------------------

    def tombstones(self, name: str | None = None) -> list[Tombstone]:
        """What is said of versions (of a name) that were deleted, by name and number."""
        found = [
            tombstone
            for model, tags in self.model_tags(name).items()
            for key, value in tags.items()
            if key.startswith(_DELETED) and (tombstone := _tombstone(model, key, value))
        ]
        return sorted(found, key=lambda one: (one.name, one.number))

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Say of a number that its version was deleted; where the whole model is gone, nothing."""
        said = {part: getattr(tombstone, part) for part in _SAID}
        key = f"{_DELETED}{tombstone.number}"
        with fine_if(MISSING):
            self._client.set_registered_model_tag(tombstone.name, key, json.dumps(said))


def _tombstone(name: str, key: str, value: str) -> Tombstone | None:
    with suppress(ValueError, TypeError, KeyError):  # written by somebody else
        said = parse_json(value)
        told = {part: str(said[part]) for part in _SAID}
        return Tombstone(name, int(key.removeprefix(_DELETED)), **told)
    return None
