"""Robustness of tokenizers: more tokens, and other boundaries, in perturbed text.

Every kind of `PERTURBATIONS` is applied to the same documents, and all tokenizers encode the
result. For definitions see docs/evaluation.md.
"""

from __future__ import annotations

import hashlib
import heapq
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation.measuring import (
    TextSize,
    percentile_interval,
    resampled_sums,
)
from bpeline.tokenizer_core.evaluation.metric_names import (
    CONFIDENCE,
    FEWEST_RESAMPLED,
    ROBUSTNESS_FIGURES,
)
from bpeline.tokenizer_core.evaluation.perturbations import (
    EDITION,
    FAMILIES,
    PERTURBATIONS,
    CharacterText,
    EditedText,
    Mask,
    Perturbation,
    Places,
)
from bpeline.tokenizer_core.evaluation.suite import EvaluationText
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.text import Text, refuse_invalid_utf8
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_BYTES = 1 << 19  # of perturbed documents; larger texts are sampled
MOST_DOCUMENTS = 2_000
LEAST_OF_LANGUAGE = 1 << 15  # bytes per language, where languages share `MOST_BYTES`

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % bootstrap interval, None if too few documents changed."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Applied:
    """The changes of one kind to the documents."""

    family: str
    rate: float
    changes: int  # number of edits
    documents: int  # number of changed documents
    bytes: int  # this and the next: of all documents after the edits
    chars: int


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one kind on a tokenizer.

    T, B, C: tokens, bytes, code points; ′: of perturbed text.

    Attributes:
        tokens: T′.
        inflation: T′ / T − 1.
        inflation_per_byte, inflation_per_char: (T′ / B′) / (T / B) − 1, and with C; None if no text
            is left.
        tokens_per_change: (T′ − T) / changes.
        boundaries: token boundaries of the original documents whose positions still exist.
        stability: the share of these that are still boundaries; None without any.
        agreement: of all existing positions with a boundary before or after, the share with both;
            None without any.
    """

    tokens: int
    inflation: Estimate
    inflation_per_byte: float | None
    inflation_per_char: float | None
    tokens_per_change: float
    boundaries: int
    stability: Estimate | None
    agreement: Estimate | None


@dataclass(frozen=True, slots=True)
class FamilyEffect:
    """The combined effect of the kinds of a family that changed something."""

    inflation: Estimate  # mean over the kinds; the next two: over all their boundaries
    stability: Estimate | None
    agreement: Estimate | None


@dataclass(frozen=True, slots=True)
class Encoded:
    """One tokenizer on all perturbations that changed something."""

    tokens: int  # of the original documents
    kinds: Mapping[str, Effect]
    families: Mapping[str, FamilyEffect]

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of families by metric name."""
        return {
            f"robustness/{family}_{figure}": estimate.value
            for family, effect in self.families.items()
            for figure in ROBUSTNESS_FIGURES
            if (estimate := getattr(effect, figure)) is not None
        }


@dataclass(frozen=True, slots=True)
class Robustness:
    """Result of `measure_robustness`.

    Figures are comparable only if ``edition``, ``digest``, ``seed`` and ``unicode`` are equal.

    Attributes:
        differences: by label of another tokenizer and by family, the inflation of the evaluated one
            minus that of the other, in pairs; negative if the evaluated one is more robust.
    """

    edition: int  # of `PERTURBATIONS`
    digest: str  # of the perturbed documents
    seed: int  # of the random choices
    unicode: str  # version of Unicode, which defines letters
    documents: int  # this and the next two: of the perturbed documents before the edits
    bytes: int
    chars: int
    applied: Mapping[str, Applied]  # by kind, without `not_applied`
    not_applied: tuple[str, ...]  # kinds that changed nothing
    tokenizers: Mapping[str, Encoded]  # by label; "" is the evaluated one
    differences: Mapping[str, Mapping[str, Estimate]]

    def as_record(self) -> dict[str, Any]:
        return asdict(self) | {"not_applied": list(self.not_applied), "confidence": CONFIDENCE}


