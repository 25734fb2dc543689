"""Metrics of a version, from ``evaluation.json``, the catalogue or MLflow.

``evaluation.json`` is stored with a version's files in the workspace and in its MLflow run. Schema:

    format        1
    digest        of the tokenizer
    pattern       name or regex of its split pattern
    set           {digest, provisional} of the evaluation set, or null
    vocab_size
    created_at    UTC, ISO 8601
    held_out      whether the texts were held out of training
    parallel      whether the texts are translations of each other
    definitions   assumptions behind the figures (`DEFINITIONS` of metrics.py)
    sources       [{name, files, language, domain, digest, documents, bytes}]
    slices        {slice: {texts, metrics: {name: value}, curve: [[size, bytes per token]],
                  merge_gain: [[size, tokens saved by one merge, per million]]}}; "all" is
                  everything; names of metrics: `tokenizer_core.evaluation.metric_names`
    new           {slice: metrics} on text of this training outside the set; {} for none
    new_compared  {label: {slice: tokens_change}} on that text
    compared      {label: {reference, digest, vocab_size, pattern, normalizer, remarks, slices:
                  {slice: {metrics, tokens_change: {value, mean_ratio, documents, intervals:
                  {"0.95": [low, high]}}}}}}; the label "champion" is the alias ``champion``
    parity        {gini, max_over_min, dearest, cheapest}, or null
    premiums      {language: tokens relative to the cheapest language}
    divergences   [[language, language, bits]]
    training      {dead, rare, junk, f95_by_size: [[size, count]]} on the training words, or null
    robustness    effect of perturbed text, see `Robustness`, or null
    robustness_by_language  {language: the same} for languages with ten documents or more
    suggested     {knee, well_used}: vocab sizes by `metrics.knee` and
                  `TokenUsage.largest_well_used`, or null
    chosen_sizes  {name: {vocab_size, said, at_edge, model: {title, label, sizes}, smallest,
                  largest, reached, near: [low, high], near_share, set, measured_on, curve: [[size,
                  bytes per token, FLOPs per byte]]}}: how trainings of these names chose the
                  vocab size. at_edge is smallest, largest or null; sizes in near cost at most
                  near_share more; reached is below largest if no pair was left
    screening     {suspicious: [[id, kind]], chunks, one_chunk, one_document, unread: [id]}, see
                  `registry.tokens.screening.Screening`; only written by training
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bpeline.registry.catalogue import utc_now
from bpeline.registry.evaluation.gates import Evidence, Rule
from bpeline.registry.evaluation_sets import (
    BY_TRAINING,
    EvaluationSet,
    SetMeasurement,
    has_set,
    kept_measurement,
    measured_on,
    parts_of,
    read_documents,
    read_set,
)
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import Registry
from bpeline.registry.records import CHAMPION, ByNumber
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, UnknownEvaluationSet, UnknownVersion
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    CHANGED_IDS,
    ROBUSTNESS_FIGURES,
    Change,
    changed_ids,
    depends_on_text,
)

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.evaluation import (
        Evaluation,
        NamedShape,
        Robustness,
        TokenUsage,
    )

EVALUATION_FILE = "evaluation.json"
FORMAT = 1
CHOSEN_SIZES = "chosen_sizes"


def metrics_of(registry: Registry, version: ResolvedVersion) -> dict[str, float]:
    """Return every metric of a version; of a curve its last value."""
    row = registry.catalogue.find_version(version.name, version.digest)
    metrics = {} if row is None else row.last_values
    if metrics or not version.mlflow_run_id:
        return metrics
    return registry.tracker.runs.metrics_of(version.mlflow_run_id)


def evaluation_of(registry: Registry, version: ResolvedVersion) -> dict[str, Any] | None:
    """Return the ``evaluation.json`` of a version, or None."""
    return read_evaluation(registry.workspace.version_directory(version.digest))


def read_evaluation(directory: Path) -> dict[str, Any] | None:
    """Read ``evaluation.json`` in a version's directory; None if unreadable."""
    path = directory / EVALUATION_FILE
    with suppress(OSError, ValueError):  # damaged
        content = read_json(path)
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return unsealed(content)
    return None


