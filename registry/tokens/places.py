"""Find the tokens that come from a single chunk or document of a corpus.

A token comes from the words that make it (`MadeTokens`). If the first positions of all these words
lie in one chunk, that chunk's counts show whether the words occur elsewhere. If they also lie in
one document, it is read again: the token is the document's if it has all their occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bpeline.registry.word_counts import ShardFiles, ShardKeys, digest_without, shard_key
from bpeline.tokenizer_core.corpus import (
    SingleDocuments,
    has_single_documents,
    open_source,
    read_again,
)
from bpeline.tokenizer_core.counting import Duplicates
from bpeline.tokenizer_core.errors import CorpusError
from bpeline.tokenizer_core.evaluation import (
    MadeTokens,
    TrainingDocuments,
    made_in_one_document,
    token_use,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpeline.registry.catalogue import ChunkRecord
    from bpeline.registry.word_counts import RecordedFile, Shard
    from bpeline.tokenizer_core.corpus import ChunkText, ReadOptions, SourceFile
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.evaluation import TokenUse
    from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The training text of a tokenizer, as far as it is available.

    Attributes:
        words: unweighted counts of all words; first positions are byte offsets in the corpus,
            file after file.
        unchanged: path → file, for files known to be unchanged since they were counted. Other
            files are verified by the digests of their chunks.
        made: the tokens of ``words``, if already encoded.
        copies: the documents that were left out as duplicates, if known.
    """

    words: WordCounts
    use: TokenUse
    files: Sequence[RecordedFile]
    reading: ReadOptions
    unchanged: Mapping[str, SourceFile] = field(default_factory=dict)
    made: MadeTokens | None = None
    copies: Duplicates = field(default_factory=Duplicates)

    @property
    def tokens(self) -> MadeTokens:
        """The tokens of the words; `made` must be set."""
        assert self.made is not None
        return self.made


@dataclass(frozen=True, slots=True)
class _Place:
    """The file of a chunk, its first byte in the corpus, and how it is read."""

    path: str
    chunk: ChunkRecord
    begin: int
    reading: ReadOptions


