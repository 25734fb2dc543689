"""What was measured of a version: its ``evaluation.json``, else the catalogue, else MLflow.

This module is where the schema of ``evaluation.json`` is told. The file lies beside the other
files of a version, in the workspace and among the artifacts of its MLflow run:

    format        1
    digest        of the tokenizer
    set           {digest, provisional} of the evaluation set, or null
    vocab_size
    created_at    UTC, ISO 8601
    held_out      whether training had not seen the texts
    parallel      whether the texts of all languages say the same
    definitions   what figures rest on beside their formulas (`DEFINITIONS` of metrics.py)
    sources       [{name, files, language, domain, digest, documents, bytes}]
    slices        {slice: {texts, metrics: {name: value}, curve: [[size, bytes per token]],
                  merge_gain: [[size, tokens saved by one merge, of a million]]}}; "all" is
                  everything; names of metrics: `tokenizer_core.evaluation.metric_names`
    new           {slice: metrics} on text of this training that is not in the set; {} for none
    new_compared  {label: {slice: tokens_change}} of it
    compared      {label: {reference, digest, vocab_size, slices: {slice: {metrics, tokens_change:
                  {value, mean_ratio, documents, intervals: {"0.95": [low, high]}}}}}}; the label
                  "champion" is the version that ``champion`` pointed to
    parity        {gini, max_over_min, dearest, cheapest}, or null
    premiums      {language: tokens, those of the cheapest language being 1}
    divergences   [[language, language, bits]]
    training      {dead, rare, junk, f95_by_size: [[size, count]]} of the words trained on, or null
    robustness    what became of the figures when the text was changed, see `Robustness`, or null
    robustness_by_language  {language: the same}, of several that have ten documents or more; {}
    suggested     {knee, well_used}: vocab sizes, or null; the rules are `metrics.knee`
                  and `TokenUsage.largest_well_used`
    chosen_sizes  {name: {vocab_size, said, at_edge, model: {title, label, sizes}, smallest,
                  largest, reached, near: [low, high], near_share, set, measured_on, curve: [[size,
                  bytes per token, FLOPs per byte]]}}: how trainings under these names chose the
                  number of ids. at_edge is smallest, largest or null; sizes of near cost at most
                  near_share more; reached is below largest where no pair was left
    screening     {suspicious: [[id, kind]], chunks, one_chunk, one_document, unread: [id]}, see
                  `registry.screening.Screening`; not where something else than training wrote it
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
    """Every metric of a version; of a curve its last point.

    Raises:
        RegistryUnreachable: only MLflow knows them, and it does not answer.
    """
    row = registry.catalogue.find_version(version.name, version.digest)
    known = {} if row is None else row.last_values
    if known or not version.mlflow_run_id:
        return known
    return registry.tracker.runs.metrics_of(version.mlflow_run_id)


def evaluation_of(registry: Registry, version: ResolvedVersion) -> dict[str, Any] | None:
    """The ``evaluation.json`` of a version; None where this workspace has none that can be read."""
    return read_evaluation(registry.workspace.version_directory(version.digest))


def read_evaluation(directory: Path) -> dict[str, Any] | None:
    """The ``evaluation.json`` in a version's directory, or None."""
    path = directory / EVALUATION_FILE
    with suppress(OSError, ValueError):  # what is damaged says nothing
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
    """Robustness by kind and language, a row for each under `ROBUSTNESS_COLUMNS`.

    The language of all documents together is ``all``. None is not known: intervals of few
    documents, a champion that there was not.

    Args:
        record: the content of ``evaluation.json``.
    """
    whole = record.get("robustness")
    measured = {ALL: whole, **record.get("robustness_by_language", {})} if whole else {}
    rows = []
    for language, found in measured.items():
        champion = found["tokenizers"].get(CHAMPION, {"kinds": {}})["kinds"]
        effects = found["tokenizers"][""]["kinds"]
        for kind, applied in sorted(found["applied"].items(), key=_by_family):
            effect = effects[kind]
            ends = [
                (effect[figure] or {}).get(end)
                for figure in ROBUSTNESS_FIGURES
                for end in ("value", "low", "high")
            ]
            beside = champion[kind]["inflation"]["value"] if kind in champion else None
            rows.append((
                language, applied["family"], kind, applied["documents"], applied["changes"],
                *ends, beside,
            ))  # fmt: skip
    return rows


