"""Privacy screening of a version: personal data, and tokens of a single document.

A token is *of one document* if its merges occurred only in that document's training words. A
document is text between special tokens or one JSON line; see `registry.tokens.places`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bpeline.registry.records import SUSPICIOUS_METRIC
from bpeline.registry.tokens.places import Places, TrainedOn, of_one_chunk, of_one_document
from bpeline.registry.word_counts import ShardFiles
from bpeline.tokenizer_core.evaluation import MadeTokens
from bpeline.tokenizer_core.vocabulary import KINDS, Kind, Suspicion, suspicious_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.tokenizer import Tokenizer

__all__ = ["Screening", "TrainedOn", "kept_screening", "screen"]

METRIC_OF_KIND = {
    "email": "privacy/email_tokens",
    "key": "privacy/key_tokens",
    "phone": "privacy/phone_tokens",
    "card": "privacy/card_tokens",
}
ONE_CHUNK = "privacy/one_chunk_tokens"
ONE_DOCUMENT = "privacy/one_document_tokens"
# In smaller corpora most tokens come from a single document anyway.
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True, slots=True)
class Screening:
    """The result of a privacy screening; all ids are ascending.

    Attributes:
        suspicions: tokens that look like personal data, by id.
        chunks: number of distinct chunks of the corpus; 0 if they were not checked or if the
            corpus has fewer than `FEWEST_DOCUMENTS` documents.
        one_chunk: tokens of two bytes or more whose occurrences all lie in one chunk; empty if
            the corpus is a single chunk.
        one_document: tokens whose occurrences all lie in one document.
        unread: tokens of one chunk whose text is no longer available for a closer check.
    """

    suspicions: tuple[Suspicion, ...]
    chunks: int = 0
    one_chunk: tuple[int, ...] = ()
    one_document: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """Counts for MLflow and promotion rules.

        Unknown counts are missing, so that rules on them fail: `ONE_DOCUMENT` if some text was
        not available, `ONE_CHUNK` for a corpus of one chunk.
        """
        kinds = Counter(suspicion.kind for suspicion in self.suspicions)
        figures = {METRIC_OF_KIND[kind]: float(kinds[kind]) for kind in KINDS}
        figures[SUSPICIOUS_METRIC] = float(len(self.suspicions))
        if self.chunks > 1:
            figures[ONE_CHUNK] = float(len(self.one_chunk))
        if self.chunks and not self.unread:
            figures[ONE_DOCUMENT] = float(len(self.one_document))
        return figures

    def as_record(self) -> dict[str, Any]:
        """Return JSON values for ``evaluation.json``."""
        return {
            "suspicious": [[suspicion.id, suspicion.kind] for suspicion in self.suspicions],
            "chunks": self.chunks,
            "one_chunk": list(self.one_chunk),
            "one_document": list(self.one_document),
            "unread": list(self.unread),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], tokenizer: Tokenizer) -> Screening:
        """Read the output of `as_record`."""
        suspicions = tuple(
            Suspicion(int(id_), tokenizer.vocab[id_], cast(Kind, str(kind)))
            for id_, kind in record["suspicious"]
        )
        listed = (tuple(map(int, record[name])) for name in ("one_chunk", "one_document", "unread"))
        return cls(suspicions, int(record["chunks"]), *listed)


def screen(
    tokenizer: Tokenizer, workspace: Workspace, trained: TrainedOn | None = None
) -> Screening:
    """Screen all tokens of a version except its special tokens.

    Args:
        trained: the training text; None checks only the tokens themselves.
    """
    ordinary = {i: token for i, token in tokenizer.vocab.items() if not tokenizer.is_special(i)}
    suspicions = tuple(
        sorted(suspicious_tokens(ordinary.items()), key=lambda suspicion: suspicion.id)
    )
    if trained is None or not trained.files:
        return Screening(suspicions)
    places, files = Places.of(trained), ShardFiles(workspace)
    documents = accumulate(files.read(key).documents for key in places.keys)
    if all(number < FEWEST_DOCUMENTS for number in documents):  # stops at the first that is not
        return Screening(suspicions)
    words = trained.words.in_order_of_sight()
    if trained.made is None or words is not trained.words:
        trained = replace(trained, words=words, made=MadeTokens.of(tokenizer, words))
    ids = np.array(sorted(i for i, token in ordinary.items() if len(token) > 1), np.int64)
    alone = of_one_chunk(tokenizer, ids, trained, places, files)
    one_document, unread = of_one_document(tokenizer, alone, trained, places, files)
    chunks = len(places.found)
    return Screening(
        suspicions,
        chunks,
        _ascending(alone.values()) if chunks > 1 else (),
        _ascending(one_document),
        _ascending(unread),
    )


def kept_screening(evaluation: Mapping[str, Any] | None, tokenizer: Tokenizer) -> Screening | None:
    """Return the screening stored in a version's ``evaluation.json``, or None."""
    with suppress(KeyError, TypeError, ValueError):
        return Screening.from_record((evaluation or {})["screening"], tokenizer)
    return None


def _ascending(parts: Iterable[NDArray[np.int64]]) -> tuple[int, ...]:
    return tuple(sorted(id_ for part in parts for id_ in part.tolist()))
