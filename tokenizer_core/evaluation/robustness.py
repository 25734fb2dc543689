"""What a tokenizer makes of perturbed documents: more tokens, and other boundaries between them.

Every kind of `PERTURBATIONS` is applied to the same documents, and all tokenizers encode the
result. Definitions: docs/evaluation.md.
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

MOST_BYTES = 1 << 19  # of documents that are perturbed; of more text a sample is
MOST_DOCUMENTS = 2_000
LEAST_OF_LANGUAGE = 1 << 15  # bytes; languages share `MOST_BYTES`, and each has at least so many

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the ends of its interval.

    The 95 % percentile interval by resampling documents; None where fewer than `FEWEST_RESAMPLED`
    of them were changed.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a kind did to the documents."""

    family: str
    rate: float
    changes: int  # edits
    documents: int  # how many have one
    bytes: int  # this and the next: of all documents afterwards
    chars: int


@dataclass(frozen=True, slots=True)
class Effect:
    """What a tokenizer makes of that. T, B, C: tokens, bytes, code points; ′ of perturbed text.

    Attributes:
        tokens: T′.
        inflation: T′ / T − 1.
        inflation_per_byte, inflation_per_char: (T′ / B′) / (T / B) − 1, and with C; None where
            nothing is left of the documents.
        tokens_per_change: (T′ − T) / changes.
        boundaries: boundaries between tokens in the documents as they were, at places that are
            still there.
        stability: the share of these that are boundaries still; None where there are none.
        agreement: of all places that are still there and where a token ends before or afterwards,
            the share where one does both times; None where there are none.
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
    """The kinds of a family that changed something, together."""

    inflation: Estimate  # the mean of theirs; the next two: over their boundaries together
    stability: Estimate | None
    agreement: Estimate | None


@dataclass(frozen=True, slots=True)
class Encoded:
    """One tokenizer on all perturbations that changed something."""

    tokens: int  # of the documents as they are
    kinds: Mapping[str, Effect]
    families: Mapping[str, FamilyEffect]

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of families by the names of metrics."""
        return {
            f"robustness/{family}_{figure}": estimate.value
            for family, effect in self.families.items()
            for figure in ROBUSTNESS_FIGURES
            if (estimate := getattr(effect, figure)) is not None
        }


@dataclass(frozen=True, slots=True)
class Robustness:
    """What was perturbed and what came of it.

    Figures are comparable only with equal ``edition``, ``digest``, ``seed`` and ``unicode``.

    Attributes:
        differences: by label of another tokenizer and by family, the inflation of the one evaluated
            less that of the other, in pairs; below 0 the one evaluated is the more robust.
    """

    edition: int  # of the table of kinds
    digest: str  # of the documents that were perturbed
    seed: int  # of the random choices
    unicode: str  # the version of Unicode that says what a letter is
    documents: int  # this and the next two: of the documents that were perturbed, as they are
    bytes: int
    chars: int
    applied: Mapping[str, Applied]  # by kind, without `not_applied`
    not_applied: tuple[str, ...]  # kinds that found nothing to change
    tokenizers: Mapping[str, Encoded]  # by label; "" is the one evaluated
    differences: Mapping[str, Mapping[str, Estimate]]

    def as_record(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self) | {"not_applied": list(self.not_applied), "confidence": CONFIDENCE}


