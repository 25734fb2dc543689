"""A version as a folder for the Hugging Face Hub, and its upload."""

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
    """A folder written for the Hub; ``card`` is whether bpeline wrote its card."""

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
    """Write a version like `export_version`, with a model card as README.md.

    A README.md that bpeline did not write is kept. Tokenizers from a path and smaller sizes of a
    version get no card. ``repository`` is the future place of the folder.
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
        remark = f"{card} was not created by bpeline; kept"
        noted = replace(written, remark="; ".join(filter(None, (written.remark, remark))))
        return HubFolder(noted, str(version), version.digest, card=False)
    directory = registry.workspace.version_directory(version.digest)
    for _ in recertified(registry, version, unchecked_only=True):
        pass  # checks by libraries installed since
    details = version_details(str(named))
    imported = Lineage.of(registry, version).imported  # names may share its digest
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
    """The result of a push: the local folder, the commit with its files, and remarks."""

    folder: HubFolder
    pushed: Pushed
    remarks: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
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
    """Write a version's folder and push it; tag the version with the commit in MLflow.

    Args:
        repository: ``ORG/REPO``, created if missing.
        revision: the branch, created if missing.
        private: whether a new repository is private.
    """
    target = HubReference.parse(f"{repository}@{revision}")
    named = split_size(reference)[0]
    parsed = parse_registered(str(named))
    if named != reference:
        raise InvalidOption(
            f"{reference} is a smaller size of a version, which has no lineage of its own",
            "expected a registered version",
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
