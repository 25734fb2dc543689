"""What MLflow has of a version, taken away; a tag on the registered model says that it was there.

Knows no workspace and no catalogue. MLflow's interface removes files for good, and hides runs and
models: their rows stay in its database until somebody types `mlflow gc`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bpeline.registry.tracking.mlflow_drift import MlflowDrift
from bpeline.registry.tracking.mlflow_models import MlflowModels
from bpeline.registry.tracking.tracked import Tombstone, all_pages
from bpeline.tokenizer_core.bounded_files import parse_json

_DELETED = "bpeline.deleted."  # and the number
# Of a run, what may quote the corpus: the tokens that screening found are in the report.
_QUOTING = ("mlflow.note.content", "error")


@dataclass(frozen=True, slots=True)
class Traces:
    """What MLflow has of a tokenizer, beside the version: ids of its runs and stored models."""

    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class MlflowRemoval(MlflowDrift, MlflowModels):
    """Deleting versions."""

    def tombstones(self, name: str | None = None) -> list[Tombstone]:
        """What is said of versions (of a name) that were deleted, by name and number."""
        found = [
            one
            for model, tags in self.model_tags(name).items()
            for key, value in tags.items()
            if key.startswith(_DELETED) and (one := _tombstone(model, key, value))
        ]
        return sorted(found, key=lambda one: (one.name, one.number))

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Say of a number that its version was deleted; where the whole model is gone, nothing."""
        said = {
            "digest": tombstone.digest, "by": tombstone.by, "reason": tombstone.reason,
            "at": tombstone.at,
        }  # fmt: skip
        doing = f"saying that {tombstone.name}/{tombstone.number} is deleted"
        with self._answering(doing), self._fine_if_missing():
            self._client.set_registered_model_tag(
                tombstone.name, f"{_DELETED}{tombstone.number}", json.dumps(said)
            )

    def traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """The runs that made a tokenizer and the models stored of it, but for the needed ones.

        Args:
            name, digest: which tokenizer.
            needed: MLflow runs that versions which stay were made from.
        """
        with self._answering(f"looking for what there is of {name}"):
            runs, models = self._found(name, digest, needed)
            return Traces(
                tuple(run.info.run_id for run in runs), tuple(model.model_id for model in models)
            )

    def remove_traces(self, name: str, digest: str, needed: Collection[str]) -> Traces:
        """Take them away: their files, what quotes the corpus, then themselves.

        Returns:
            What was taken away by this call.
        """
        with self._answering(f"removing what there is of {name}"):
            runs, models = self._found(name, digest, needed)
            for model in models:
                self._artifacts(model.artifact_location).delete_artifacts()
                self.remove_model(model.model_id)
            for run in runs:
                self._artifacts(run.info.artifact_uri).delete_artifacts()
                for key in _QUOTING:
                    if key in run.data.tags:
                        self._client.delete_tag(run.info.run_id, key)
                self.remove_run(run.info.run_id)
            return Traces(
                tuple(run.info.run_id for run in runs), tuple(model.model_id for model in models)
            )

    def _found(
        self, name: str, digest: str, needed: Collection[str]
    ) -> tuple[list[Any], list[Any]]:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            return [], []
        here, this = [experiment.experiment_id], f"tags.digest = '{digest}'"

        def page_of(token: str) -> tuple[Any, str | None]:
            page = self._client.search_runs(here, this, page_token=token or None)
            return page, page.token

        # Runs of another kind, such as datasets that were encoded, tell of something else.
        runs = [
            run
            for run in all_pages(page_of)
            if "kind" not in run.data.tags and run.info.run_id not in needed
        ]
        models = [
            model
            for model in self._client.search_logged_models(here, this)
            if model.source_run_id not in needed
        ]
        return runs, models


def _tombstone(name: str, key: str, value: str) -> Tombstone | None:
    with suppress(ValueError, TypeError, KeyError):  # written by somebody else
        said = parse_json(value)
        number = int(key.removeprefix(_DELETED))
        told = (str(said[part]) for part in ("digest", "by", "reason", "at"))
        return Tombstone(name, number, *told)
    return None