ROBUSTNESS_COLUMNS = (
    "language", "family", "kind", "documents", "changes", "inflation", "inflation_low",
    "inflation_high", "stability", "stability_low", "stability_high", "agreement",
    "agreement_low", "agreement_high", "champion_inflation",
)  # fmt: skip


def robustness_table(record: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return robustness by language and kind as rows of `ROBUSTNESS_COLUMNS`.

    The language ``all`` means all documents. None means unknown: too few documents for an interval,
    or no champion.
    """
    whole = record.get("robustness")
    measured = {ALL: whole, **record.get("robustness_by_language", {})} if whole else {}
    rows = []
    for language, figures in measured.items():
        champion = figures["tokenizers"].get(CHAMPION, {"kinds": {}})["kinds"]
        effects = figures["tokenizers"][""]["kinds"]
        for kind, applied in sorted(figures["applied"].items(), key=_by_family):
            effect = effects[kind]
            ends = [
                (effect[figure] or {}).get(end)
                for figure in ROBUSTNESS_FIGURES
                for end in ("value", "low", "high")
            ]
            champion_inflation = champion[kind]["inflation"]["value"] if kind in champion else None
            rows.append((
                language, applied["family"], kind, applied["documents"], applied["changes"],
                *ends, champion_inflation,
            ))  # fmt: skip
    return rows


def _by_family(applied: tuple[str, Mapping[str, Any]]) -> tuple[str, str]:
    kind, effect = applied
    return effect["family"], kind


def chosen_size_of(record: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return how a training of a name chose the vocab size; None if it was given."""
    choice: dict[str, Any] | None = (record or {}).get(CHOSEN_SIZES, {}).get(name)
    return choice


def write_evaluation(record: Mapping[str, Any], directory: Path) -> None:
    DURABLE.write(directory / EVALUATION_FILE, canonical_json(sealed(record)))


def evidence_for(
    registry: Registry,
    version: ResolvedVersion,
    present: ResolvedVersion | None,
    rules: Sequence[Rule],
    *,
    replaces: bool = True,
) -> tuple[Evidence, ...]:
    """Return the figures that rules need, on the evaluation set of the name.

    Missing measurements are made now. If a training replaced a provisional set since the current
    version was registered, and the new set lacks the old texts, both sets are evidence: else a
    version would be judged on its own text alone.

    Args:
        present: the current version, or the best of its name.
        replaces: whether ``present`` is the current version.
    """
    ours, theirs = _of_no_text(registry, version), None
    if present is not None:
        theirs = {ALL: _of_no_text(registry, present)}
    if any(rule.metric == CHANGED_IDS for rule in rules):
        changed = (
            0 if present is None or not replaces else changed_meaning(registry, version, present)
        )
        ours[CHANGED_IDS] = float(changed)
    if present is None and not any(depends_on_text(rule.metric) for rule in rules):
        return (Evidence({ALL: ours}, theirs),)
    models = [rule.model_shape for rule in rules if rule.model_shape is not None]
    try:
        current_set = evaluation_set_of(registry, version.name)
        evidence = [
            _on_set(registry, version, present, current_set, str(current_set), ours, theirs, models)
        ]
        evidence[0] = replace(evidence[0], new=_on_new_text(registry, version, present))
    except (CorruptFile, UnknownEvaluationSet) as error:
        return (Evidence({ALL: ours}, theirs, missing=f"{error.happened}; {error.next_step}"),)
    earlier = None if present is None else _exchanged_set(registry, present)
    if earlier is not None:
        title = f"{earlier}, which {present} was registered with"
        with suppress(CorruptFile):  # unreadable: ignore it
            if not _holds(registry.workspace, current_set, earlier):
                more = _on_set(registry, version, present, earlier, title, ours, theirs, models)
                evidence.append(replace(more, earlier=True))
    return tuple(evidence)


def _on_set(
    registry: Registry,
    version: ResolvedVersion,
    present: ResolvedVersion | None,
    made: EvaluationSet,
    called: str,
    own: Mapping[str, float],
    theirs: Mapping[str, Mapping[str, float]] | None,
    models: Sequence[NamedShape],
) -> Evidence:
    """The evidence on one set, with metrics independent of text and model costs."""
    after = measured_on(registry, version, made)
    before = None if present is None else measured_on(registry, present, made)
    changes = {}
    if before is not None:
        theirs = _with_figures(theirs or {}, before, models)
        for part in parts_of(made):
            changes[part.name] = after.change_from(before, part)
    ours = _with_figures({ALL: own}, after, models)
    return Evidence(ours, theirs, changes, called)


def _on_new_text(
    registry: Registry, version: ResolvedVersion, present: ResolvedVersion | None
) -> dict[str, Change]:
    """Changes on held-out text of the training that is not in the set."""
    record = evaluation_of(registry, version) or {}
    champion = record.get("compared", {}).get(CHAMPION, {})
    if present is None or champion.get("digest") != present.digest or not record["held_out"]:
        return {}
    return {
        name: Change(
            change["value"],
            change["mean_ratio"],
            change["documents"],
            {float(key): tuple(ends) for key, ends in change["intervals"].items()},
        )
        for name, change in record.get("new_compared", {}).get(CHAMPION, {}).items()
    }


def best_measured(registry: Registry, version: ResolvedVersion) -> ResolvedVersion | None:
    """Return the other measured version of the name with the fewest tokens, or None."""
    try:
        current_set = evaluation_set_of(registry, version.name)
    except (CorruptFile, UnknownEvaluationSet):
        return None
    measured = []
    for registration in registry.catalogue.registrations(version.name, registry.store):
        measurement = kept_measurement(registry.workspace, current_set, registration.digest)
        if measurement is not None and registration.digest != version.digest:
            measured.append(
                (
                    sum(int(counts.sum()) for counts in measurement.tokens.values()),
                    registration.number,
                )
            )
    for _, number in sorted(measured):
        with suppress(UnknownVersion):  # deleted in MLflow
            return resolve(registry, ByNumber(version.name, number))
    return None


def _exchanged_set(registry: Registry, present: ResolvedVersion) -> EvaluationSet | None:
    """The set a version was registered with, if a training has replaced it since."""
    row = registry.catalogue.find_version(present.name, present.digest)
    sets = registry.catalogue.evaluation_sets(present.name)
    if row is None:
        return None
    for current, following in pairwise(sets):
        exchanged = current.at <= row.created_at < following.at and following.by == BY_TRAINING
        if exchanged and has_set(registry.workspace, current.digest):
            return read_set(registry.workspace, current.digest)
    return None


def _holds(workspace: Workspace, made: EvaluationSet, earlier: EvaluationSet) -> bool:
    """Whether a set contains at least half of the text of the set it replaced."""
    documents = {document for text in read_documents(workspace, made).values() for document in text}
    before = [document for text in read_documents(workspace, earlier).values() for document in text]
    shared_bytes = sum(len(document) for document in before if document in documents)
    return 2 * shared_bytes >= sum(map(len, before))


def evaluation_set_of(registry: Registry, name: str) -> EvaluationSet:
    """Return the evaluation set of a name, whose documents are here.

    Raises:
        UnknownEvaluationSet: the name has no set, or its documents are not here.
        CorruptFile: the set is damaged.
    """
    current_set = registry.catalogue.evaluation_set(name)
    if current_set is None:
        raise UnknownEvaluationSet(
            f"{name} has no evaluation set",
            "expected a set: a training makes one from held-out documents or from `--eval`",
            f"type `bpeline evaluate {name} --set-from FILES`",
        )
    if not has_set(registry.workspace, current_set.digest):
        raise UnknownEvaluationSet(
            f"the documents of evaluation set {current_set.digest[:8]} of {name} are not in this "
            "workspace",
            "expected the workspace that made the set, or a store shared with it",
            f"type `bpeline evaluate {name} --set-from FILES` to make one here",
        )
    return read_set(registry.workspace, current_set.digest)


def _of_no_text(registry: Registry, version: ResolvedVersion) -> dict[str, float]:
    metrics = metrics_of(registry, version)
    return {name: value for name, value in metrics.items() if not depends_on_text(name)}


def changed_meaning(registry: Registry, version: ResolvedVersion, present: ResolvedVersion) -> int:
    """Count ids of the current version that mean another token, or none, now."""
    return changed_ids(load_version(registry, present), load_version(registry, version))


def _with_figures(
    known: Mapping[str, Mapping[str, float]],
    measured: SetMeasurement,
    models: Sequence[NamedShape],
) -> dict[str, dict[str, float]]:
    slices = {name: dict(measurement.metrics) for name, measurement in measured.slices.items()}
    for figures in slices.values():
        for model in models:
            figures |= model.figures(measured.vocab_size, figures[BYTES_PER_TOKEN])
    for name, metrics in known.items():
        slices[name] = {**metrics, **slices.get(name, {})}
    return slices


@dataclass(frozen=True, slots=True)
class MeasuredSource:
    """One evaluated source; an entry of ``sources`` in ``evaluation.json``."""

    name: str
    files: tuple[str, ...]
    language: str | None
    domain: str | None
    digest: str
    documents: int
    bytes: int


def evaluation_record(
    evaluation: Evaluation,
    *,
    digest: str,
    pattern: str,
    made: EvaluationSet | None,
    new: Evaluation | None,
    sources: Sequence[MeasuredSource],
    references: Mapping[str, str],
    held_out: bool,
    parallel: bool,
    usage: TokenUsage | None,
    robustness: Robustness | None = None,
    languages: Mapping[str, Robustness] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the content of ``evaluation.json``.

    Args:
        digest, pattern: of the tokenizer.
        new: evaluation on other text of the same training.
        references: label → name of the compared tokenizer.
        usage: on the training words, for byte-level BPE.
        languages: robustness by language.
    """
    from bpeline.tokenizer_core.evaluation import DEFINITIONS, knee

    texts = {part.name: list(part.texts) for part in evaluation.parts}
    return {
        "format": FORMAT,
        "digest": digest,
        "pattern": pattern,
        "set": None if made is None else {"digest": made.digest, "provisional": made.provisional},
        "vocab_size": evaluation.report.vocab_size,
        "created_at": utc_now(),
        "held_out": held_out,
        "parallel": parallel,
        "definitions": dict(DEFINITIONS),
        "sources": [{**asdict(entry), "files": list(entry.files)} for entry in sources],
        "slices": {
            name: {
                "texts": texts[name],
                "metrics": dict(entry.metrics),
                "curve": _listed(entry.curve),
                "merge_gain": _listed(entry.merge_gain),
            }
            for name, entry in evaluation.slices.items()
        },
        "compared": {
            label: {
                "reference": references[label],
                "digest": opponent.digest,
                "vocab_size": opponent.vocab_size,
                "pattern": opponent.pattern,
                "normalizer": opponent.normalizer,
                "remarks": list(opponent.remarks),
                "slices": {
                    name: {
                        "metrics": dict(entry.metrics),
                        "tokens_change": _change_record(opponent.changes[name]),
                    }
                    for name, entry in opponent.slices.items()
                },
            }
            for label, opponent in evaluation.opponents.items()
        },
        "new": {name: dict(entry.metrics) for name, entry in new.slices.items()} if new else {},
        "new_compared": {
            label: {name: _change_record(entry) for name, entry in opponent.changes.items()}
            for label, opponent in (new.opponents if new else {}).items()
        },
        "parity": None if evaluation.parity is None else asdict(evaluation.parity),
        "premiums": dict(evaluation.premiums),
        "divergences": [[*pair, bits] for pair, bits in evaluation.divergences.items()],
        "training": None
        if usage is None
        else {
            "dead": usage.dead,
            "rare": usage.rare,
            "junk": usage.junk,
            "f95_by_size": _listed(usage.f95_by_size),
        },
        "robustness": None if robustness is None else robustness.as_record(),
        "robustness_by_language": {name: entry.as_record() for name, entry in languages.items()},
        "suggested": {
            "knee": knee(evaluation.report.curve),
            "well_used": None if usage is None else usage.largest_well_used,
        },
    }


def _change_record(change: Change) -> dict[str, Any]:
    intervals = {str(key): [low, high] for key, (low, high) in change.intervals.items()}
    return {
        "value": change.value,
        "mean_ratio": change.mean_ratio,
        "documents": change.documents,
        "intervals": intervals,
    }


def _listed(points: Iterable[tuple[int, float]]) -> list[list[float]]:
    return [list(point) for point in points]
