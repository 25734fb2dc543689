"""What versions made of an evaluation set: measured once each, and compared document by document.

Figures of two versions are of the same documents by construction; whoever sets them side by side
takes them from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.evaluation_sets.evaluation_set import EvaluationSet
from bpeline.registry.evaluation_sets.kept_sets import (
    read_documents,
    read_measured,
    write_measured,
)
from bpeline.registry.loading import load_version
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
    """What one version made of a set.

    Attributes:
        set_digest: which set.
        digest, vocab_size: which tokenizer.
        slices: figures and curves, by slice.
        tokens: int64 ``[documents]`` of each text, by its name.
    """

    set_digest: str
    digest: str
    vocab_size: int
    slices: Mapping[str, Measurement]
    tokens: Mapping[str, NDArray[np.int64]]

    def change_from(self, before: SetMeasurement, part: Slice) -> Change:
        """How the tokens of a slice differ from those of another version.

        Args:
            before: of the same set.
        """
        first, second = (
            np.concatenate([one.tokens[text] for text in part.texts]) for one in (before, self)
        )
        return token_changes(first, [second])[0]

    def as_record(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "set": self.set_digest,
            "tokenizer": self.digest,
            "vocab_size": self.vocab_size,
            "slices": {
                name: {
                    "metrics": dict(one.metrics),
                    "curve": [list(point) for point in one.curve],
                    "merge_gain": [list(point) for point in one.merge_gain],
                }
                for name, one in self.slices.items()
            },
            "tokens": {name: counts.tolist() for name, counts in self.tokens.items()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SetMeasurement:
        """What `as_record` wrote.

        Raises:
            KeyError, TypeError, ValueError, AttributeError, OverflowError: it is no such record.
        """
        return cls(
            record["set"],
            record["tokenizer"],
            int(record["vocab_size"]),
            {
                name: Measurement(
                    one["metrics"],
                    Curve((int(size), float(value)) for size, value in one["curve"]),
                    Curve((int(size), float(value)) for size, value in one["merge_gain"]),
                )
                for name, one in record["slices"].items()
            },
            {name: np.array(counts, np.int64) for name, counts in record["tokens"].items()},
        )


def changes_from(before: SetMeasurement, others: Sequence[SetMeasurement]) -> list[Change]:
    """How the tokens of everything differ from those of one version, for each of the others.

    Args:
        before, others: of the same set.
    """
    first, *after = (
        np.concatenate([one.tokens[text] for text in before.tokens]) for one in (before, *others)
    )
    return token_changes(first, after)


def metrics_on(found: SetMeasurement, made: EvaluationSet) -> dict[str, float]:
    """What a version made of a set as flat metrics: all figures of everything, some of slices."""
    metrics = dict(found.slices[ALL].metrics)
    for part in distinct_parts(parts_of(made))[1:]:
        measured = found.slices[part.name].metrics
        metrics |= {of_slice(name, part.name): measured[name] for name in SHOWN_PER_SLICE}
    return metrics


def parts_of(made: EvaluationSet) -> tuple[Slice, ...]:
    """The slices of a set: ``all``, its texts, its labels."""
    return slices_of([EvaluationText(one.name, (), one.language, one.domain) for one in made.texts])


def texts_of(workspace: Workspace, made: EvaluationSet) -> list[EvaluationText]:
    """The texts of a set with their documents, to measure on.

    Raises:
        CorruptFile: they are not here, or damaged.
    """
    documents = read_documents(workspace, made)
    return [
        EvaluationText(one.name, documents[one.name], one.language, one.domain)
        for one in made.texts
    ]


def measured_on(
    registry: Registry, version: ResolvedVersion, made: EvaluationSet
) -> SetMeasurement:
    """What a version makes of a set; measured now unless it was before.

    Raises:
        CorruptFile: the documents, or the version's files, are missing or damaged.
        RegistryUnreachable: the version is to be fetched, and MLflow does not answer.
    """
    workspace = registry.workspace
    kept = kept_measurement(workspace, made, version.digest)
    if kept is not None:
        return kept
    tokenizer = load_version(registry, version)
    texts = texts_of(workspace, made)
    evaluation, measured = evaluate_texts(tokenizer, {}, texts, made.parallel)
    (found,) = measurements_of(
        evaluation, measured, made, {"": (version.digest, tokenizer.vocab_size)}
    )
    keep_measurement(workspace, found)
    return found


def kept_measurement(
    workspace: Workspace, made: EvaluationSet, digest: str
) -> SetMeasurement | None:
    """What a version made of a set, if it was measured; a damaged record says nothing."""
    kept = read_measured(workspace, made.digest, digest)
    try:
        return None if kept is None else SetMeasurement.from_record(kept)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def measurements_of(
    evaluation: Evaluation,
    measured: Mapping[str, Measured],
    made: EvaluationSet,
    which: Mapping[str, tuple[str, int]],
) -> tuple[SetMeasurement, ...]:
    """What an evaluation of a set's texts says of each tokenizer that took part.

    Args:
        measured: by label, as `evaluate_texts` gave it.
        made: the set whose texts, all and in order, were evaluated.
        which: label → digest and vocab size.
    """
    ends = np.cumsum([text.documents for text in made.texts])[:-1]
    found = []
    for label, (digest, vocab_size) in which.items():
        slices = evaluation.opponents[label].slices if label else evaluation.slices
        slices = {name: _without_speed(one) for name, one in slices.items()}
        parts = np.split(measured[label].document_tokens, ends)
        tokens = {text.name: part for text, part in zip(made.texts, parts, strict=True)}
        found.append(SetMeasurement(made.digest, digest, vocab_size, slices, tokens))
    return tuple(found)


def _without_speed(one: Measurement) -> Measurement:
    """What depends on tokenizer and text alone: how fast this machine was is no part of it."""
    metrics = {name: value for name, value in one.metrics.items() if name not in SPEEDS}
    return replace(one, metrics=metrics)


def keep_measurement(workspace: Workspace, found: SetMeasurement) -> None:
    """Keep what a version made of a set; what was kept first stays, as others have shown it."""
    if read_measured(workspace, found.set_digest, found.digest) is None:
        write_measured(workspace, found.set_digest, found.digest, found.as_record())
