"""Renaming of special tokens: a new version with the same ids and figures."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.deriving.continuation import base_of
from bpeline.flows.pages import show_name_page
from bpeline.flows.publishing import made_with, publication_of
from bpeline.flows.requests import RenameRequest, request_parameters
from bpeline.registry.evaluation import evaluate_version
from bpeline.registry.loading import golden_texts, resolve, write_exports
from bpeline.registry.publishing import publish_version
from bpeline.registry.records import CURVE_METRIC, Publication, PublishedVersion, parse_registered
from bpeline.registry.versions import RENAMED, Lineage, imported_in, keep_originals, kept_files
from bpeline.tokenizer_core.derived import rename_special_tokens, slots_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Renaming:
    """The result of `rename`; ``slots_left`` counts the reserved tokens that remain."""

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


@request_parameters(RenameRequest)
def rename(request: RenameRequest, workspace: str | None) -> Renaming:
    """Register a new version under the same name, with renamed special tokens.

    All ids keep their meaning. The figures are copied from the version, because texts are measured
    without special tokens.
    """
    lineage, before = base_of(request, workspace)
    registry, base, names = lineage.registry, lineage.version, dict(request.names)
    tokenizer = rename_special_tokens(before, names)
    with registry.workspace.temporary_directory("publish") as directory, DURABLE.passing(directory):
        _write_renamed(tokenizer, names, lineage, directory)
        publication = _renamed_publication(tokenizer, names, lineage, directory)
        version = publish_version(registry, publication)
    if version.newly_registered and registry.catalogue.evaluation_set(base.name) is not None:
        evaluate_version(registry, resolve(registry, parse_registered(version.reference)))
    show_name_page(registry, base.name)
    ids = {new: tokenizer.special_tokens[new] for new in names.values()}
    return Renaming(str(base), names, ids, version, len(slots_of(tokenizer)))


def names_of(spelled: Sequence[str]) -> dict[str, str]:
    """Return the mapping from old to new names."""
    names: dict[str, str] = {}
    for text in spelled:
        old, equals, new = text.partition("=")
        if not old or not equals or not new or old in names:
            raise InvalidOption(
                f"{old!r} is given twice" if old in names else f"{text!r} is not a pair of tokens",
                "expected OLD=NEW, each old name once",
                "type `bpeline derive rename news/3 '<|reserved_0|>=<|tool|>'`",
            )
        names[old] = new
    return names


def _write_renamed(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> None:
    """Write the files of the new version, and copy other files of the old one."""
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


def _renamed_publication(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> Publication:
    base, row = lineage.version, lineage.row
    metrics = [] if row is None else row.metrics
    lines = "\n".join(f"- `{old}` → `{new}`" for old, new in names.items())
    return publication_of(
        tokenizer,
        directory,
        base.name,
        f"rename-{uuid.uuid4().hex}",
        corpus_digest=row.corpus_digest if row is not None else "",
        counts_digest=row.counts_digest if row is not None else "",
        params={"renamed_from": str(base), "renamed": dict(names)},
        metrics={metric.key: metric.value for metric in metrics if metric.key != CURVE_METRIC},
        curve=tuple(
            (metric.step, metric.value) for metric in metrics if metric.key == CURVE_METRIC
        ),
        tags={"renamed_from": str(base)},
        report=f"# {base}, special tokens renamed\n\n{lines}\n\nIds and figures are unchanged.",
    )
