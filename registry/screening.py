"""The personal-data screen of a version: tokens like somebody's data, tokens of one document alone.

A token is *of one document* when the training text of that document alone made it: the merges that
lead to it fired in its words and nowhere else. Documents are what training read as such: text
between special tokens, or the record of a JSON line; what was held out made nothing.

Word counts are kept by chunk. So the chunk in which a token was met first is looked up; if its
counts hold all of the token's occurrences, that chunk alone is read again and its documents are
encoded. A chunk whose text has gone or changed leaves "in one chunk only".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from registry.word_counts.shards import ShardFiles, shard_key
from tokenizer_core.corpus.chunking import CHUNK_BYTES
from tokenizer_core.corpus.rereading import read_again
from tokenizer_core.evaluation.personal_data import KINDS, Kind, Suspicion, suspicious_tokens
from tokenizer_core.evaluation.token_documents import (
    NOWHERE,
    MergeTree,
    first_positions,
    of_one_document,
)
from tokenizer_core.evaluation.token_use import token_use

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from registry.word_counts.corpus_record import RecordedFile
    from registry.workspace.workspace import Workspace
    from tokenizer_core.corpus.documents import ChunkText
    from tokenizer_core.corpus.reading import Reading
    from tokenizer_core.counting.word_counts import WordCounts
    from tokenizer_core.evaluation.token_use import TokenUse
    from tokenizer_core.tokenizer import Tokenizer

# What MLflow shows and rules of promotion name.
METRIC_OF_KIND = {
    "email": "privacy/email_tokens",
    "key": "privacy/key_tokens",
    "phone": "privacy/phone_tokens",
    "card": "privacy/card_tokens",
}
SUSPICIOUS = "privacy/suspicious_tokens"
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
        figures[SUSPICIOUS] = float(len(self.suspicions))
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


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The text a tokenizer learned from, as far as it is known.

    Attributes:
        words: all of its words, each as often as it occurs, whatever the weight of its source;
            first positions are bytes of the corpus, file after file.
        use: of the tokenizer's tokens in them.
        files: of the corpus, in order.
        reading, chunk_bytes: how they were read.
    """

    words: WordCounts
    use: TokenUse
    files: Sequence[RecordedFile]
    reading: Reading
    chunk_bytes: int = CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class _Places:
    """The chunks of a corpus.

    Attributes:
        begins: int64, ascending: the position of each chunk's first byte in the corpus.
        keys: of each chunk's counts.
        found: key → (path, ordinal, digest) of every place with this chunk.
    """

    begins: NDArray[np.int64]
    keys: list[str]
    found: dict[str, list[tuple[str, int, str]]]

    @classmethod
    def of(cls, trained: TrainedOn) -> _Places:
        begins, keys = [], []
        found: dict[str, list[tuple[str, int, str]]] = {}
        base = 0
        for file in trained.files:
            digest = trained.reading.of_source(file.source).digest
            for chunk in file.chunks:
                key = shard_key(chunk.digest, digest)
                begins.append(base + chunk.begin)
                keys.append(key)
                found.setdefault(key, []).append((file.path, chunk.ordinal, chunk.digest))
            base += file.chunks[-1].end if file.chunks else 0
        return cls(np.array(begins, np.int64), keys, found)


def screen(
    tokenizer: Tokenizer, workspace: Workspace, trained: TrainedOn | None = None
) -> Screening:
    """Screen the tokens of a version.

    Costs the counts of every chunk in which some token was met first, in an evenly mixed corpus a
    few of them; and the text of those that alone have all occurrences of one.

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
    places, files = _Places.of(trained), ShardFiles(workspace)
    documents = accumulate(files.read(key).documents for key in places.keys)
    if all(number < FEWEST_DOCUMENTS for number in documents):  # reads no further than that
        return Screening(suspicions)
    tree = MergeTree(tokenizer)
    ids = np.array(sorted(i for i, token in ordinary.items() if len(token) > 1), np.int64)
    alone = _of_one_chunk(tokenizer, tree, ids, trained, places, files)
    one_document, unread = [], dict(alone)
    for key in alone:
        if files.read(key).documents == 1:
            one_document.append(unread.pop(key))
    for key, text in _texts(list(unread), places, trained):
        candidates = unread.pop(key)
        one_document.append(of_one_document(tokenizer, tree, candidates, text, trained.reading))
    chunks = len(places.found)
    return Screening(
        suspicions,
        chunks,
        _ascending(alone.values()) if chunks > 1 else (),
        _ascending(one_document),
        _ascending(unread.values()),
    )


def kept_screening(evaluation: Mapping[str, Any] | None, tokenizer: Tokenizer) -> Screening | None:
    """What training found, of a version's ``evaluation.json``; None where it does not say."""
    with suppress(KeyError, TypeError, ValueError):
        return Screening.from_record((evaluation or {})["screening"], tokenizer)
    return None


def _of_one_chunk(
    tokenizer: Tokenizer,
    tree: MergeTree,
    ids: NDArray[np.int64],
    trained: TrainedOn,
    places: _Places,
    files: ShardFiles,
) -> dict[str, NDArray[np.int64]]:
    """Key of a chunk's counts → the tokens all of whose occurrences it has."""
    if len(places.keys) == 1:
        met = ids[trained.use.made[ids] > 0]
        return {places.keys[0]: met} if len(met) else {}
    first = first_positions(tokenizer, trained.words, tree)[ids]
    ids, first = ids[first != NOWHERE], first[first != NOWHERE]
    chunk = np.searchsorted(places.begins, first, "right") - 1
    found: dict[str, NDArray[np.int64]] = {}
    for place in np.unique(chunk).tolist():
        key = places.keys[place]
        counts = files.counts(files.read(key), tokenizer.pattern)
        here = ids[chunk == place]
        alone = here[token_use(tokenizer, counts).made[here] == trained.use.made[here]]
        if len(alone):
            found[key] = alone
    return found


def _texts(
    keys: Sequence[str], places: _Places, trained: TrainedOn
) -> Iterator[tuple[str, ChunkText]]:
    """The chunks whose text still lies somewhere unchanged, each once; no file is read twice."""
    wanted = set(keys)
    by_path: dict[str, dict[int, tuple[str, str]]] = {}
    for key in keys:
        for path, ordinal, digest in places.found[key]:
            by_path.setdefault(path, {})[ordinal] = key, digest
    sources = {file.path: file.source for file in trained.files}
    for path, cells in by_path.items():
        reading = trained.reading.of_source(sources[path])
        ordinals = [ordinal for ordinal, (key, _) in cells.items() if key in wanted]
        for chunk, text in read_again(path, ordinals, reading, trained.chunk_bytes):
            key, digest = cells[chunk.ordinal]
            if chunk.digest == digest and key in wanted:
                wanted.remove(key)
                yield key, text


def _ascending(parts: Iterable[NDArray[np.int64]]) -> tuple[int, ...]:
    return tuple(sorted(id_ for part in parts for id_ in part.tolist()))