def may_be_perturbed(tokenizer: Tokenizer) -> bool:
    """Whether robustness can be measured, and in seconds.

    Not of split patterns without a kernel, which would take minutes; nor of imported tokenizers
    that change the text before they encode it, whose tokens are no pieces of it.
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

    Special tokens in the documents are ordinary text. Of more than ``most_bytes`` or
    `MOST_DOCUMENTS`, a sample is perturbed that depends on what the documents hold and not on their
    order: by digest, until either is reached; of a longer document, the beginning.

    Args:
        others: what to compare with, by label; not "".
        documents: UTF-8; read once. Empty ones are passed over.
        seed: of the random choices.
        most_bytes: of documents that are perturbed.

    Raises:
        EmptyCorpus: the documents hold no text, or no word where only words are encoded.
        InvalidUtf8: a document is not UTF-8.
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
        found = {kind.name: one for kind, one in done if one is not None}
    applied = {name: one for name, (one, _) in found.items()}
    size = TextSize(
        text.documents, text.data.size - text.documents, len(text.points) - text.documents
    )
    # Of each tokenizer the tokens of each document, then the counts of each kind.
    values = [
        np.concatenate((one.tokens[None], *(counts[place] for _, counts in found.values())))
        for place, one in enumerate(contestants.values())
    ]
    drawn = np.split(resampled_sums(np.concatenate(values).T), len(values), axis=1)
    judged = {
        label: _Judged(one, sums, applied)
        for label, one, sums in zip(contestants, values, drawn, strict=True)
    }
    mine = judged.pop("")
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
        tokenizers={"": mine.encoded(size)} | {k: one.encoded(size) for k, one in judged.items()},
        differences={label: mine.less(other) for label, other in judged.items()},
    )


def robustness_by_language(
    tokenizer: Tokenizer, others: Mapping[str, Tokenizer], texts: Sequence[EvaluationText]
) -> dict[str, Robustness]:
    """The same of every language that has enough documents for an interval.

    Of texts in one language, or in none that is named, nothing: that is said of all documents.

    Args:
        others: see `measure_robustness`.
        texts: whose documents can be read several times.

    Raises:
        InvalidUtf8: a document is not UTF-8.
    """
    documents: dict[str | None, list[bytes]] = {}
    for text in texts:
        documents.setdefault(text.language, []).extend(filter(None, text.documents))
    enough = {
        language: some
        for language, some in documents.items()
        if language is not None and len(some) >= FEWEST_RESAMPLED
    }
    if len(documents) < 2 or not enough:
        return {}
    most_bytes = max(MOST_BYTES // len(enough), LEAST_OF_LANGUAGE)
    found = {}
    for language, some in enough.items():
        with suppress(EmptyCorpus):  # no word in what is perturbed
            found[language] = measure_robustness(tokenizer, others, some, most_bytes=most_bytes)
    return found


def _sample(documents: Iterable[bytes], most_bytes: int) -> tuple[list[bytes], str]:
    """Documents in the order of their digests, as many as are perturbed; and a digest of them."""
    heap: list[tuple[int, bytes]] = []  # the greatest digest first
    size = 0
    for document in (_beginning(one, most_bytes) for one in documents):
        if document:
            digest = int.from_bytes(hashlib.sha256(document).digest(), "big")
            heapq.heappush(heap, (-digest, document))
            size += len(document)
        while heap and (size - len(heap[0][1]) >= most_bytes or len(heap) > MOST_DOCUMENTS):
            size -= len(heapq.heappop(heap)[1])
    taken = [document for _, document in sorted(heap, reverse=True)]
    if not taken:
        raise _nothing_to_perturb()
    for document in taken:
        refuse_invalid_utf8(Text.of(document))
    return taken, digest_of_bytes(*(hashlib.sha256(one).digest() for one in taken))


def _beginning(document: bytes, most_bytes: int) -> bytes:
    """No more of a document than is ever perturbed, cut before a character."""
    end = most_bytes
    while end < len(document) and document[end] & 0xC0 == 0x80 and end > most_bytes - 4:
        end -= 1
    return document[:end]


def _nothing_to_perturb() -> EmptyCorpus:
    return EmptyCorpus(
        "there is no text to perturb",
        "at least one document with a word",
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
    """One tokenizer, and what it made of the documents perturbed in one way after another."""

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
        """What it makes of the documents after edits.

        Returns:
            int64 ``[4, documents]``: tokens; boundaries before at places that are still there;
            those of them that are boundaries still; and places that are either.
        """
        tokens, bounds = self._encode(edited.data, edited.ends)
        # No token reaches over the ends of a document, even where none of its own ends there.
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
        """Tokens of each document; and of each byte, whether a token of it ends before it."""
        text = Text.of(data.tobytes())
        spans = np.stack((_begins(ends), ends), axis=1)
        alone = np.full(len(spans), -1, np.int64)
        bounds = np.zeros(len(data), np.bool_)
        words = self._tokenizer.words
        if words is not None:  # whose tokens need not be pieces of the text
            ids, edges = words.encode(text, spans, alone)
            places = words.placed(text, spans, alone).places
            bounds[places[places[:, 0] < places[:, 1], 1]] = True
            return np.diff(edges, prepend=0), bounds
        ids, edges = self._tokenizer.encoder.encode(text, spans, alone)
        steps = self._lengths[ids]
        firsts = edges[:-1]  # of each document but the first: there a NUL is passed
        np.add.at(steps, firsts[firsts < len(ids)], 1)
        bounds[np.cumsum(steps)] = True
        return np.diff(edges, prepend=0), bounds


def _begins(ends: Places) -> Places:
    return np.append(0, ends[:-1] + 1)


class _Judged:
    """The figures of one tokenizer, from sums over documents and from sums drawn again."""

    def __init__(
        self, values: _Counts, drawn: NDArray[np.float64], applied: Mapping[str, Applied]
    ) -> None:
        self._applied, self._kinds, self._documents = applied, list(applied), values.shape[1]
        # The sums on all documents in the first row, below them the replicates.
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
        """How much less the inflation of each family is than another tokenizer's, if negative."""
        return {
            family: self._estimate(self._inflation(columns) - other._inflation(columns), columns)
            for family, columns in self._families().items()
        }

    def _families(self) -> dict[str, list[int]]:
        """Columns of the kinds of each family of which some changed something."""
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
        """The boundaries kept as a share of some places."""
        kept, places = (one[:, columns].sum(axis=1) for one in (self._kept, of))
        return self._estimate(_ratios(kept, places), columns) if places[0] else None

    def _estimate(self, ratios: NDArray[np.float64], columns: Sequence[int]) -> Estimate:
        """The value in the first row, and an interval from the others that are known."""
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
    """NaN where the denominator is 0: a replicate without it says nothing."""
    ratios = np.full(len(numerators), np.nan)
    np.divide(numerators, denominators, out=ratios, where=denominators > 0)
    return ratios


def _change(after: int, before: int) -> float | None:
    return after / before - 1 if before else None
