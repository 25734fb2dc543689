"""Which tokens come from one chunk of a corpus, and which of these from one document.

Word counts are kept by chunk, words are in order of sight, and where a token came about is where
the words are that make it (`MadeTokens`). So most tokens are decided by two positions: of the first
and of the last of these words *to appear*. Where both are in one chunk, its counts tell whether
the words occur anywhere else; they are found there by their positions. Where both are in one
document of it, that document is read again: if it has all occurrences of the words, the token is
of that document. Nothing else of the corpus is read, where its files are known to be unchanged;
elsewhere the chunk is read whole and must have the digest it had.
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
    from bpeline.tokenizer_core.corpus import ChunkText, Reading, SourceFile
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.evaluation import TokenUse
    from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The text a tokenizer learned from, as far as it is known.

    Attributes:
        words: all of its words, each as often as it occurs, whatever the weight of its source;
            first positions are bytes of the corpus, file after file.
        use: of the tokenizer's tokens in them.
        files: of the corpus, in order.
        reading: how they were read.
        unchanged: path → the file, of files that are known to be as they were when their counts
            were made. Of others the digests of chunks must tell.
        made: the tokens of ``words``, if they have been encoded before.
        copies: the documents that were left out as copies, where it is known.
    """

    words: WordCounts
    use: TokenUse
    files: Sequence[RecordedFile]
    reading: Reading
    unchanged: Mapping[str, SourceFile] = field(default_factory=dict)
    made: MadeTokens | None = None
    copies: Duplicates = field(default_factory=Duplicates)

    @property
    def tokens(self) -> MadeTokens:
        """The tokens of the words, which must have been encoded."""
        assert self.made is not None
        return self.made


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a chunk stands: in which file, from which byte of the corpus on, and how it is read."""

    path: str
    chunk: ChunkRecord
    begin: int
    reading: Reading


@dataclass(frozen=True, slots=True)
class Places:
    """The chunks of a corpus.

    Attributes:
        begins: int64, ascending: the position of each chunk's first byte in the corpus.
        keys: of each chunk's counts.
        found: key → every place with this chunk.
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
        """The number of the chunk in which each position of the corpus lies."""
        return (np.searchsorted(self.begins, positions, "right") - 1).astype(np.int64)


def of_one_chunk(
    tokenizer: Tokenizer,
    ids: NDArray[np.int64],
    trained: TrainedOn,
    places: Places,
    files: ShardFiles,
) -> dict[str, NDArray[np.int64]]:
    """Key of a chunk's counts → those of some tokens all of whose occurrences it has.

    Reads the counts of the chunks in which all words that make some token appear first.

    Args:
        ids: of the tokens, int64, ascending.
        trained: with the tokens made; its words are in order of sight.

    Raises:
        CorruptFile: a chunk's counts are missing or damaged.
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
    found: dict[str, NDArray[np.int64]] = {}
    for number in np.unique(chunk_of).tolist():
        key = places.keys[number]
        shard = files.read(key)
        counts = files.counts(shard, tokenizer.pattern)
        if _tells_words_by_position(shard) and made.tree.is_exact:
            here = slice(*np.searchsorted(chunks, [number, number + 1]).tolist())
            held = _counts_at(counts, positions[here] - places.begins[number])
            elsewhere[here] = held != expected[here]
            continue
        some = ids[chunk_of == number]
        alone = some[token_use(tokenizer, counts).made[some] == trained.use.made[some]]
        if len(alone):
            found[key] = alone
    is_alone = made.take(rows).largest(elsewhere)[ids] == 0
    for number in np.unique(chunk_of[is_alone]).tolist():
        found[places.keys[number]] = ids[is_alone & (chunk_of == number)]
    return found


def of_one_document(
    tokenizer: Tokenizer,
    alone: Mapping[str, NDArray[np.int64]],
    trained: TrainedOn,
    places: Places,
    files: ShardFiles,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Of the tokens of one chunk those of one document, and those of chunks that are not there.

    Args:
        alone: as `of_one_chunk` gives them; other arguments and errors are the same.
    """
    found: list[NDArray[np.int64]] = []
    candidates: dict[str, NDArray[np.int64]] = {}
    for key, ids in alone.items():
        if files.read(key).documents == 1:
            found.append(ids)
        else:
            candidates[key] = ids
    if not candidates:
        return found, []
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
            some = made_in_one_document(tokenizer, made.tree, ids, text, place.reading, copies)
            found.append(some)
            del candidates[key]
            continue
        documents = TrainingDocuments.of(text, place.reading)
        search.look_at(documents, ids, place.begin)
    known = [ids for key, ids in candidates.items() if key not in unread]
    found += [ids[search.is_of_one_document(ids)] for ids in known]
    return found, list(unread.values())


@dataclass(frozen=True, slots=True)
class _Search:
    """What is known of some tokens while documents are looked at.

    Attributes:
        made: by the words that make any of these tokens, and no others.
        positions, counts: of these words, in order of sight.
        first, last: by id, the positions of the first and the last of a token's words.
        elsewhere: 0 for words that one document was seen to have all occurrences of, else 1.
        within: by id, whether all of a token's words appear first in the same document.
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
        """Count the documents in which all words of some token appear first.

        Args:
            ids: tokens all of whose words begin in this text.
            begin: where the text stands in the corpus.
        """
        first = documents.numbers(self.first[ids] - begin)
        last = documents.numbers(self.last[ids] - begin)
        self.within[ids[first == last]] = True
        for number in np.unique(first[first == last]).tolist():
            words = documents.words(number)
            beginning, end = words.first_positions[[0, -1]] + begin
            here = slice(*np.searchsorted(self.positions, [beginning, end + 1]).tolist())
            held = _counts_at(words, self.positions[here] - begin)
            self.elsewhere[here] &= held != self.counts[here]

    def is_of_one_document(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        whole: NDArray[np.bool_] = self.made.largest(self.elsewhere)[ids] == 0
        return self.within[ids] & whole


def _read_singly(
    search: _Search, ids: NDArray[np.int64], place: _Place, trained: TrainedOn
) -> bool:
    """Look at the documents of a chunk that matter, and at nothing else; False where it cannot be.

    Its file must be known to be unchanged: what is not read is not verified.
    """
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
    except CorpusError:  # it changed just now: then its digest tells
        return False
    return True


def _tells_words_by_position(shard: Shard) -> bool:
    """Whether each word has one row, and no two begin at one place."""
    return shard.parts == 1 and not shard.replaced_utf8


def _counts_at(words: WordCounts, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts of the words that appear first at some positions; 0 where none does."""
    if not len(words):
        return np.zeros(len(positions), np.int64)
    at = np.minimum(np.searchsorted(words.first_positions, positions), len(words) - 1)
    return np.where(words.first_positions[at] == positions, words.counts[at], 0)


def _texts(
    keys: Sequence[str], places: Places, trained: TrainedOn
) -> Iterator[tuple[str, ChunkText, bytes]]:
    """The chunks whose text still lies somewhere unchanged, each once; no file is read twice.

    With each, which of its documents were left out as copies. Where that is not known any more, a
    chunk with copies is not found again: its digest tells of them, too.
    """
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
