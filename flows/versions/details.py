"""Details of one version: properties, figures, origin."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bpeline.flows.importing import facts_of
from bpeline.flows.publishing import extension_of
from bpeline.flows.wording import left_out_text
from bpeline.registry.catalogue import Version
from bpeline.registry.certify import certificates_of
from bpeline.registry.evaluation import chosen_size_of, read_evaluation
from bpeline.registry.loading import holds_version, resolve, tombstones, uncertified
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.tracking import model_link
from bpeline.registry.versions import Lineage, aliases_of
from bpeline.tokenizer_core.errors import RegistryError
from bpeline.tokenizer_core.formats import bpeline


def version_details(reference: str) -> dict[str, Any]:
    """Return the details of a registered version as JSON values, in reading order."""
    parsed = parse_registered(reference)
    registry = open_registry(make=False)
    version = resolve(registry, parsed)
    row = registry.catalogue.find_version(version.name, version.digest) if version.name else None
    details: dict[str, Any] = {"reference": str(version), "digest": version.digest}
    if row is not None:
        aliases = aliases_of(registry, row.name)
        details |= {
            "aliases": sorted(
                alias for alias, number in aliases.items() if number == version.number
            ),
            "vocab_size": row.vocab_size,
            "pattern": row.pattern,
            "created_at": row.created_at,
        }
        metrics = row.metrics
        curve = [item for item in metrics if item.key == "compression/bytes_per_token"]
        details["metrics"] = {item.key: item.value for item in metrics}
        details["curve"] = {str(item.step): item.value for item in curve}
        details["measured_on"] = _measured_on(registry, row)
        details["lineage"] = {
            "corpus_digest": row.corpus_digest,
            "counts_digest": row.counts_digest,
            "run": row.run_id,
            "mlflow_run": version.mlflow_run_id,
            "mlflow_version": str(version.number),
            **{
                key.removeprefix("corpus/"): int(value)
                for key, value in details["metrics"].items()
                if key.startswith(("corpus/pruned_", "corpus/copied_")) and value
            },
        }
        details["parameters"] = _parameters(registry, row.run_id)
    if row is not None and (base := details["parameters"].get("extends")):
        gone = [item for item in tombstones(registry) if item.digest == base]
        details["lineage"]["extends"] = (
            ", ".join(f"{item.reference}, {item}" for item in gone) or base
        )
    lineage = Lineage.of(registry, version)
    if row is not None and lineage.provenance.get("left_out"):
        details["lineage"]["left_out"] = left_out_text(details["metrics"])
    imported = lineage.imported
    details["imported"] = {} if imported is None else facts_of(imported)
    directory = registry.workspace.version_directory(version.digest)
    details["files"] = str(directory) if directory.is_dir() else ""
    if holds_version(registry.workspace, version.digest):
        details["allowed_special"] = bpeline.allowed_special_of(directory)
    table = lineage.table
    details["word_counts"] = str(table.path) if table is not None and table.path.exists() else ""
    details["sources"] = lineage.provenance.get("sources", [])
    details["development"] = [asdict(item) for item in lineage.development]
    chosen = chosen_size_of(read_evaluation(directory), version.name)
    details["chosen_size"] = "" if chosen is None else chosen["said"]
    details["certificates"] = certificates_of(directory)
    details["uncertified"] = uncertified(directory, str(version))
    extension = extension_of(directory)
    details["extension"] = {} if extension is None else asdict(extension)
    if version.number:
        base = registry.tracker.settings.ui
        details["link"] = model_link(base, version.name, version.number)
    return details


def _measured_on(registry: Registry, row: Version) -> str:
    """Describe the text of a version's figures."""
    if not row.measured_on:
        return "text of its own training: use `bpeline compare` instead of comparing figures"
    named = registry.catalogue.evaluation_set(row.name)
    if named is not None and named.digest == row.measured_on:
        return f"evaluation set {row.measured_on[:8]} of {row.name}"
    return (
        f"evaluation set {row.measured_on[:8]}, no longer that of {row.name}: "
        f"type `bpeline evaluate {row.name}/N`"
    )


def _parameters(registry: Registry, run_id: str) -> dict[str, Any]:
    try:
        config = registry.catalogue.run(run_id).config if run_id else {}
    except RegistryError:  # trained in another workspace
        config = {}
    return {key: value for key, value in config.items() if value not in (None, [], "")}
