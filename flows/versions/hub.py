"""A version as a folder of the Hugging Face Hub, and its upload."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bpeline.flows.versions.details import version_details
from bpeline.flows.versions.model_card import OURS, model_card
from bpeline.registry.evaluation import read_evaluation
from bpeline.registry.exports import Export, export_version, recertified
from bpeline.registry.hub import CARD, HubReference, Pushed, push
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByPath, parse_reference, parse_registered, split_size
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, RegistryError

FORMAT: Final = "transformers"


@dataclass(frozen=True, slots=True)
class HubFolder:
    """A folder that was written.

    Attributes:
        export: its files, without the card.
        reference, digest: the version; what it was called then.
        card: whether it has a card of ours.
    """

    export: Export
    reference: str
    digest: str
    card: bool


def write_hub_folder(
    reference: str,
    path: Path,
    texts: Sequence[str] = (),
    chat_template: str = "",
    licence: str = "",
    repository: str = "",
    roles: Sequence[str] = (),
) -> HubFolder:
    """Write a version as `export_version` does, with README.md beside it.

    A README.md of somebody else's is left as it is. What is exported from a path, or as a smaller
    size of a version, has no card: nothing is known of it.

    Args:
        reference: as for :func:`registry.load_tokenizer`.
        path: the directory.
        texts, chat_template, roles: as for `export_version`.
        licence: as the Hub spells it; what was said when it was imported when empty.
        repository: where it will be, for the card.
    """
    written = export_version(
        reference, path, FORMAT, texts=texts, chat_template=chat_template, roles=roles
    )
    named, size = split_size(reference)
    if isinstance(parse_reference(named), ByPath) or size is not None:
        digest = written.certificate.tokenizer
        return HubFolder(written, str(reference), digest, card=False)
    registry = open_registry(make=False)
    version = resolve(registry, parse_registered(str(named)))
    card = path / CARD
    if card.exists() and OURS not in read_file(card).decode(errors="replace"):
        remark = f"{card} is not of bpeline's making and stays"
        noted = replace(written, remark="; ".join(filter(None, (written.remark, remark))))
        return HubFolder(noted, str(version), version.digest, card=False)
    directory = registry.workspace.version_directory(version.digest)
    for _ in recertified(registry, version, unchecked_only=True):
        pass  # the libraries installed since
    details = version_details(str(named))
    imported = Lineage.of(registry, version).imported  # not that of others with its digest
    certificates = {**details["certificates"], FORMAT: str(written.certificate)}
    text = model_card(
        details,
        read_evaluation(directory),
        certificates,
        licence or ("" if imported is None else imported.licence),
        load_tokenizer(reference),
        written.roles,
        repository or path.name,
    )
    DURABLE.write(card, text.encode(errors="backslashreplace"))
    return HubFolder(written, str(version), version.digest, card=True)


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