def may_be_perturbed(tokenizer: Tokenizer) -> bool:
    """Whether robustness can be measured in seconds.

    False for split patterns without a kernel (minutes), and for imported tokenizers that normalize
    text, whose tokens have no positions in it.
    """
    pieces = tokenizer.words is not None or tokenizer.merges_words
    return tokenizer.pattern.has_kernel and pieces


def measure_robustness(
    tokenizer: Tokenizer,
    others: Mapping[str, Tokenizer],
    documents: Iterable[bytes],
    seed: int = 0,
    most_bytes: int = MOST_BYTES,
) -> Robustness:
    """Perturb documents in every way, and encode them with every tokenizer.

    Special tokens in the documents are ordinary text. A text above ``most_bytes`` or
    `MOST_DOCUMENTS` is sampled by the digests of its documents, independent of their order; of a
    longer document only the beginning is used.

    Raises:
        EmptyCorpus: no text, or no word for algorithms that encode only words.
    """
    chosen, digest = _sample(documents, most_bytes)
    text = CharacterText(chosen)
    contestants = {
        label: _Contestant(one, text) for label, one in {"": tokenizer, **others}.items()
    }

    def perturb(kind: Perturbation) -> tuple[Applied, list[_Counts]] | None:
        edited, edits = kind.apply(text, seed)
        if not len(edits):
            return None
        counts = [one.counts(edited) for one in contestants.values()]
        return _applied(kind, text, edited, edits.begins), counts

    with ThreadPoolExecutor(thread_count(None)) as pool:
        done = zip(PERTURBATIONS, pool.map(perturb, PERTURBATIONS), strict=True)
        results = {kind.name: one for kind, one in done if one is not None}
    applied = {name: one for name, (one, _) in results.items()}
    size = TextSize(
        text.documents, text.data.size - text.documents, len(text.points) - text.documents
    )
    # Per tokenizer: the tokens of each document, then the counts of each kind.
    values = [
        np.concatenate((one.tokens[None], *(counts[place] for _, counts in results.values())))
        for place, one in enumerate(contestants.values())
    ]
    resampled = np.split(resampled_sums(np.concatenate(values).T), len(values), axis=1)
    judged = {
        label: _Judged(one, sums, applied)
        for label, one, sums in zip(contestants, values, resampled, strict=True)
    }
    evaluated = judged.pop("")
    return Robustness(
        edition=EDITION,
        digest=digest,
        seed=seed,
        unicode=unicodedata.unidata_version,
        documents=text.documents,
        bytes=size.bytes,
        chars=size.chars,
        applied=applied,
        not_applied=tuple(kind.name for kind in PERTURBATIONS if kind.name not in applied),
        tokenizers={"": evaluated.encoded(size)}
        | {k: one.encoded(size) for k, one in judged.items()},
        differences={label: evaluated.less(other) for label, other in judged.items()},
    )


