"""A tokenizer measured on named texts, slice by slice, beside others.

A slice is one text, or all texts of one language or domain; ``all`` is everything.
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
    """One named text to measure on; texts with the same label also make a slice."""

    name: str
    documents: Iterable[bytes]  # UTF-8; read once
    language: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the texts, by their names."""

    name: str  # ``all``, a text's name, ``language:de`` or ``domain:news``
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Tokens of the tokenizer evaluated, against those of another on the same documents.

    Attributes:
        value: T / T_other − 1; below 0 the one evaluated compresses better.
        mean_ratio: the mean over documents of T / T_other (Dagan et al. 2024, normalised
            sequence length); 1 + ``value`` is the same of the whole slice.
        documents: how many were resampled.
        intervals: confidence → (low, high) of ``value``, by resampling documents in pairs; empty
            below `FEWEST_RESAMPLED` documents.
    """

    value: float
    mean_ratio: float
    documents: int
    intervals: Mapping[float, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One tokenizer on one slice."""

    metrics: Mapping[str, float]
    curve: Curve
    merge_gain: Curve


@dataclass(frozen=True, slots=True)
class Opponent:
    """Another tokenizer on the same documents."""

    digest: str
    vocab_size: int
    pattern: str  # name or regex of its split pattern
    normalizer: str  # this and remarks: see `TokenizerSpec`
    remarks: tuple[str, ...]
    slices: Mapping[str, Measurement]
    changes: Mapping[str, Change]  # from it to the tokenizer evaluated, by slice


@dataclass(frozen=True, slots=True)
class Parity:
    """Inequality of the costs c_l = tokens / bytes of several slices.

    Attributes:
        gini: Σᵢ Σⱼ |cᵢ − cⱼ| / (2 n² μ); 0 is equal (Foroutan, Meister et al. 2025).
        max_over_min: the dearest slice over the cheapest.
        dearest, cheapest: which these are.
    """

    gini: float
    max_over_min: float
    dearest: str
    cheapest: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the suite found.

    Attributes:
        report: of all texts together.
        parts: the slices, ``all`` first.
        slices: what was measured, by slice.
        opponents: the others, by label.
        parity: how equally languages are treated; None below two of them.
        premiums: language → T_l / T of the cheapest, on parallel text alone (Petrov et al. 2023).
        divergences: (language, language) → Jensen–Shannon divergence of their tokens, in bits
            (Limisiewicz 2023 reads it as the overlap of languages).
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
        """What a notebook shows: every slice, and its curve."""
        return slices_shown({part.name: self.slices[part.name] for part in self.distinct_parts})

    @property
    def distinct_parts(self) -> list[Slice]:
        """The slices without those that are another one again, ``all`` first."""
        return distinct_parts(self.parts)


