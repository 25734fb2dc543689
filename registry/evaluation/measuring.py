"""Measure registered versions and change the evaluation set of a name.

When a set changes, versions with an alias are measured on the new set.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.catalogue import NamedSet
from bpeline.registry.evaluation.measured import evaluation_of, evaluation_set_of, robustness_table
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    SetMeasurement,
    keep_set,
    measured_on,
    metrics_on,
    texts_of,
)
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered
from bpeline.tokenizer_core.errors import RegistryError
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    Curve,
    depends_on_text,
    may_be_perturbed,
    measure_robustness,
    robustness_by_language,
    slices_shown,
)

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Measured:
    """A version measured on the evaluation set of its name."""

    version: ResolvedVersion
    made: EvaluationSet
    found: SetMeasurement

    @property
    def curve(self) -> Curve:
        """(vocab size, bytes per token) on all texts, as if training had stopped there."""
        return self.found.slices[ALL].curve

    def __repr__(self) -> str:
        figure = self.found.slices[ALL].metrics[BYTES_PER_TOKEN]
        return f"<Measured: {self.version}, {figure:.4f} bytes/token on {self.made}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: every slice and its curve."""
        return slices_shown(self.found.slices, f"{self.version} on {self.made}")


def evaluate(reference: str, workspace: Workspace | Path | str | None = None) -> Measured:
    """Measure a version on the evaluation set of its name.

    Args:
        reference: a registered version: ``news@champion``, ``news/3``.
        workspace: as for :func:`registry.load_tokenizer`.

    Raises:
        InvalidOption: not a reference to a registered version.
        UnknownVersion: there is no such version.
        UnknownEvaluationSet: the name has no set, or its documents are not here.
        RegistryUnreachable: MLflow does not answer.
    """
    parsed = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    return evaluate_version(registry, resolve(registry, parsed))


def evaluate_version(registry: Registry, version: ResolvedVersion) -> Measured:
    """Measure a version on its evaluation set and store the metrics.

    Raises:
        UnknownEvaluationSet: the name has no set, or its documents are not here.
    """
    current_set = evaluation_set_of(registry, version.name)
    set_row = registry.catalogue.evaluation_set(version.name)
    assert set_row is not None
    return _measure(registry, version, current_set, set_row)


def versions_with_aliases(registry: Registry, name: str) -> list[ResolvedVersion]:
    """Return the versions of a name that have an alias, by number."""
    numbers = set(registry.tracker.aliases(name).get(name, {}).values())
    return [
        ResolvedVersion.of(version)
        for version in registry.tracker.versions(name)
        if version.number in numbers
    ]


def measure_anew(registry: Registry, name: str) -> list[Measured]:
    """Measure all versions with an alias; raises as `evaluate_version`."""
    return [
        evaluate_version(registry, version) for version in versions_with_aliases(registry, name)
    ]


def change_set(
    registry: Registry,
    name: str,
    made: EvaluationSet,
    documents: dict[str, list[bytes]],
    *,
    by: str,
    reason: str,
) -> NamedSet:
    """Give a name another evaluation set; returns the current set afterwards."""
    keep_set(registry.workspace, made, documents)
    replaced = registry.catalogue.evaluation_set(name)
    set_row = registry.catalogue.give_evaluation_set(
        name, made.digest, instead_of=replaced.number if replaced else 0, by=by, reason=reason
    )
    if set_row.digest == made.digest:
        with suppress(RegistryError):  # only informs users of MLflow
            registry.tracker.describe_name(name, str(made))
    return set_row


def robustness_on_set(registry: Registry, measured: Measured) -> list[tuple[Any, ...]]:
    """Return the robustness of a version on its set as rows of `robustness_table`.

    Uses the figures of the training if they are of this set, else measures. Empty if it cannot be
    measured, see `may_be_perturbed`.
    """
    record = evaluation_of(registry, measured.version) or {}
    if record.get("robustness") and (record.get("set") or {}).get("digest") == measured.made.digest:
        return robustness_table(record)
    tokenizer = load_version(registry, measured.version)
    if not may_be_perturbed(tokenizer):
        return []
    texts = texts_of(registry.workspace, measured.made)
    documents = [document for text in texts for document in text.documents]
    languages = robustness_by_language(tokenizer, {}, texts)
    return robustness_table(
        {
            "robustness": measure_robustness(tokenizer, {}, documents).as_record(),
            "robustness_by_language": {
                key: figures.as_record() for key, figures in languages.items()
            },
        }
    )


def _measure(
    registry: Registry, version: ResolvedVersion, made: EvaluationSet, named: NamedSet
) -> Measured:
    measurement = measured_on(registry, version, made)
    row = registry.catalogue.find_version(version.name, version.digest)
    if row is not None and row.measured_on != made.digest:
        metrics = metrics_on(measurement, made)
        if version.mlflow_run_id:
            registry.tracker.runs.add_metrics(
                version.mlflow_run_id, metrics, measurement.vocab_size, named.number
            )
            tag = {"evaluation_set": made.digest[:8]}
            registry.tracker.tag_version(version.name, version.number, tag)
        registry.catalogue.add_metrics(
            version.name,
            version.digest,
            metrics,
            step=measurement.vocab_size,
            measured_on=made.digest,
            without=depends_on_text,
        )
    return Measured(version, made, measurement)
