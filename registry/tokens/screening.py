"""The personal-data screen of a version: tokens like somebody's data, tokens of one document alone.

A token is *of one document* when the training text of that document alone made it: the merges that
lead to it fired in its words and nowhere else. Documents are what training read as such: text
between special tokens, or the record of a JSON line; what was held out made nothing.

How that is found out is told in `registry.token_places`. A chunk whose text has gone or changed
leaves "in one chunk only".
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

# What MLflow shows and rules of promotion name.
METRIC_OF_KIND = {
    "email": "privacy/email_tokens",
    "key": "privacy/key_tokens",
    "phone": "privacy/phone_tokens",
    "card": "privacy/card_tokens",
}
ONE_CHUNK = "privacy/one_chunk_tokens"
ONE_DOCUMENT = "privacy/one_document_tokens"
# Of so few documents most tokens come from one alone, which is no news.
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True, slots=True)
class Screening:
    """What the screen found.

    Attributes:
        suspicions: tokens that look like personal data, by id.
        chunks: different chunks that the corpus was counted in; 0 where they were not looked at,
            and where the corpus has fewer than `FEWEST_DOCUMENTS`, which say nothing.
        one_chunk: ids of tokens of two bytes or more all of whose occurrences lie in one chunk,
            ascending. Empty when the corpus is a single chunk: then it says nothing.
        one_document: those of one document, ascending.
        unread: those in one chunk whose text was not there to look closer.
    """

    suspicions: tuple[Suspicion, ...]
    chunks: int = 0
    one_chunk: tuple[int, ...] = ()
    one_document: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for MLflow and for rules.

        What is not known is not among them, so a rule on it does not hold: the number for
        documents where text was not there to be read, the one for chunks where there is but one.
        """
        kinds = Counter(one.kind for one in self.suspicions)
        figures = {METRIC_OF_KIND[kind]: float(kinds[kind]) for kind in KINDS}
        figures[SUSPICIOUS_METRIC] = float(len(self.suspicions))
        if self.chunks > 1:
            figures[ONE_CHUNK] = float(len(self.one_chunk))
        if self.chunks and not self.unread:
            figures[ONE_DOCUMENT] = float(len(self.one_document))
        return figures

    def as_record(self) -> dict[str, Any]:
        """JSON values, for ``evaluation.json``."""
        return {
            "suspicious": [[one.id, one.kind] for one in self.suspicions],
            "chunks": self.chunks,
            "one_chunk": list(self.one_chunk),
            "one_document": list(self.one_document),
            "unread": list(self.unread),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], tokenizer: Tokenizer) -> Screening:
        """What `as_record` gave.

        Raises:
            KeyError, TypeError, ValueError: not such a record.
        """
        suspicions = tuple(
            Suspicion(int(id_), tokenizer.vocab[id_], cast(Kind, str(kind)))
            for id_, kind in record["suspicious"]
        )
        listed = (tuple(map(int, record[name])) for name in ("one_chunk", "one_document", "unread"))
        return cls(suspicions, int(record["chunks"]), *listed)


def screen(
    tokenizer: Tokenizer, workspace: Workspace, trained: TrainedOn | None = None
) -> Screening:
    """Screen the tokens of a version.

    Args:
        tokenizer: special tokens, which somebody chose, are left out.
        workspace: where the counts of chunks lie.
        trained: what it learned from; None looks at the tokens alone.

    Raises:
        CorruptFile: a chunk's counts are missing or damaged.
    """
    ordinary = {i: token for i, token in tokenizer.vocab.items() if not tokenizer.is_special(i)}
    suspicions = tuple(sorted(suspicious_tokens(ordinary.items()), key=lambda one: one.id))
    if trained is None or not trained.files:
        return Screening(suspicions)
    places, files = Places.of(trained), ShardFiles(workspace)
    documents = accumulate(files.read(key).documents for key in places.keys)
    if all(number < FEWEST_DOCUMENTS for number in documents):  # reads no further than that
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
    """What training found, of a version's ``evaluation.json``; None where it does not say."""
    with suppress(KeyError, TypeError, ValueError):
        return Screening.from_record((evaluation or {})["screening"], tokenizer)
    return None


def _ascending(parts: Iterable[NDArray[np.int64]]) -> tuple[int, ...]:
    return tuple(sorted(id_ for part in parts for id_ in part.tolist()))