def evaluate_texts(
    tokenizer: Tokenizer,
    others: Mapping[str, Tokenizer],
    texts: Sequence[EvaluationText],
    parallel: bool = False,
) -> tuple[Evaluation, dict[str, Measured]]:
    """Measure a tokenizer and others on texts, each read once.

    Args:
        others: what to compare with, by label.
        texts: at least one; names differ.
        parallel: the texts of all languages say the same, so tokens compare without bytes.

    Returns:
        The figures; and what was measured on all texts, by label, that of ``tokenizer`` under "".

    Raises:
        EmptyCorpus: a text without a word.
        InvalidUtf8: a document is not UTF-8.
    """
    contestants = {label: _Contestant(one) for label, one in {"": tokenizer, **others}.items()}
    for text in texts:
        measured = measure([one.tokenizer for one in contestants.values()], text.documents)
        for contestant, found in zip(contestants.values(), measured, strict=True):
            contestant.take(text.name, found)
    parts = slices_of(texts)
    on_texts = {  # the same texts are looked at once
        names: {label: one.on(names) for label, one in contestants.items()}
        for names in dict.fromkeys(part.texts for part in parts)
    }
    by_slice = {part.name: on_texts[part.texts] for part in parts}
    slices = {label: _measurements(by_slice, label) for label in contestants}
    changes = {
        names: {
            label: token_changes(one[0].document_tokens, [found[""][0].document_tokens])[0]
            for label, one in found.items()
            if label
        }
        for names, found in on_texts.items()
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
    languages = {language: added(found) for language, found in of_language.items()}
    used = {language: (found.occurrences, found.tokens) for language, found in languages.items()}
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
    return evaluation, {label: found[0] for label, found in by_slice[ALL].items()}


def slices_shown(slices: Mapping[str, Measurement], caption: str = "") -> str:
    """What a notebook shows of slices: a row for each, and their curves."""
    shown = ("evaluated/documents", "evaluated/bytes", *SHOWN_PER_SLICE)
    rows = [
        (name, *("" if key not in one.metrics else f"{one.metrics[key]:,.6g}" for key in shown))
        for name, one in slices.items()
    ]
    drawn = curves_in_notebook({name: one.curve for name, one in slices.items()})
    return f"{Table(('', *shown), rows).html(caption)}{drawn}"


def slices_of(texts: Sequence[EvaluationText]) -> tuple[Slice, ...]:
    """Everything, each text, and each label that texts have."""
    found = [Slice(ALL, tuple(text.name for text in texts))]
    found += [Slice(text.name, (text.name,)) for text in texts]
    for kind in LABELS:
        for label in dict.fromkeys(getattr(text, kind) for text in texts):
            if label is not None:
                names = tuple(text.name for text in texts if getattr(text, kind) == label)
                found.append(Slice(f"{kind}:{label}", names))
    return tuple(found)


def distinct_parts(parts: Sequence[Slice]) -> list[Slice]:
    """Slices without those that are another one again, ``all`` first."""
    first = {frozenset(part.texts): part for part in reversed(parts)}
    return [part for part in parts if first[frozenset(part.texts)] is part]


def gini_of_texts(parts: Sequence[Slice], measurements: Mapping[str, Measurement]) -> float | None:
    """How unequally texts are treated, by the tokens per byte of each; None below two of them."""
    texts = [part for part in distinct_parts(parts)[1:] if len(part.texts) == 1]
    costs = {one.name: 1 / measurements[one.name].metrics[BYTES_PER_TOKEN] for one in texts}
    return parity(costs).gini if len(costs) > 1 else None


def token_changes(first: NDArray[np.int64], others: Sequence[NDArray[np.int64]]) -> list[Change]:
    """From the tokens of each document by one tokenizer to those by each of several others."""
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
    """Compare the costs of slices.

    Bytes per character differ by script, so costs of different scripts are comparable only
    between tokenizers, or on parallel text.

    Args:
        costs: tokens per byte by slice, at least one, all above 0.
    """
    ordered = sorted(costs, key=costs.__getitem__)
    values = [costs[label] for label in ordered]
    number, total = len(values), sum(values)
    # Of sorted values Σᵢ Σⱼ |cᵢ − cⱼ| = 2 Σ (2i − n − 1) cᵢ, i from 1.
    spread = sum((2 * place - number + 1) * value for place, value in enumerate(values))
    return Parity(spread / (number * total), values[-1] / values[0], ordered[-1], ordered[0])


class _Contestant:
    """One tokenizer, and what it made of every text in turn."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocab = vocab_figures(tokenizer)
        self.measured: dict[str, Measured] = {}
        self._gains: dict[str, NDArray[np.int64] | None] = {}

    def take(self, text: str, measured: Measured) -> None:
        self.measured[text] = measured
        self._gains[text] = gains_on(self.tokenizer, measured.words)

    def on(self, texts: Sequence[str]) -> tuple[Measured, CompressionReport]:
        """What it made of some texts together, and the figures of that."""
        measured = added([self.measured[text] for text in texts])
        known = [gains for text in texts if (gains := self._gains[text]) is not None]
        gains = np.sum(known, axis=0) if known else None
        return measured, report(self.tokenizer, measured, self.vocab, gains)


def _measurements(
    by_slice: Mapping[str, Mapping[str, tuple[Measured, CompressionReport]]], label: str
) -> dict[str, Measurement]:
    reports = {name: found[label][1] for name, found in by_slice.items()}
    return {
        name: Measurement(one.metrics, one.curve, one.merge_gain) for name, one in reports.items()
    }


def _parity(languages: Mapping[str, Measured], parallel: bool) -> Parity | None:
    if len(languages) < 2:
        return None
    sizes = {language: 1 if parallel else one.text.bytes for language, one in languages.items()}
    return parity({language: one.tokens / sizes[language] for language, one in languages.items()})


def _premiums(languages: Mapping[str, Measured]) -> dict[str, float]:
    cheapest = min((found.tokens for found in languages.values()), default=1)
    return {language: found.tokens / cheapest for language, found in languages.items()}
