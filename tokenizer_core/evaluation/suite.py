"""Evaluation of a tokenizer and its opponents on named texts, slice by slice.

A slice is one text, all texts of a language or domain, or ``all``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.charts import curves_in_notebook
from bpeline.tokenizer_core.evaluation.drift import divergence
from bpeline.tokenizer_core.evaluation.measuring import Measured, added, measure, resampled_changes
from bpeline.tokenizer_core.evaluation.metric_names import (
    ALL,
    BYTES_PER_TOKEN,
    CONFIDENCES,
    FEWEST_RESAMPLED,
    LABELS,
    SHOWN_PER_SLICE,
)
from bpeline.tokenizer_core.evaluation.metrics import (
    CompressionReport,
    Curve,
    gains_on,
    report,
    vocab_figures,
)
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class EvaluationText:
    """A named text to measure on; texts with the same label also form a slice."""

    name: str
    documents: Iterable[bytes]  # UTF-8; read once
    language: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A subset of the texts, by name."""

    name: str  # ``all``, a text's name, ``language:de`` or ``domain:news``
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Change of the number of tokens from another tokenizer to the evaluated one.

    Attributes:
        value: T / T_other − 1; negative if the evaluated one compresses better.
        mean_ratio: mean over documents of T / T_other (normalised sequence length, Dagan et al.
            2024); for the whole slice it is 1 + ``value``.
        documents: number of resampled documents.
        intervals: confidence → (low, high) of ``value``, by resampling documents in pairs; empty
            below `FEWEST_RESAMPLED` documents.
    """

    value: float
    mean_ratio: float
    documents: int
    intervals: Mapping[float, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metrics of one tokenizer on one slice."""

    metrics: Mapping[str, float]
    curve: Curve
    merge_gain: Curve


@dataclass(frozen=True, slots=True)
class Opponent:
    """Another tokenizer on the same documents."""

    digest: str
    vocab_size: int
    pattern: str  # name or regex of its split pattern
    normalizer: str  # this and the next as in `TokenizerSpec`
    remarks: tuple[str, ...]
    slices: Mapping[str, Measurement]
    changes: Mapping[str, Change]  # from it to the evaluated tokenizer, by slice


