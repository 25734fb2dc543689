"""Versions measured after their training, and the evaluation set of a name changed by command.

A set that changes leaves no version with an alias behind: these are measured anew.
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
    """A version that was measured on the evaluation set of its name.

    Attributes:
        version: which.
        made: the set.
        found: what the version made of it.
    """

    version: ResolvedVersion
    made: EvaluationSet
    found: SetMeasurement

    @property
    def curve(self) -> Curve:
        """(vocab size, bytes per token) of all texts, as if training had stopped there."""
        return self.found.slices[ALL].curve

    def __repr__(self) -> str:
        figure = self.found.slices[ALL].metrics[BYTES_PER_TOKEN]
        return f"<Measured: {self.version}, {figure:.4f} bytes/token on {self.made}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: every slice, and its curve."""
        return slices_shown(self.found.slices, f"{self.version} on {self.made}")


def evaluate(reference: str, workspace: Workspace | Path | str | None = None) -> Measured:
    """Measure a version on the evaluation set of its name.

    Args:
        reference: a registered version: ``news@champion``, ``news/3``.
        workspace: as for :func:`registry.load_tokenizer`.

    Raises:
        InvalidOption: the reference of no registered version.
        UnknownVersion: there is none.
        UnknownEvaluationSet: the name has no set, or not here.
        RegistryUnreachable: MLflow does not answer.
    """
    asked = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    return evaluate_version(registry, resolve(registry, asked))


def evaluate_version(registry: Registry, version: ResolvedVersion) -> Measured:
    """Measure a version on the evaluation set of its name; its metrics are of this set afterwards.

    Raises:
        UnknownEvaluationSet: the name has none, or not here.
        CorruptFile: the set's documents or the version's files are damaged.
        RegistryUnreachable: MLflow does not answer.
    """
    made = evaluation_set_of(registry, version.name)
    named = registry.catalogue.evaluation_set(version.name)
    assert named is not None
    return _measure(registry, version, made, named)


def versions_with_aliases(registry: Registry, name: str) -> list[ResolvedVersion]:
    """The versions of a name that an alias points to, by number.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    numbers = set(registry.tracker.aliases(name).get(name, {}).values())
    return [
        ResolvedVersion.of(one) for one in registry.tracker.versions(name) if one.number in numbers
    ]


def measure_anew(registry: Registry, name: str) -> list[Measured]:
    """Measure every version of a name that an alias points to on the set that it has now.

    Raises:
        UnknownEvaluationSet, CorruptFile, RegistryUnreachable: see `evaluate_version`.
    """
    return [evaluate_version(registry, one) for one in versions_with_aliases(registry, name)]


def change_set(
    registry: Registry,
    name: str,
    made: EvaluationSet,
    documents: dict[str, list[bytes]],
    *,
    by: str,
    reason: str,
) -> NamedSet:
    """Give a name another evaluation set.

    Returns:
        The set it has now; another one than ``made`` when somebody else changed it just now.
    """
    keep_set(registry.workspace, made, documents)
    before = registry.catalogue.evaluation_set(name)
    named = registry.catalogue.give_evaluation_set(
        name, made.digest, instead_of=before.number if before else 0, by=by, reason=reason
    )
    if named.digest == made.digest:
        with suppress(RegistryError):  # a courtesy to who looks at MLflow
            registry.tracker.describe_name(name, str(made))
    return named


def robustness_on_set(registry: Registry, measured: Measured) -> list[tuple[Any, ...]]:
    """Robustness on the set by kind and language, see `robustness_table`.

    As it was found in training, where that was on this set; else it is measured now. Empty where
    it cannot be measured, see `may_be_perturbed`.

    Raises:
        CorruptFile: the set's documents or the version's files are damaged.
        RegistryUnreachable: the version is to be fetched, and MLflow does not answer.
    """
    known = evaluation_of(registry, measured.version) or {}
    if known.get("robustness") and (known.get("set") or {}).get("digest") == measured.made.digest:
        return robustness_table(known)
    tokenizer = load_version(registry, measured.version)
    if not may_be_perturbed(tokenizer):
        return []
    texts = texts_of(registry.workspace, measured.made)
    documents = [document for text in texts for document in text.documents]
    languages = robustness_by_language(tokenizer, {}, texts)
    return robustness_table(
        {
            "robustness": measure_robustness(tokenizer, {}, documents).as_record(),
            "robustness_by_language": {key: one.as_record() for key, one in languages.items()},
        }
    )


def _measure(
    registry: Registry, version: ResolvedVersion, made: EvaluationSet, named: NamedSet
) -> Measured:
    found = measured_on(registry, version, made)
    row = registry.catalogue.find_version(version.name, version.digest)
    if row is not None and row.measured_on != made.digest:
        metrics = metrics_on(found, made)
        if version.mlflow_run_id:
            registry.tracker.runs.add_metrics(
                version.mlflow_run_id, metrics, found.vocab_size, named.number
            )
            tag = {"evaluation_set": made.digest[:8]}
            registry.tracker.tag_version(version.name, version.number, tag)
        registry.catalogue.add_metrics(
            version.name,
            version.digest,
            metrics,
            step=found.vocab_size,
            measured_on=made.digest,
            without=depends_on_text,
        )
    return Measured(version, made, found)
