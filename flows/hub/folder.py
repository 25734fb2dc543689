"""The folder that people ship: a version for ``AutoTokenizer``, and a card that says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bpeline.flows.hub.model_card import OURS, model_card
from bpeline.flows.versions import version_details
from bpeline.registry.evaluation import read_evaluation
from bpeline.registry.exports import CARD, Export, export_version, recertified
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByPath, parse_reference, parse_registered, split_size
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE

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