def robustness_by_language(
    tokenizer: Tokenizer, others: Mapping[str, Tokenizer], texts: Sequence[EvaluationText]
) -> dict[str, Robustness]:
    """Measure robustness for every language with enough documents for an interval.

    Empty if all texts have the same language, or none. Documents must be readable several times.
    """
    documents: dict[str | None, list[bytes]] = {}
    for text in texts:
        documents.setdefault(text.language, []).extend(filter(None, text.documents))
    enough = {
        language: language_documents
        for language, language_documents in documents.items()
        if language is not None and len(language_documents) >= FEWEST_RESAMPLED
    }
    if len(documents) < 2 or not enough:
        return {}
    most_bytes = max(MOST_BYTES // len(enough), LEAST_OF_LANGUAGE)
    results = {}
    for language, language_documents in enough.items():
        with suppress(EmptyCorpus):  # the sample has no word
            results[language] = measure_robustness(
                tokenizer, others, language_documents, most_bytes=most_bytes
            )
    return results


def _sample(documents: Iterable[bytes], most_bytes: int) -> tuple[list[bytes], str]:
    """The sampled documents in the order of their digests, and a digest of them."""
    heap: list[tuple[int, bytes]] = []  # the greatest digest first
    size = 0
    for document in (_beginning(one, most_bytes) for one in documents):
        if document:
            digest = int.from_bytes(hashlib.sha256(document).digest(), "big")
            heapq.heappush(heap, (-digest, document))
            size += len(document)
        while heap and (size - len(heap[0][1]) >= most_bytes or len(heap) > MOST_DOCUMENTS):
            size -= len(heapq.heappop(heap)[1])
    sample = [document for _, document in sorted(heap, reverse=True)]
    if not sample:
        raise _nothing_to_perturb()
    for document in sample:
        refuse_invalid_utf8(Text.of(document))
    return sample, digest_of_bytes(*(hashlib.sha256(one).digest() for one in sample))


def _beginning(document: bytes, most_bytes: int) -> bytes:
    """The first ``most_bytes`` of a document, cut between characters."""
    end = most_bytes
    while end < len(document) and document[end] & 0xC0 == 0x80 and end > most_bytes - 4:
        end -= 1
    return document[:end]


def _nothing_to_perturb() -> EmptyCorpus:
    return EmptyCorpus(
        "there is no text to perturb",
        "expected at least one document with a word",
        "hold out more, or name files to evaluate on",
    )


def _applied(
    kind: Perturbation, text: CharacterText, edited: EditedText, begins: Places
) -> Applied:
    chars = int(((edited.data & 0xC0) != 0x80).sum()) - text.documents
    return Applied(
        family=kind.family,
        rate=kind.rate,
        changes=len(begins),
        documents=int((np.diff(np.searchsorted(begins, text.ends + 1), prepend=0) > 0).sum()),
        bytes=int(edited.data.size) - text.documents,
        chars=chars,
    )


class _Contestant:
    """One tokenizer and its encodings of the perturbed documents."""

    def __init__(self, tokenizer: Tokenizer, text: CharacterText) -> None:
        self._tokenizer, self._text = tokenizer, text
        self._lengths = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
        self._lengths[list(tokenizer.vocab)] = list(map(len, tokenizer.vocab.values()))
        self.tokens, bounds = self._encode(text.data, text.ends)
        if not self.tokens.sum():
            raise _nothing_to_perturb()
        self._inside: Mask = np.ones(len(bounds), np.bool_)
        self._inside[text.ends] = self._inside[_begins(text.ends)] = False
        self._bounds = bounds & self._inside

    def counts(self, edited: EditedText) -> _Counts:
        """Encode the edited documents.

        Returns:
            int64 ``[4, documents]``: tokens; old boundaries at positions that still exist; those
            of them that are still boundaries; positions with an old or a new boundary.
        """
        tokens, bounds = self._encode(edited.data, edited.ends)
        # Documents end tokens, even if no token of theirs ends there.
        bounds[edited.ends] = bounds[_begins(edited.ends)] = True
        now = edited.at_images(bounds)
        before = self._bounds & edited.found
        either = before | (now & edited.found & self._inside)
        return np.stack((tokens, *map(self._by_document, (before, before & now, either))))

    def _by_document(self, mask: Mask) -> NDArray[np.int64]:
        edges = np.searchsorted(np.flatnonzero(mask), self._text.ends)
        return np.diff(edges, prepend=0)

    def _encode(
        self, data: NDArray[np.uint8], ends: Places
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Tokens of each document; and for each byte whether a token ends before it."""
        text = Text.of(data.tobytes())
        spans = np.stack((_begins(ends), ends), axis=1)
        alone = np.full(len(spans), -1, np.int64)
        bounds = np.zeros(len(data), np.bool_)
        words = self._tokenizer.words
        if words is not None:  # tokens of these algorithms need not be pieces of the text
            ids, edges = words.encode(text, spans, alone)
            places = words.placed(text, spans, alone).places
            bounds[places[places[:, 0] < places[:, 1], 1]] = True
            return np.diff(edges, prepend=0), bounds
        ids, edges = self._tokenizer.encoder.encode(text, spans, alone)
        steps = self._lengths[ids]
        firsts = edges[:-1]  # of each document but the first: skips the NUL
        np.add.at(steps, firsts[firsts < len(ids)], 1)
        bounds[np.cumsum(steps)] = True
        return np.diff(edges, prepend=0), bounds


def _begins(ends: Places) -> Places:
    return np.append(0, ends[:-1] + 1)


class _Judged:
    """The figures of one tokenizer, from the sums on all documents and on replicates."""

    def __init__(
        self, values: _Counts, drawn: NDArray[np.float64], applied: Mapping[str, Applied]
    ) -> None:
        self._applied, self._kinds, self._documents = applied, list(applied), values.shape[1]
        # First row: the sums on all documents; other rows: the replicates.
        sums = np.concatenate((values.sum(axis=1)[None].astype(np.float64), drawn))
        self._tokens = sums[:, 0]
        self._perturbed, self._mapped, self._kept, self._either = (
            sums[:, first::4] for first in range(1, 5)
        )

    def encoded(self, size: TextSize) -> Encoded:
        return Encoded(
            tokens=int(self._tokens[0]),
            kinds={kind: self._effect(place, size) for place, kind in enumerate(self._kinds)},
            families={
                family: FamilyEffect(
                    self._estimate(self._inflation(columns), columns),
                    self._share(self._mapped, columns),
                    self._share(self._either, columns),
                )
                for family, columns in self._families().items()
            },
        )

    def less(self, other: _Judged) -> dict[str, Estimate]:
        """The inflation of each family minus that of another tokenizer."""
        return {
            family: self._estimate(self._inflation(columns) - other._inflation(columns), columns)
            for family, columns in self._families().items()
        }

    def _families(self) -> dict[str, list[int]]:
        of = {
            family: [
                place
                for place, kind in enumerate(self._kinds)
                if self._applied[kind].family == family
            ]
            for family in FAMILIES
        }
        return {family: columns for family, columns in of.items() if columns}

    def _effect(self, place: int, size: TextSize) -> Effect:
        applied, tokens = self._applied[self._kinds[place]], int(self._perturbed[0, place])
        before = int(self._tokens[0])
        return Effect(
            tokens=tokens,
            inflation=self._estimate(self._inflation([place]), [place]),
            inflation_per_byte=_change(tokens * size.bytes, before * applied.bytes),
            inflation_per_char=_change(tokens * size.chars, before * applied.chars),
            tokens_per_change=(tokens - before) / applied.changes,
            boundaries=int(self._mapped[0, place]),
            stability=self._share(self._mapped, [place]),
            agreement=self._share(self._either, [place]),
        )

    def _inflation(self, columns: Sequence[int]) -> NDArray[np.float64]:
        total = self._perturbed[:, columns].sum(axis=1)
        return _ratios(total, len(columns) * self._tokens) - 1

    def _share(self, of: NDArray[np.float64], columns: Sequence[int]) -> Estimate | None:
        """The boundaries that stayed, as a share of some positions."""
        kept_boundaries, places = (one[:, columns].sum(axis=1) for one in (self._kept, of))
        return self._estimate(_ratios(kept_boundaries, places), columns) if places[0] else None

    def _estimate(self, ratios: NDArray[np.float64], columns: Sequence[int]) -> Estimate:
        """The value in the first row, with an interval from the other rows."""
        changed = max(self._applied[self._kinds[column]].documents for column in columns)
        value = float(ratios[0])
        if changed < FEWEST_RESAMPLED:
            return Estimate(value, None, None)
        known = ratios[1:][~np.isnan(ratios[1:])]
        interval = percentile_interval(value, known, CONFIDENCE, self._documents)
        return Estimate(value, interval.low, interval.high)


def _ratios(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64]
) -> NDArray[np.float64]:
    """NaN where the denominator is 0: such a replicate has no ratio."""
    ratios = np.full(len(numerators), np.nan)
    np.divide(numerators, denominators, out=ratios, where=denominators > 0)
    return ratios


def _change(after: int, before: int) -> float | None:
    return after / before - 1 if before else None