@dataclass(frozen=True, slots=True)
class Places:
    """The chunks of a corpus.

    Attributes:
        begins: int64, ascending: position of each chunk's first byte in the corpus.
        keys: key of each chunk's counts.
        found: key → all places of this chunk.
    """

    begins: NDArray[np.int64]
    keys: list[str]
    found: dict[str, list[_Place]]

    @classmethod
    def of(cls, trained: TrainedOn) -> Places:
        begins, keys = [], []
        found: dict[str, list[_Place]] = {}
        base = 0
        keys_of = ShardKeys.of_sources(trained.reading, {file.source for file in trained.files})
        for file in trained.files:
            for chunk in file.chunks:
                reading, digest = keys_of[file.source].reading_of(chunk.digest)
                key = shard_key(chunk.digest, digest)
                begins.append(base + chunk.begin)
                keys.append(key)
                found.setdefault(key, []).append(_Place(file.path, chunk, begins[-1], reading))
            base += file.chunks[-1].end if file.chunks else 0
        return cls(np.array(begins, np.int64), keys, found)

    def of_positions(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the chunk that contains each corpus position."""
        return (np.searchsorted(self.begins, positions, "right") - 1).astype(np.int64)


def of_one_chunk(
    tokenizer: Tokenizer,
    ids: NDArray[np.int64],
    trained: TrainedOn,
    places: Places,
    files: ShardFiles,
) -> dict[str, NDArray[np.int64]]:
    """Find the tokens that only occur in one chunk: key of its counts → token ids.

    Args:
        ids: token ids to check, int64, ascending.
    """
    if len(places.keys) == 1:
        met = ids[trained.use.made[ids] > 0]
        return {places.keys[0]: met} if len(met) else {}
    words, made = trained.words, trained.tokens
    chunks = places.of_positions(words.first_positions)
    first, last = made.smallest(chunks)[ids], made.largest(chunks)[ids]
    ids, chunk_of = ids[first == last], first[first == last]
    rows = made.rows_making(ids)
    positions, expected, chunks = words.first_positions[rows], words.counts[rows], chunks[rows]
    elsewhere = np.ones(len(rows), np.int64)
    ids_by_key: dict[str, NDArray[np.int64]] = {}
    for number in np.unique(chunk_of).tolist():
        key = places.keys[number]
        shard = files.read(key)
        counts = files.counts(shard, tokenizer.pattern)
        if _tells_words_by_position(shard) and made.tree.is_exact:
            span = slice(*np.searchsorted(chunks, [number, number + 1]).tolist())
            chunk_counts = _counts_at(counts, positions[span] - places.begins[number])
            elsewhere[span] = chunk_counts != expected[span]
            continue
        chunk_ids = ids[chunk_of == number]
        alone = chunk_ids[
            token_use(tokenizer, counts).made[chunk_ids] == trained.use.made[chunk_ids]
        ]
        if len(alone):
            ids_by_key[key] = alone
    is_alone = made.take(rows).largest(elsewhere)[ids] == 0
    for number in np.unique(chunk_of[is_alone]).tolist():
        ids_by_key[places.keys[number]] = ids[is_alone & (chunk_of == number)]
    return ids_by_key


def of_one_document(
    tokenizer: Tokenizer,
    alone: Mapping[str, NDArray[np.int64]],
    trained: TrainedOn,
    places: Places,
    files: ShardFiles,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Find the single-chunk tokens that come from one document.

    Args:
        alone: the result of `of_one_chunk`; other arguments are the same.

    Returns:
        Ids of the tokens of one document, and ids of the tokens whose chunks are not available.
    """
    id_arrays: list[NDArray[np.int64]] = []
    candidates: dict[str, NDArray[np.int64]] = {}
    for key, ids in alone.items():
        if files.read(key).documents == 1:
            id_arrays.append(ids)
        else:
            candidates[key] = ids
    if not candidates:
        return id_arrays, []
    made = trained.tokens
    search = _Search.of(made, np.concatenate(list(candidates.values())), trained.words)
    unread = dict(candidates)
    for key in candidates:
        place, replaced = places.found[key][0], files.read(key).replaced_utf8
        if not replaced and _read_singly(search, candidates[key], place, trained):
            del unread[key]
    for key, text, copies in _texts(list(unread), places, trained):
        ids, place = unread.pop(key), places.found[key][0]
        if files.read(key).replaced_utf8:
            document_ids = made_in_one_document(
                tokenizer, made.tree, ids, text, place.reading, copies
            )
            id_arrays.append(document_ids)
            del candidates[key]
            continue
        documents = TrainingDocuments.of(text, place.reading)
        search.look_at(documents, ids, place.begin)
    checked = [ids for key, ids in candidates.items() if key not in unread]
    id_arrays += [ids[search.is_of_one_document(ids)] for ids in checked]
    return id_arrays, list(unread.values())


@dataclass(frozen=True, slots=True)
class _Search:
    """The state of some tokens while documents are checked.

    Attributes:
        made: restricted to the words that make these tokens.
        positions, counts: of these words, in order of first occurrence.
        first, last: by id, the positions of a token's first and last word.
        elsewhere: 0 for words whose occurrences all lie in one checked document, else 1.
        within: by id, whether all words of a token first occur in the same document.
    """

    made: MadeTokens
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    elsewhere: NDArray[np.int64]
    within: NDArray[np.bool_]

    @classmethod
    def of(cls, made: MadeTokens, ids: NDArray[np.int64], words: WordCounts) -> _Search:
        rows = made.rows_making(ids)
        made, positions = made.take(rows), words.first_positions[rows]
        first, last = made.smallest(positions), made.largest(positions)
        elsewhere, within = np.ones(len(rows), np.int64), np.zeros(len(first), np.bool_)
        return cls(made, positions, words.counts[rows], first, last, elsewhere, within)

    def look_at(self, documents: TrainingDocuments, ids: NDArray[np.int64], begin: int) -> None:
        """Count the words of the documents in which all words of some token first occur."""
        first = documents.numbers(self.first[ids] - begin)
        last = documents.numbers(self.last[ids] - begin)
        self.within[ids[first == last]] = True
        for number in np.unique(first[first == last]).tolist():
            words = documents.words(number)
            beginning, end = words.first_positions[[0, -1]] + begin
            span = slice(*np.searchsorted(self.positions, [beginning, end + 1]).tolist())
            document_counts = _counts_at(words, self.positions[span] - begin)
            self.elsewhere[span] &= document_counts != self.counts[span]

    def is_of_one_document(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        whole: NDArray[np.bool_] = self.made.largest(self.elsewhere)[ids] == 0
        return self.within[ids] & whole


def _read_singly(
    search: _Search, ids: NDArray[np.int64], place: _Place, trained: TrainedOn
) -> bool:
    """Check only relevant documents of a chunk; False if its file may have changed."""
    file = trained.unchanged.get(place.path)
    if file is None:
        return False
    reading, base = place.reading, place.begin - place.chunk.begin
    if not has_single_documents(file, reading):
        return False
    ids = ids[np.argsort(search.first[ids], kind="stable")]
    first, last = search.first[ids] - base, search.last[ids] - base
    try:
        with closing(open_source(file, 0)) as source:
            chunk = SingleDocuments(source, file, place.chunk.begin, place.chunk.end, reading)
            done = 0
            while done < len(ids):
                begin, end = chunk.around(int(first[done]))
                next_ = max(int(np.searchsorted(first, end)), done + 1)
                inside = ids[done:next_][last[done:next_] < end]
                if len(inside):
                    documents = TrainingDocuments.of(chunk.read(begin, end), reading)
                    search.look_at(documents, inside, base + begin)
                done = next_
    except CorpusError:  # it changed just now; the caller verifies the chunk's digest
        return False
    return True


def _tells_words_by_position(shard: Shard) -> bool:
    """Whether each word has one row and a distinct first position."""
    return shard.parts == 1 and not shard.replaced_utf8


def _counts_at(words: WordCounts, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts of the words that first occur at these positions; 0 for none."""
    if not len(words):
        return np.zeros(len(positions), np.int64)
    at = np.minimum(np.searchsorted(words.first_positions, positions), len(words) - 1)
    return np.where(words.first_positions[at] == positions, words.counts[at], 0)


def _texts(
    keys: Sequence[str], places: Places, trained: TrainedOn
) -> Iterator[tuple[str, ChunkText, bytes]]:
    """Yield key, text and left-out duplicates of each chunk that is still available."""
    wanted = set(keys)
    by_path: dict[str, dict[int, tuple[str, str]]] = {}
    for key in keys:
        for place in places.found[key]:
            cells = by_path.setdefault(place.path, {})
            cells[place.chunk.ordinal] = key, place.chunk.digest
    sources = {file.path: file.source for file in trained.files}
    for path, cells in by_path.items():
        reading = trained.reading.of_source(sources[path])
        ordinals = [ordinal for ordinal, (key, _) in cells.items() if key in wanted]
        for chunk, text in read_again(path, ordinals, reading, reading.chunk_bytes):
            key, digest = cells[chunk.ordinal]
            copies = trained.copies.within(path, chunk.ordinal)
            if digest_without(chunk.digest, copies) == digest and key in wanted:
                wanted.remove(key)
                yield key, text, copies
