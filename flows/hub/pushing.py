"""A version goes to the Hugging Face Hub as one commit, which MLflow then names."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.hub.folder import HubFolder, write_hub_folder
from bpeline.flows.hub.model_card import OURS
from bpeline.registry.exports import HubReference, Pushed, push
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered, split_size
from bpeline.tokenizer_core.errors import InvalidOption, RegistryError


@dataclass(frozen=True, slots=True)
class PushedVersion:
    """What was pushed.

    Attributes:
        folder: what was written for it.
        pushed: the commit, and the files.
        remarks: what people should know.
    """

    folder: HubFolder
    pushed: Pushed
    remarks: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "reference": self.folder.reference,
            "digest": self.folder.digest,
            "repository": self.pushed.reference.repository,
            "commit": self.pushed.reference.revision,
            "files": list(self.pushed.files),
            "certificate": str(self.folder.export.certificate),
            "remarks": list(self.remarks),
        }


def push_version(
    reference: str,
    repository: str,
    revision: str = "main",
    *,
    private: bool = False,
    chat_template: str = "",
    licence: str = "",
) -> PushedVersion:
    """Write a version's folder and push it; the commit is tagged on the version in MLflow.

    Args:
        reference: the version: news@champion, news/3, a digest.
        repository: ``ORG/REPO``, made where it is not there.
        revision: the branch, made likewise.
        private: whether a repository that is made is private.
        chat_template, licence: as for `write_hub_folder`.

    Raises:
        InvalidOption: a path, or a misspelt repository.
        UnknownVersion: there is no such version.
        InvalidTokenizer: transformers would read it otherwise; nothing was pushed.
        LibraryFailed: huggingface_hub is not installed, or the Hub refuses or does not answer.
    """
    target = HubReference.parse(f"{repository}@{revision}")
    named = split_size(reference)[0]
    parsed = parse_registered(str(named))
    if named != reference:
        raise InvalidOption(
            f"{reference} is a smaller size of a version, of which no version tells",
            "versions are pushed",
            f"train it, or type `bpeline export {reference} --format transformers --output FOLDER`",
        )
    registry = open_registry(make=False)
    version = resolve(registry, parsed)
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        path = Path(aside) / "folder"
        folder = write_hub_folder(str(version), path, (), chat_template, licence, target.repository)
        message = f"{folder.reference}, digest {folder.digest}"
        pushed = push(path, target, message, private=private, ours=OURS)
    remarks = [*filter(None, (folder.export.remark,)), *pushed.remarks]
    try:
        tag = f"hub.{target.repository}"
        registry.tracker.tag_version(version.name, version.number, {tag: pushed.reference.revision})
    except RegistryError as error:
        remarks.append(f"the commit is not in MLflow: {error.happened}")
    return PushedVersion(folder, pushed, tuple(remarks))
