"""Writing the report page of a registered version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.importing import facts_of
from bpeline.flows.pages import ReportContents, report_page
from bpeline.flows.requests import TrainingRequest
from bpeline.registry.evaluation import (
    VersionComparison,
    chosen_size_of,
    compare_versions,
    evaluation_of,
    robustness_table,
)
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import CHAMPION, ByPath, parse_reference, parse_registered
from bpeline.registry.tokens import Screening, TrainedOn, kept_screening, screen
from bpeline.registry.versions import Lineage, aliases_of
from bpeline.registry.word_counts import corpus_record
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import UnknownVersion
from bpeline.tokenizer_core.evaluation import token_use

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.evaluation import TokenUse
    from bpeline.tokenizer_core.tokenizer import Tokenizer


def write_report(reference: str, path: Path | None = None, against: str | None = None) -> Path:
    """Write the report of a version; return the path.

    Args:
        path: the file; None for NAME-NUMBER.html in the current directory.
        against: the version to compare with; None for the champion.
    """
    contents = version_contents(reference, against)
    target = path or Path(f"{contents.title.replace('/', '-')}.html")
    DURABLE.write(target, report_page(contents).encode(errors="backslashreplace"))
    return target


def version_contents(reference: str, against: str | None = None) -> ReportContents:
    """Return the contents of the report; arguments and errors as in `write_report`."""
    parsed = parse_registered(reference)
    registry = open_registry(make=False)
    version = resolve(registry, parsed)
    tokenizer = load_version(registry, version)
    lineage = Lineage.of(registry, version)
    words = lineage.words
    use = None if words is None else token_use(tokenizer, words)
    comparison, remark = _compared(registry, version, against)
    metrics, curves = _metrics(registry, lineage)
    measured = evaluation_of(registry, version) or {}
    return ReportContents(
        title=str(version) if version.name else version.digest[:12],
        tokenizer=tokenizer,
        screening=_screening(lineage, tokenizer, words, use),
        facts=_facts(registry, lineage),
        parameters=lineage.request,
        metrics=metrics,
        curves=curves,
        notes=lineage.provenance.get("notes", ()),
        sources=lineage.provenance.get("sources", ()),
        development=lineage.development,
        use=use,
        comparison=comparison,
        comparison_remark=remark,
        robustness=robustness_table(measured),
        chosen_size=chosen_size_of(measured, version.name),
    )


def _screening(
    lineage: Lineage, tokenizer: Tokenizer, words: WordCounts | None, use: TokenUse | None
) -> Screening:
    """Return the stored screening; for versions without one, screen now."""
    registry = lineage.registry
    stored = kept_screening(evaluation_of(registry, lineage.version), tokenizer)
    if stored is not None:
        return stored
    trained = None
    counted_once = not lineage.request.get("sources")  # else the counts may be weighted
    if counted_once and words is not None and use and lineage.row and lineage.shards_kept:
        files = corpus_record(registry.workspace, lineage.row.corpus_digest) or ()
        if lineage.request:
            reading = TrainingRequest.checked(**lineage.request).reading
            reading = replace(reading, left_out=lineage.left_out)
            trained = TrainedOn(words, use, files, reading)
    return screen(tokenizer, registry.workspace, trained)


def _metrics(
    registry: Registry, lineage: Lineage
) -> tuple[dict[str, float], dict[str, list[tuple[int, float]]]]:
    """Return the last value of every metric, and the curves of those with several."""
    row = lineage.row
    if row is None:
        return {}, {}
    curves: dict[str, list[tuple[int, float]]] = {}
    for metric in row.metrics:
        curves.setdefault(metric.key, []).append((metric.step, metric.value))
    last = {key: points[-1][1] for key, points in curves.items()}
    return last, {key: points for key, points in curves.items() if len(points) > 1}


def _facts(registry: Registry, lineage: Lineage) -> dict[str, str]:
    version, row = lineage.version, lineage.row
    facts: dict[str, Any] = {"version": str(version), "digest": version.digest}
    if row is not None:
        aliases = aliases_of(registry, row.name)
        facts |= {
            "aliases": ", ".join(sorted(a for a, at in aliases.items() if at == version.number)),
            "registered": f"{row.created_at[:16].replace('T', ' ')} UTC",
            "run": row.run_id,
            "MLflow run": version.mlflow_run_id,
            "corpus digest": row.corpus_digest,
            "counts digest": row.counts_digest,
        }
    if (imported := lineage.imported) is not None:
        facts |= facts_of(imported)
    made_with = lineage.provenance.get("made_with", {})
    facts["made with"] = ", ".join(f"{name} {value}" for name, value in made_with.items())
    return facts


def _compared(
    registry: Registry, version: ResolvedVersion, against: str | None
) -> tuple[VersionComparison | None, str]:
    """Return the comparison, or the reason why there is none."""
    if not version.name:
        return None, "Files without a name have no champion to compare with."
    other = against or f"{version.name}@{CHAMPION}"
    try:
        parsed = parse_reference(other)
        resolved = None if isinstance(parsed, ByPath) else resolve(registry, parsed)
    except UnknownVersion:
        if against is not None:
            raise
        return None, f"No version of {version.name} is the champion yet."
    if resolved is not None and resolved.digest == version.digest:
        same = "This version is the champion." if against is None else "Both versions are the same."
        return None, same
    return compare_versions(other, str(version), registry.workspace), ""
