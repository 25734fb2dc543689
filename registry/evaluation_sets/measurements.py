"""Measurements of versions on an evaluation set, and changes between versions.

Each version is measured once per set, so figures of two versions are always on the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.evaluation_sets.evaluation_set import FORMAT, EvaluationSet
from bpeline.registry.evaluation_sets.kept_sets import (
    read_documents,
)
from bpeline.registry.loading import load_version
from bpeline.registry.workspace import read_record, write_record
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation import (
    ALL,
    SHOWN_PER_SLICE,
    SPEEDS,
    Curve,
    EvaluationText,
    Measurement,
    Slice,
    distinct_parts,
    evaluate_texts,
    of_slice,
    slices_of,
    token_changes,
)

if TYPE_CHECKING:
    from bpeline.registry.loading import ResolvedVersion
    from bpeline.registry.opening import Registry
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.evaluation import Change, Evaluation, Measured


@dataclass(frozen=True, slots=True, eq=False)
class SetMeasurement:
    """The measurement of one version on a set.

    Attributes:
        digest, vocab_size: of the tokenizer.
        tokens: name of the text → number of tokens, int64 ``[documents]``.
    """

    set_digest: str
    digest: str
    vocab_size: int
    slices: Mapping[str, Measurement]
    tokens: Mapping[str, NDArray[np.int64]]

    def change_from(self, before: SetMeasurement, part: Slice) -> Change:
        """Return the change of the tokens of a slice from another version."""
        first, second = (
            np.concatenate([measurement.tokens[text] for text in part.texts])
            for measurement in (before, self)
        )
        return token_changes(first, [second])[0]

    def as_record(self) -> dict[str, Any]:
        return {
            "set": self.set_digest,
            "tokenizer": self.digest,
            "vocab_size": self.vocab_size,
            "slices": {
                name: {
                    "metrics": dict(measurement.metrics),
                    "curve": [list(point) for point in measurement.curve],
                    "merge_gain": [list(point) for point in measurement.merge_gain],
                }
                for name, measurement in self.slices.items()
            },
            "tokens": {name: counts.tolist() for name, counts in self.tokens.items()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SetMeasurement:
        """Read a record made by `as_record`; raises various errors if not valid."""
        return cls(
            record["set"],
            record["tokenizer"],
            int(record["vocab_size"]),
            {
                name: Measurement(
                    values["metrics"],
                    Curve((int(size), float(value)) for size, value in values["curve"]),
                    Curve((int(size), float(value)) for size, value in values["merge_gain"]),
                )
                for name, values in record["slices"].items()
            },
            {name: np.array(counts, np.int64) for name, counts in record["tokens"].items()},
        )


def changes_from(before: SetMeasurement, others: Sequence[SetMeasurement]) -> list[Change]:
    """Return the change of all tokens from one version to each of the others."""
    first, *after = (
        np.concatenate([measurement.tokens[text] for text in before.tokens])
        for measurement in (before, *others)
    )
    return token_changes(first, after)


def metrics_on(found: SetMeasurement, made: EvaluationSet) -> dict[str, float]:
    """Return a measurement as flat metrics: all figures of ``all``, some per slice."""
    metrics = dict(found.slices[ALL].metrics)
    for part in distinct_parts(parts_of(made))[1:]:
        measured = found.slices[part.name].metrics
        metrics |= {of_slice(name, part.name): measured[name] for name in SHOWN_PER_SLICE}
    return metrics


def parts_of(made: EvaluationSet) -> tuple[Slice, ...]:
    """Return the slices of a set: ``all``, its texts, its labels."""
    return slices_of(
        [EvaluationText(text.name, (), text.language, text.domain) for text in made.texts]
    )


def texts_of(workspace: Workspace, made: EvaluationSet) -> list[EvaluationText]:
    """Return the texts of a set with their documents, for measuring."""
    documents = read_documents(workspace, made)
    return [
        EvaluationText(text.name, documents[text.name], text.language, text.domain)
        for text in made.texts
    ]


def measured_on(
    registry: Registry, version: ResolvedVersion, made: EvaluationSet
) -> SetMeasurement:
    """Return the measurement of a version on a set; measures it if needed.

    Raises:
        CorruptFile: the documents or the version's files are missing or damaged.
    """
    workspace = registry.workspace
    stored = kept_measurement(workspace, made, version.digest)
    if stored is not None:
        return stored
    tokenizer = load_version(registry, version)
    texts = texts_of(workspace, made)
    evaluation, measured = evaluate_texts(tokenizer, {}, texts, made.parallel)
    (measurement,) = measurements_of(
        evaluation, measured, made, {"": (version.digest, tokenizer.vocab_size)}
    )
    keep_measurement(workspace, measurement)
    return measurement


def kept_measurement(
    workspace: Workspace, made: EvaluationSet, digest: str
) -> SetMeasurement | None:
    """Return a stored measurement; None if missing or damaged."""
    try:
        record = read_record(workspace.measured_on(made.digest, digest), FORMAT)
        return SetMeasurement.from_record(record)
    except (CorruptFile, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def measurements_of(
    evaluation: Evaluation,
    measured: Mapping[str, Measured],
    made: EvaluationSet,
    which: Mapping[str, tuple[str, int]],
) -> tuple[SetMeasurement, ...]:
    """Return the measurements of all tokenizers in an evaluation of a set's texts.

    Args:
        measured: by label, from `evaluate_texts`.
        which: label → digest and vocab size.
    """
    ends = np.cumsum([text.documents for text in made.texts])[:-1]
    measurements = []
    for label, (digest, vocab_size) in which.items():
        slices = evaluation.opponents[label].slices if label else evaluation.slices
        slices = {name: _without_speed(measurement) for name, measurement in slices.items()}
        parts = np.split(measured[label].document_tokens, ends)
        tokens = {text.name: part for text, part in zip(made.texts, parts, strict=True)}
        measurements.append(SetMeasurement(made.digest, digest, vocab_size, slices, tokens))
    return tuple(measurements)


def _without_speed(one: Measurement) -> Measurement:
    """Drop speeds, which depend on the machine."""
    metrics = {name: value for name, value in one.metrics.items() if name not in SPEEDS}
    return replace(one, metrics=metrics)


def keep_measurement(workspace: Workspace, found: SetMeasurement) -> None:
    """Store a measurement unless one is stored already; only locally, as it can be remade."""
    path = workspace.measured_on(found.set_digest, found.digest)
    try:
        read_record(path, FORMAT)
    except CorruptFile:
        write_record(path, {**found.as_record(), "format": FORMAT})