def _by_family(applied: tuple[str, Mapping[str, Any]]) -> tuple[str, str]:
    kind, effect = applied
    return effect["family"], kind


def chosen_size_of(record: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """How a training under a name chose the number of ids; None where it was asked for.

    Args:
        record: the content of ``evaluation.json``, if there is one.
    """
    found: dict[str, Any] | None = (record or {}).get(CHOSEN_SIZES, {}).get(name)
    return found


def write_evaluation(record: Mapping[str, Any], directory: Path) -> None:
    """Keep an evaluation beside the version's files, in the place of an earlier one."""
    DURABLE.write(directory / EVALUATION_FILE, canonical_json(sealed(record)))


def evidence_for(
    registry: Registry,
    version: ResolvedVersion,
    present: ResolvedVersion | None,
    rules: Sequence[Rule],
    *,
    replaces: bool = True,
) -> tuple[Evidence, ...]:
    """What rules can judge a version by: figures of both on the evaluation set of their name.

    Whichever of them was not measured on it before is measured now. Where a training exchanged a
    provisional set since the present version was registered, for text that does not hold that set,
    both are evidence: else a version that brings its own text would be judged on that alone.

    Args:
        present: the version it would replace, or the best of its name where there is none.
        rules: what will be asked.
        replaces: whether it would replace it.

    Raises:
        RegistryUnreachable: a version is to be fetched, and MLflow does not answer.
    """
    own, theirs = _of_no_text(registry, version), None
    if present is not None:
        theirs = {ALL: _of_no_text(registry, present)}
    if any(rule.metric == CHANGED_IDS for rule in rules):
        changed = (
            0 if present is None or not replaces else changed_meaning(registry, version, present)
        )
        own[CHANGED_IDS] = float(changed)
    if present is None and not any(depends_on_text(rule.metric) for rule in rules):
        return (Evidence({ALL: own}, theirs),)
    models = [rule.model_shape for rule in rules if rule.model_shape is not None]
    try:
        made = evaluation_set_of(registry, version.name)
        found = [_on_set(registry, version, present, made, str(made), own, theirs, models)]
        found[0] = replace(found[0], new=_on_new_text(registry, version, present))
    except (CorruptFile, UnknownEvaluationSet) as error:
        return (Evidence({ALL: own}, theirs, missing=f"{error.happened}; {error.next_step}"),)
    earlier = None if present is None else _exchanged_set(registry, present)
    if earlier is not None:
        said = f"{earlier}, which {present} was registered with"
        with suppress(CorruptFile):  # it cannot be read any more: nothing is known of it
            if not _holds(registry.workspace, made, earlier):
                one = _on_set(registry, version, present, earlier, said, own, theirs, models)
                found.append(replace(one, earlier=True))
    return tuple(found)


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
    """Both on one set, beside what is known of them whatever the text, and what it costs models."""
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
    """What its training measured of both on text that is not in the set, and not learned from."""
    record = evaluation_of(registry, version) or {}
    champion = record.get("compared", {}).get(CHAMPION, {})
    if present is None or champion.get("digest") != present.digest or not record["held_out"]:
        return {}
    return {
        name: Change(
            one["value"],
            one["mean_ratio"],
            one["documents"],
            {float(key): tuple(ends) for key, ends in one["intervals"].items()},
        )
        for name, one in record.get("new_compared", {}).get(CHAMPION, {}).items()
    }


def best_measured(registry: Registry, version: ResolvedVersion) -> ResolvedVersion | None:
    """The other version of the name with the fewest tokens of the evaluation set, if there is one.

    Only versions count that were measured on it.
    """
    try:
        made = evaluation_set_of(registry, version.name)
    except (CorruptFile, UnknownEvaluationSet):
        return None
    measured = []
    for one in registry.catalogue.registrations(version.name, registry.store):
        found = kept_measurement(registry.workspace, made, one.digest)
        if found is not None and one.digest != version.digest:
            measured.append((sum(int(some.sum()) for some in found.tokens.values()), one.number))
    for _, number in sorted(measured):
        with suppress(UnknownVersion):  # deleted in MLflow itself
            return resolve(registry, ByNumber(version.name, number))
    return None


def _exchanged_set(registry: Registry, present: ResolvedVersion) -> EvaluationSet | None:
    """The set that a version was registered with, where a training has exchanged it since."""
    row = registry.catalogue.find_version(present.name, present.digest)
    named = registry.catalogue.evaluation_sets(present.name)
    if row is None:
        return None
    for one, following in pairwise(named):
        exchanged = one.at <= row.created_at < following.at and following.by == BY_TRAINING
        if exchanged and has_set(registry.workspace, one.digest):
            return read_set(registry.workspace, one.digest)
    return None


def _holds(workspace: Workspace, made: EvaluationSet, earlier: EvaluationSet) -> bool:
    """Whether a set holds most of the text of the one whose place it took.

    A training whose corpus is that of the first set and more holds the same sections out again: its
    set is a sample of both, the earlier text in proportion, and judges by itself.
    """
    documents = {one for text in read_documents(workspace, made).values() for one in text}
    before = [one for text in read_documents(workspace, earlier).values() for one in text]
    again = sum(len(one) for one in before if one in documents)
    return 2 * again >= sum(map(len, before))


def evaluation_set_of(registry: Registry, name: str) -> EvaluationSet:
    """The evaluation set that a name has, whose documents are here.

    Raises:
        UnknownEvaluationSet: it has none.
        CorruptFile: the set is not in this workspace, or damaged.
    """
    named = registry.catalogue.evaluation_set(name)
    if named is None:
        raise UnknownEvaluationSet(
            f"{name} has no evaluation set",
            "a training makes one of held-out documents, or of those of `--eval`",
            f"type `bpeline evaluate {name} --set-from FILES`",
        )
    if not has_set(registry.workspace, named.digest):
        raise UnknownEvaluationSet(
            f"the documents of evaluation set {named.digest[:8]} of {name} are not in this "
            "workspace",
            "the workspace that made it has them, or a store that both share",
            f"type `bpeline evaluate {name} --set-from FILES` for one that is here",
        )
    return read_set(registry.workspace, named.digest)


def _of_no_text(registry: Registry, version: ResolvedVersion) -> dict[str, float]:
    known = metrics_of(registry, version)
    return {name: value for name, value in known.items() if not depends_on_text(name)}


def changed_meaning(registry: Registry, version: ResolvedVersion, present: ResolvedVersion) -> int:
    """How many ids of the present version are another token, or none, in the new one."""
    return changed_ids(load_version(registry, present), load_version(registry, version))


def _with_figures(
    known: Mapping[str, Mapping[str, float]],
    measured: SetMeasurement,
    models: Sequence[NamedShape],
) -> dict[str, dict[str, float]]:
    found = {name: dict(one.metrics) for name, one in measured.slices.items()}
    for figures in found.values():
        for model in models:
            figures |= model.figures(measured.vocab_size, figures[BYTES_PER_TOKEN])
    for name, metrics in known.items():
        found[name] = {**metrics, **found.get(name, {})}
    return found


@dataclass(frozen=True, slots=True)
class MeasuredSource:
    """One source that was evaluated on; the fields are those of ``sources`` above."""

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
    """The content of ``evaluation.json``.

    Args:
        digest: of the tokenizer.
        pattern: name or regex of its split pattern.
        made: the evaluation set, if it was measured on one.
        new: what was measured on other text of the same training.
        references: label → what people call the tokenizer compared with.
        usage: of the words trained on, for byte-level BPE.
        robustness: on the same text, changed.
        languages: the same by language.
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
        "sources": [{**asdict(one), "files": list(one.files)} for one in sources],
        "slices": {
            name: {
                "texts": texts[name],
                "metrics": dict(one.metrics),
                "curve": _listed(one.curve),
                "merge_gain": _listed(one.merge_gain),
            }
            for name, one in evaluation.slices.items()
        },
        "compared": {
            label: {
                "reference": references[label],
                "digest": other.digest,
                "vocab_size": other.vocab_size,
                "pattern": other.pattern,
                "normalizer": other.normalizer,
                "remarks": list(other.remarks),
                "slices": {
                    name: {
                        "metrics": dict(one.metrics),
                        "tokens_change": _change_record(other.changes[name]),
                    }
                    for name, one in other.slices.items()
                },
            }
            for label, other in evaluation.opponents.items()
        },
        "new": {name: dict(one.metrics) for name, one in new.slices.items()} if new else {},
        "new_compared": {
            label: {name: _change_record(one) for name, one in other.changes.items()}
            for label, other in (new.opponents if new else {}).items()
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
        "robustness_by_language": {name: one.as_record() for name, one in languages.items()},
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
