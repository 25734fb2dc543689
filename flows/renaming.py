"""Special tokens of a version get other names: a new version with the same ids, and its figures."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.name_page import show_name_page
from bpeline.flows.steps import made_with, publication_of
from bpeline.registry.evaluating import evaluate_version
from bpeline.registry.imported import imported_in, keep_originals, kept_files
from bpeline.registry.lineage import RENAMED, Lineage
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.publishing import publish_version
from bpeline.registry.records import CURVE_METRIC, Publication, PublishedVersion
from bpeline.registry.references import parse_registered
from bpeline.registry.version_files import golden_texts, write_exports
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.derived import rename_special_tokens, slots_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Renaming:
    """What became of it: the old version, names and ids, the new version, slots that are left."""

    base: str
    names: Mapping[str, str]
    ids: Mapping[str, int]
    version: PublishedVersion
    slots_left: int

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "base": self.base,
            "reference": self.version.reference,
            "digest": self.version.digest,
            "newly_registered": self.version.newly_registered,
            "renamed": [
                {"id": self.ids[new], "from": old, "to": new} for old, new in self.names.items()
            ],
            "slots_left": self.slots_left,
        }


def names_of(spelled: Sequence[str]) -> dict[str, str]:
    """Old name → new name.

    Raises:
        InvalidOption: not OLD=NEW, or an old name given twice.
    """
    names: dict[str, str] = {}
    for one in spelled:
        old, equals, new = one.partition("=")
        if not old or not equals or not new or old in names:
            raise InvalidOption(
                f"{old!r} is given twice" if old in names else f"{one!r} names no two tokens",
                "OLD=NEW, each old name once",
                "type `bpeline rename news/3 '<|reserved_0|>=<|tool|>'`",
            )
        names[old] = new
    return names


@checked
def rename(reference: str, names: Mapping[str, str], workspace: str | None = None) -> Renaming:
    """Register a version under the same name in which special tokens are called otherwise.

    Every id stays, and stands for what it stood for. The figures are those of the version: texts
    are measured without special tokens.

    Raises:
        InvalidSpecialToken, InvalidOption: see `rename_special_tokens`.
        UnknownVersion: there is no such version.
        RegistryUnreachable: MLflow does not answer; the new version is kept in the outbox.
        DiskFull: no space left.
    """
    registry = open_registry(workspace, make=False)
    base = resolve(registry, parse_registered(reference))
    before = load_version(registry, base)
    tokenizer = rename_special_tokens(before, names)
    lineage = Lineage.of(registry, base)
    with registry.workspace.temporary_directory("publish") as directory, DURABLE.passing(directory):
        _write(tokenizer, names, lineage, directory)
        version = publish_version(registry, _publication(tokenizer, names, lineage, directory))
    if version.newly_registered and registry.catalogue.evaluation_set(base.name) is not None:
        evaluate_version(registry, resolve(registry, parse_registered(version.reference)))
    show_name_page(registry, base.name)
    ids = {new: tokenizer.special_tokens[new] for new in names.values()}
    return Renaming(str(base), dict(names), ids, version, len(slots_of(tokenizer)))


def _write(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> None:
    """The files of the new version; what lies beside the old one's is carried over."""
    workspace, digest = lineage.registry.workspace, lineage.version.digest
    kept = workspace.version_directory(digest)
    provenance = {
        **lineage.provenance,
        RENAMED: [*lineage.renamings, dict(names)],
        "renamed_from": {"version": str(lineage.version), "digest": digest},
        "made_with": made_with(),
    }
    bpeline.save(tokenizer, directory, provenance, golden_texts(kept))
    if (imported := imported_in(kept)) is not None:
        keep_originals(imported, kept_files(imported, kept), directory)
    write_exports(tokenizer, lineage.version.name, directory)


def _publication(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> Publication:
    base, row = lineage.version, lineage.row
    catalogue = lineage.registry.catalogue
    found = catalogue.metrics(base.name, base.digest)
    lines = "\n".join(f"- `{old}` → `{new}`" for old, new in names.items())
    return publication_of(
        tokenizer,
        directory,
        base.name,
        f"rename-{uuid.uuid4().hex}",
        corpus_digest=row.corpus_digest if row is not None else "",
        counts_digest=row.counts_digest if row is not None else "",
        params={"renamed_from": str(base), "renamed": dict(names)},
        metrics={one.key: one.value for one in found if one.key != CURVE_METRIC},
        curve=tuple((one.step, one.value) for one in found if one.key == CURVE_METRIC),
        tags={"renamed_from": str(base)},
        report=f"# {base}, special tokens renamed\n\n{lines}\n\nIds and figures are those of it.",
    )
