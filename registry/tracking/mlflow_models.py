"""MLflow's model registry: models, versions, aliases, and the files of a version.

Knows no workspace and no catalogue; paths and values come in as arguments.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bpeline.registry.records import Publication
from bpeline.registry.tracking.core_wheel import core_wheel
from bpeline.registry.tracking.mlflow_door import (
    MlflowConnection,
    download,
    file_sizes,
    model_output,
    save_model,
)
from bpeline.registry.tracking.tracked import (
    IDENTITY_EXPERIMENT,
    IDENTITY_TAG,
    OWNER_TAG,
    VERSIONS_AT_ONCE,
    TrackedModel,
    TrackedRun,
    TrackedVersion,
    UnendedRun,
    all_pages,
    description_of,
    description_of_name,
    insisting,
    is_ours,
    linked_page,
    shortened,
    version_tags,
)
from bpeline.registry.tracking.ui_links import run_page
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import UnknownVersion

MODEL_FOLDER = "tokenizer"
LARGEST_DOWNLOAD = 256 << 20  # bytes of one file
_MODEL_TAG = "model_id"
_LINKED = "mlflow.modelVersions"  # MLflow's own tag on a model that versions are made of


class MlflowModels(MlflowConnection):
    """Registered models and their versions."""

    def load(self) -> None:
        with _packing():
            super().load()

    def prepare(self) -> None:
        with _packing():
            super().prepare()

    def ensure_registered_model(self, name: str) -> None:
        """Make room for versions of ``name`` unless there is."""
        with self._answering(f"registering {name}"):
            try:
                insisting(lambda: self._client.create_registered_model(name, {"kind": "tokenizer"}))
            except self._exception as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise

    def describe_name(self, name: str, measured_on: str, page: str = "") -> None:
        """Say on the page of a name what its versions are; what a person wrote there stays.

        Args:
            measured_on: the evaluation set, for people.
            page: a link to the page with all versions; one that is linked already stays.
        """
        with self._answering(f"describing {name}"):
            shown = self._client.get_registered_model(name).description or ""
            text = description_of_name(name, measured_on, page or linked_page(shown))
            if shown != text and is_ours(shown):
                self._client.update_registered_model(name, text)

    def log_model(
        self, publication: Publication, run: TrackedRun, files: Sequence[Path], staging: Path
    ) -> TrackedModel:
        """Store the model that ``mlflow.pyfunc`` loads; repeating it finds the first one.

        Args:
            files: the files of the ``bpeline`` format.
            staging: an empty private directory.
        """
        with self._answering(f"storing the model of {publication.name}"):
            earlier = self._client.get_run(run.run_id).data.tags.get(_MODEL_TAG)
            if earlier:
                known = self._client.get_logged_model(earlier)
                self._require(known.model_id == earlier and known.artifact_location, "its model")
                return TrackedModel(known.model_id, known.artifact_location)
            made = self._client.create_logged_model(
                run.experiment_id,
                name=publication.name.replace(".", "_"),  # a model's name alone has no dot
                source_run_id=run.run_id,
                tags={**version_tags(publication), OWNER_TAG: self.settings.owner},
                params={"vocab_size": str(publication.vocab_size)},
                model_type="tokenizer",
            )
            self._require(made.model_id and made.artifact_location, "a model that it has just made")
            model = TrackedModel(made.model_id, made.artifact_location)
            laid_out = _lay_out_model(model, run, publication, files, staging)
            store = self._artifacts(model.location)
            store.log_artifacts(str(laid_out))
            kept = file_sizes(store, f"artifacts/{MODEL_FOLDER}")
            for path in files:
                self._require(kept.get(path.name) == path.stat().st_size, f"the whole {path.name}")
            self._client.finalize_logged_model(model.model_id, "READY")
            self._client.log_outputs(
                run.run_id, [model_output(model.model_id, publication.vocab_size)]
            )
            self._client.set_tag(run.run_id, _MODEL_TAG, model.model_id)
            return model

    def unregistered_models(self) -> list[UnendedRun]:
        """The models that this workspace stored and that no version has."""
        with self._answering("looking for models without a version"):
            experiments = [one.experiment_id for one in self._client.search_experiments()]
            stored = self._client.search_logged_models(
                experiments, f"tags.{OWNER_TAG} = '{self.settings.owner}'"
            )
            used = {one.source.rstrip("/") for one in self._pages_of_versions("")}
            return [
                UnendedRun(
                    one.model_id, one.name, one.tags.get("run_id", ""), one.creation_timestamp
                )
                for one in stored
                if one.artifact_location.rstrip("/") not in used and _LINKED not in one.tags
            ]

    def remove_model(self, model_id: str) -> None:
        """Take a stored model away."""
        with self._answering("removing a model"):
            self._client.delete_logged_model(model_id)
            with self._fine_if_missing():
                left = self._client.get_logged_model(model_id)
                self._require(left.model_id != model_id, "that the model is removed")

    def create_version(
        self, publication: Publication, run: TrackedRun, model: TrackedModel
    ) -> None:
        """Ask MLflow for one new version. May raise although the version was made."""
        with self._answering(f"registering {publication.name}"):
            page = run_page(run.experiment_id, run.run_id, "report/report.html")
            made = self._client.create_model_version(
                publication.name,
                source=model.location,
                run_id=run.run_id,
                tags=version_tags(publication),
                description=description_of(publication, page) or None,
                await_creation_for=0,
                model_id=model.model_id,
            )
            shown = f"{publication.name}/{made.version}"  # in the legends of charts
            self._client.set_tag(run.run_id, "mlflow.runName", shown)
            # A server does this itself; it links the model's page to the registered version.
            linked = json.dumps([{"name": publication.name, "version": int(made.version)}])
            self._client.set_logged_model_tags(model.model_id, {_LINKED: linked})

    def tag_version(self, name: str, number: int, tags: Mapping[str, str]) -> None:
        """Say something of a version, on its page and on that of its run."""
        with self._answering(f"tagging {name}/{number}"):
            run_id = self._client.get_model_version(name, str(number)).run_id
            said = {key: shortened(value) for key, value in tags.items()}
            for key, value in said.items():
                self._client.set_model_version_tag(name, str(number), key, value)
                if run_id:
                    self._client.set_tag(run_id, key, value)
            shown = self._client.get_model_version(name, str(number)).tags
            self._require(said.items() <= shown.items(), f"the tags of {name}/{number}")

    def tag_name(self, name: str, key: str, value: str) -> None:
        """Say something of a registered model; an empty value takes it back."""
        with self._answering(f"tagging {name}"):
            if value:
                self._client.set_registered_model_tag(name, key, shortened(value))
            else:
                self._client.delete_registered_model_tag(name, key)
            shown = self._client.get_registered_model(name).tags
            self._require(bool(shown.get(key)) is bool(value), f"the tag {key} of {name}")

    def find_versions(self, name: str, digest: str) -> list[TrackedVersion]:
        """Versions of ``name`` with this digest, lowest number first."""
        return self._search_versions(f"name = '{name}' and tags.digest = '{digest}'")

    def identity(self) -> str:
        """What tells this MLflow from all others; empty where nothing of ours was ever written."""
        with self._answering("asking which MLflow this is"):
            return self._quickly(lambda store: store.identity(), self._identity)

    def ensure_identity(self) -> str:
        """The same; made where there is none."""
        with self._answering("preparing MLflow for versions"):
            if known := self._identity():
                return known
            place = self.settings.artifact_location
            tags = {
                IDENTITY_TAG: secrets.token_hex(8),
                "mlflow.note.content": "by this experiment bpeline knows which MLflow this is",
            }
            try:
                self._client.create_experiment(IDENTITY_EXPERIMENT, place, tags)
            except self._exception as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            if not self._identity():  # somebody else made an experiment of that name
                found = self._experiment_named(IDENTITY_EXPERIMENT)
                self._require(found, f"the experiment {IDENTITY_EXPERIMENT}")
                self._client.set_experiment_tag(
                    found.experiment_id, IDENTITY_TAG, tags[IDENTITY_TAG]
                )
            made = self._identity()
            self._require(made, "the experiment that it has just made")
            return made

    def _identity(self) -> str:
        found = self._experiment_named(IDENTITY_EXPERIMENT)
        return "" if found is None else str(found.tags.get(IDENTITY_TAG, ""))

    def aliases(self, name: str | None = None) -> dict[str, dict[str, int]]:
        """Of every name (or one), where its aliases point."""
        with self._answering("reading the aliases"):
            return self._quickly(lambda store: store.aliases(name), lambda: self._aliases(name))

    def _aliases(self, name: str | None) -> dict[str, dict[str, int]]:
        return {
            one.name: {str(alias): int(number) for alias, number in one.aliases.items()}
            for one in self._registered_models(name)
            if one.aliases
        }

    def model_tags(self, name: str | None = None) -> dict[str, dict[str, str]]:
        """Of every name (or one), what is said of the registered model, not of its versions."""
        with self._answering("reading the tags of models"):
            return self._quickly(
                lambda store: store.model_tags(name),
                lambda: {one.name: dict(one.tags) for one in self._registered_models(name)},
            )

    def _registered_models(self, name: str | None) -> Iterator[Any]:
        chosen = None if name is None else f"name = '{name}'"

        def page_of(token: str) -> tuple[Any, str | None]:
            page = self._client.search_registered_models(chosen, 1000, page_token=token or None)
            return page, page.token

        yield from all_pages(page_of)

    def versions(self, name: str | None = None) -> list[TrackedVersion]:
        """All versions of ``name`` (of all names), those that are not ours left out."""
        chosen = "" if name is None else f"name = '{name}'"
        with self._answering("listing the versions"):
            found = self._quickly(
                lambda store: store.versions(name), lambda: self._search_versions(chosen)
            )
            return sorted((one for one in found if one.digest), key=lambda v: (v.name, v.number))

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """One version, or None when MLflow does not know it."""
        with self._answering(f"looking for {name}/{number}"):
            return self._quickly(
                lambda store: store.version(name, number),
                lambda: self._or_none(lambda: self._client.get_model_version(name, str(number))),
            )

    def version_of_alias(self, name: str, alias: str) -> TrackedVersion | None:
        """The version an alias points to now, or None when there is no such alias."""
        with self._answering(f"looking for {name}@{alias}"):
            return self._quickly(
                lambda store: store.version_of_alias(name, alias),
                lambda: self._or_none(lambda: self._client.get_model_version_by_alias(name, alias)),
            )

    def move_alias(self, name: str, alias: str, number: int) -> None:
        """Let an alias point to a version."""
        with self._answering(f"moving {name}@{alias}"):
            insisting(lambda: self._client.set_registered_model_alias(name, alias, str(number)))

    def remove_alias(self, name: str, alias: str) -> None:
        """Let an alias point nowhere; one that does already is fine."""
        with self._answering(f"removing {name}@{alias}"), self._fine_if_missing():
            self._client.delete_registered_model_alias(name, alias)

    def withdraw_version(self, name: str, number: int) -> None:
        """Take a version away, and its aliases; one that is gone already is fine."""
        with self._answering(f"removing {name}/{number}"):
            with self._fine_if_missing():
                self._client.delete_model_version(name, str(number))
            gone = self.version(name, number) is None
            self._require(gone, f"that {name}/{number} is removed")

    def download_version(
        self, name: str, number: int, file_names: Sequence[str], target: Path
    ) -> list[Path]:
        """Fetch named files of a version's tokenizer; nothing fetched is executed or unpacked.

        Args:
            file_names: plain names inside the model's tokenizer folder.
            target: an existing private directory.

        Raises:
            UnknownVersion: the version or one of its files does not exist.
        """
        with self._answering(f"downloading {name}/{number}"):
            source = self._client.get_model_version_download_uri(name, str(number))
            self._require(source, "where its files are")
            store = self._artifacts(f"{source.rstrip('/')}/artifacts/{MODEL_FOLDER}")
            sizes = file_sizes(store)
            for one in file_names:
                if not 0 <= sizes.get(one, -1) <= LARGEST_DOWNLOAD:
                    raise UnknownVersion(
                        f"{name}/{number} in MLflow has no usable {MODEL_FOLDER}/{one}",
                        f"accepted are files of up to {LARGEST_DOWNLOAD} bytes, as bpeline writes",
                        f"type `bpeline versions {name}` to see the versions",
                    )
            return download(store, file_names, target)

    def _search_versions(self, filter_string: str) -> list[TrackedVersion]:
        with self._answering("searching the registered versions"):
            found = [TrackedVersion.of(one) for one in self._pages_of_versions(filter_string)]
            return sorted(found, key=lambda one: (one.name, one.number))

    def _pages_of_versions(self, filter_string: str) -> Iterator[Any]:
        def page_of(token: str) -> tuple[Any, str | None]:
            page = self._client.search_model_versions(
                filter_string or None, max_results=VERSIONS_AT_ONCE, page_token=token or None
            )
            return page, page.token

        yield from all_pages(page_of)

    def _or_none(self, ask: Any) -> TrackedVersion | None:
        with self._fine_if_missing():
            return TrackedVersion.of(ask())
        return None


@contextmanager
def _packing() -> Iterator[None]:
    """Compress the core, which does not hold the interpreter, as importing MLflow does."""
    thread = threading.Thread(target=_pack, name="pack the core")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _pack() -> None:
    with suppress(Exception):  # whoever stores a model meets the same error, and tells it
        core_wheel()


def _lay_out_model(
    model: TrackedModel,
    run: TrackedRun,
    publication: Publication,
    files: Sequence[Path],
    staging: Path,
) -> Path:
    tokenizer = staging / MODEL_FOLDER
    tokenizer.mkdir()
    for path in files:
        shutil.copyfile(path, tokenizer / path.name)
    wheel = core_wheel()
    DURABLE.write(staging / wheel.name, wheel.content)
    # MLflow copies this file with its mode, which an installation chose; a copy has the umask's.
    code = staging / "mlflow_model.py"
    shutil.copyfile(Path(__file__).with_name(code.name), code)
    laid_out = staging / "model"
    artifacts = {MODEL_FOLDER: str(tokenizer), "core": str(staging / wheel.name)}
    save_model(laid_out, code, model, run.run_id, publication, artifacts, wheel.digest)
    return laid_out