@dataclass(frozen=True, slots=True)
class Parity:
    """Inequality of the costs c_l = tokens / bytes of several slices.

    Attributes:
        gini: Σᵢ Σⱼ |cᵢ − cⱼ| / (2 n² μ); 0 is equal (Foroutan, Meister et al. 2025).
        max_over_min: the highest cost over the lowest.
        dearest, cheapest: the slices with the highest and the lowest cost.
    """

    gini: float
    max_over_min: float
    dearest: str
    cheapest: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of `evaluate_texts`.

    Attributes:
        report: on all texts together.
        parts: the slices, ``all`` first.
        slices: the measurements by slice.
        opponents: the other tokenizers, by label.
        parity: inequality of languages; None with fewer than two.
        premiums: language → T_l / T of the cheapest; only for parallel text (Petrov et al. 2023).
        divergences: (language, language) → Jensen–Shannon divergence of their tokens in bits, which
            measures the overlap of languages (Limisiewicz 2023).
    """

    report: CompressionReport
    parts: tuple[Slice, ...]
    slices: Mapping[str, Measurement]
    opponents: Mapping[str, Opponent]
    parity: Parity | None
    premiums: Mapping[str, float]
    divergences: Mapping[tuple[str, str], float]

    def __repr__(self) -> str:
        parts = ", ".join(part.name for part in self.distinct_parts)
        return f"<Evaluation: {parts}; {self.report!r}>"

    def _repr_html_(self) -> str:
        return slices_shown({part.name: self.slices[part.name] for part in self.distinct_parts})

    @property
    def distinct_parts(self) -> list[Slice]:
        return distinct_parts(self.parts)


def evaluate_texts(
    tokenizer: Tokenizer,
    others: Mapping[str, Tokenizer],
    texts: Sequence[EvaluationText],
    parallel: bool = False,
) -> tuple[Evaluation, dict[str, Measured]]:
    """Measure a tokenizer and its opponents on texts, each read once.

    Args:
        others: opponents by label.
        texts: at least one, with distinct names.
        parallel: the texts of all languages have the same content, so their tokens are comparable.

    Returns:
        The result, and the measurement on all texts by label; "" is ``tokenizer``.

    Raises:
        EmptyCorpus: a text without a word.
    """
    contestants = {label: _Contestant(one) for label, one in {"": tokenizer, **others}.items()}
    for text in texts:
        measured = measure([one.tokenizer for one in contestants.values()], text.documents)
        for contestant, results in zip(contestants.values(), measured, strict=True):
            contestant.take(text.name, results)
    parts = slices_of(texts)
    on_texts = {  # slices with the same texts share a measurement
        names: {label: one.on(names) for label, one in contestants.items()}
        for names in dict.fromkeys(part.texts for part in parts)
    }
    by_slice = {part.name: on_texts[part.texts] for part in parts}
    slices = {label: _measurements(by_slice, label) for label in contestants}
    changes = {
        names: {
            label: token_changes(one[0].document_tokens, [results[""][0].document_tokens])[0]
            for label, one in results.items()
            if label
        }
        for names, results in on_texts.items()
    }
    opponents = {
        label: Opponent(
            other.digest,
            other.vocab_size,
            other.pattern.title,
            other.spec.normalizer_name,
            other.spec.remarks,
            slices[label],
            {part.name: changes[part.texts][label] for part in parts},
        )
        for label, other in others.items()
    }
    of_language: dict[str, list[Measured]] = {}
    for text in texts:
        if text.language is not None:
            of_language.setdefault(text.language, []).append(contestants[""].measured[text.name])
    languages = {language: added(results) for language, results in of_language.items()}
    used = {
        language: (results.occurrences, results.tokens) for language, results in languages.items()
    }
    evaluation = Evaluation(
        report=by_slice[ALL][""][1],
        parts=parts,
        slices=slices[""],
        opponents=opponents,
        parity=_parity(languages, parallel),
        premiums=_premiums(languages) if parallel else {},
        divergences={
            (one, other): divergence(*used[one], used[other][0])
            for one, other in combinations(used, 2)
        },
    )
    return evaluation, {label: results[0] for label, results in by_slice[ALL].items()}


def slices_shown(slices: Mapping[str, Measurement], caption: str = "") -> str:
    """A table of slices and their curves, for notebooks."""
    shown = ("evaluated/documents", "evaluated/bytes", *SHOWN_PER_SLICE)
    rows = [
        (name, *("" if key not in one.metrics else f"{one.metrics[key]:,.6g}" for key in shown))
        for name, one in slices.items()
    ]
    drawn = curves_in_notebook({name: one.curve for name, one in slices.items()})
    return f"{Table(('', *shown), rows).html(caption)}{drawn}"


def slices_of(texts: Sequence[EvaluationText]) -> tuple[Slice, ...]:
    """All texts, each text, and each label of texts."""
    slices = [Slice(ALL, tuple(text.name for text in texts))]
    slices += [Slice(text.name, (text.name,)) for text in texts]
    for kind in LABELS:
        for label in dict.fromkeys(getattr(text, kind) for text in texts):
            if label is not None:
                names = tuple(text.name for text in texts if getattr(text, kind) == label)
                slices.append(Slice(f"{kind}:{label}", names))
    return tuple(slices)


def distinct_parts(parts: Sequence[Slice]) -> list[Slice]:
    """Drop slices with the same texts as another, ``all`` first."""
    first = {frozenset(part.texts): part for part in reversed(parts)}
    return [part for part in parts if first[frozenset(part.texts)] is part]


def gini_of_texts(parts: Sequence[Slice], measurements: Mapping[str, Measurement]) -> float | None:
    """The Gini coefficient of tokens per byte of texts; None for fewer than two."""
    texts = [part for part in distinct_parts(parts)[1:] if len(part.texts) == 1]
    costs = {one.name: 1 / measurements[one.name].metrics[BYTES_PER_TOKEN] for one in texts}
    return parity(costs).gini if len(costs) > 1 else None


def token_changes(first: NDArray[np.int64], others: Sequence[NDArray[np.int64]]) -> list[Change]:
    """Changes of the tokens per document from one tokenizer to each of several others."""
    filled = first > 0
    documents = int(filled.sum())
    changes = []
    for other, resampled in zip(others, resampled_changes(first, others), strict=True):
        enough = documents >= FEWEST_RESAMPLED
        intervals = (resampled.interval(confidence) for confidence in CONFIDENCES if enough)
        changes.append(
            Change(
                value=resampled.value,
                mean_ratio=float((other[filled] / first[filled]).mean()),
                documents=documents,
                intervals={one.confidence: (one.low, one.high) for one in intervals},
            )
        )
    return changes


def parity(costs: Mapping[str, float]) -> Parity:
    """Compare the positive costs (tokens per byte) of slices.

    Bytes per character differ by script, so costs of different scripts are comparable only between
    tokenizers, or on parallel text.
    """
    ordered = sorted(costs, key=costs.__getitem__)
    values = [costs[label] for label in ordered]
    number, total = len(values), sum(values)
    # For sorted values Σᵢ Σⱼ |cᵢ − cⱼ| = 2 Σ (2i − n − 1) cᵢ, i from 1.
    spread = sum((2 * place - number + 1) * value for place, value in enumerate(values))
    return Parity(spread / (number * total), values[-1] / values[0], ordered[-1], ordered[0])


class _Contestant:
    """One tokenizer and its measurement on every text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocab = vocab_figures(tokenizer)
        self.measured: dict[str, Measured] = {}
        self._gains: dict[str, NDArray[np.int64] | None] = {}

    def take(self, text: str, measured: Measured) -> None:
        self.measured[text] = measured
        self._gains[text] = gains_on(self.tokenizer, measured.words)

    def on(self, texts: Sequence[str]) -> tuple[Measured, CompressionReport]:
        """The measurement and the report on some texts together."""
        measured = added([self.measured[text] for text in texts])
        known_gains = [gains for text in texts if (gains := self._gains[text]) is not None]
        gains = np.sum(known_gains, axis=0) if known_gains else None
        return measured, report(self.tokenizer, measured, self.vocab, gains)


def _measurements(
    by_slice: Mapping[str, Mapping[str, tuple[Measured, CompressionReport]]], label: str
) -> dict[str, Measurement]:
    reports = {name: results[label][1] for name, results in by_slice.items()}
    return {
        name: Measurement(one.metrics, one.curve, one.merge_gain) for name, one in reports.items()
    }


def _parity(languages: Mapping[str, Measured], parallel: bool) -> Parity | None:
    if len(languages) < 2:
        return None
    sizes = {language: 1 if parallel else one.text.bytes for language, one in languages.items()}
    return parity({language: one.tokens / sizes[language] for language, one in languages.items()})


def _premiums(languages: Mapping[str, Measured]) -> dict[str, float]:
    cheapest = min((result.tokens for result in languages.values()), default=1)
    return {language: result.tokens / cheapest for language, result in languages.items()}
