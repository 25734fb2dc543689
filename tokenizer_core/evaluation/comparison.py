"""Two tokenizers side by side: vocabs, merges, and what both make of the same documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation.bootstrap import Interval, resampled_change
from bpeline.tokenizer_core.evaluation.measuring import Measured, measure
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding import WordEncoder

_WORDS_AT_A_TIME = 1 << 16


@dataclass(frozen=True, slots=True)
class VocabDifference:
    """What two vocabs share. Tokens stand in the order of their ids.

    Attributes:
        added: tokens that only the second has.
        removed: tokens that only the first has.
        moved: tokens of both whose ids differ: (token, first id, second id).
        shared: how many tokens both have, moved ones included.
        changed_ids: see `changed_ids`.
    """

    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    moved: tuple[tuple[bytes, int, int], ...]
    shared: int
    changed_ids: int


@dataclass(frozen=True, slots=True)
class DivergingMerge:
    """The first place where two lists of merges differ.

    Attributes:
        rank: counted from 0; so many merges are the same.
        first, second: the merge there, or None where the list has ended.
    """

    rank: int
    first: tuple[bytes, bytes] | None
    second: tuple[bytes, bytes] | None


@dataclass(frozen=True, slots=True)
class WordChange:
    """A word that the two cut differently.

    Attributes:
        word: its bytes.
        count: its occurrences in the documents.
        first, second: its tokens.
    """

    word: bytes
    count: int
    first: tuple[bytes, ...]
    second: tuple[bytes, ...]

    @property
    def cost(self) -> int:
        """Tokens that the second takes more than the first, over all occurrences."""
        return self.count * (len(self.second) - len(self.first))


@dataclass(frozen=True, slots=True)
class Segmentation:
    """What became of the words of some documents, cut by the first tokenizer's pattern.

    Where the patterns differ, the second tokenizer's encoding of a word is that of the word alone;
    where one normalizes text, its places inside words are in proportion to what became of them.

    Attributes:
        words, occurrences: distinct words, and all of them.
        changed_words, changed_occurrences: of these, cut at other places by the second.
        stability: of the places inside words where either cuts, the share where both do, over all
            occurrences; 1 when neither cuts anywhere.
        worse: the words that cost most, dearest first.
        better: the words that save most, best first.
        same_cost: the most frequent of those that take as many tokens, but other ones.
    """

    words: int
    occurrences: int
    changed_words: int
    changed_occurrences: int
    stability: float
    worse: tuple[WordChange, ...]
    better: tuple[WordChange, ...]
    same_cost: tuple[WordChange, ...]


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """What both make of the same documents.

    Attributes:
        documents, bytes: how much text.
        first_tokens, second_tokens: how many tokens it takes.
        change: second / first − 1 of these; below 0 the second compresses better.
        segmentation: word by word.
    """

    documents: int
    bytes: int
    first_tokens: int
    second_tokens: int
    change: Interval
    segmentation: Segmentation


def compare_vocabs(first: Tokenizer, second: Tokenizer) -> VocabDifference:
    """Which tokens came, went and moved."""
    ids = [{token: id_ for id_, token in one.vocab.items()} for one in (first, second)]
    both = [token for token in ids[0] if token in ids[1]]
    moved = ((token, ids[0][token], ids[1][token]) for token in both)
    return VocabDifference(
        added=tuple(sorted(ids[1].keys() - ids[0].keys(), key=ids[1].__getitem__)),
        removed=tuple(sorted(ids[0].keys() - ids[1].keys(), key=ids[0].__getitem__)),
        moved=tuple(sorted((one for one in moved if one[1] != one[2]), key=lambda one: one[1])),
        shared=len(both),
        changed_ids=changed_ids(first, second),
    )


def changed_ids(first: Tokenizer, second: Tokenizer) -> int:
    """How many ids of the first are another token, or none, in the second."""
    after = second.vocab
    return sum(after.get(id_) != token for id_, token in first.vocab.items())


def first_diverging_merge(first: Tokenizer, second: Tokenizer) -> DivergingMerge | None:
    """Where the merges part; None when they are the same."""
    for rank, (mine, theirs) in enumerate(zip_longest(first.merges, second.merges)):
        if mine != theirs:
            return DivergingMerge(rank, mine, theirs)
    return None


def compare_on(
    first: Tokenizer, second: Tokenizer, documents: Iterable[bytes], shown: int = 20
) -> DocumentComparison:
    """Encode documents with both. Special tokens in them are ordinary text.

    Args:
        documents: UTF-8; a few MiB of them are in memory at a time.
        shown: how many words each list of `Segmentation` holds at most.

    Raises:
        EmptyCorpus: the documents hold no text.
        InvalidUtf8: a document is not UTF-8.
    """
    texts = (document for document in documents if document)
    before, after = measure([first, second], texts)
    if not before.text.bytes:
        raise EmptyCorpus(
            "there is no text to compare on",
            "at least one document with text",
            "name files to compare on: `--on FILE`",
        )
    return compare_measured(first, second, before, after, shown)


def compare_measured(
    first: Tokenizer, second: Tokenizer, before: Measured, after: Measured, shown: int = 20
) -> DocumentComparison:
    """The same of documents that both have been measured on.

    Args:
        before, after: of ``first`` and ``second``, on the same documents.
        shown: as for `compare_on`.
    """
    return DocumentComparison(
        documents=before.text.documents,
        bytes=before.text.bytes,
        first_tokens=before.tokens,
        second_tokens=after.tokens,
        change=resampled_change(before.document_tokens, after.document_tokens).interval(),
        segmentation=compare_words(first, second, before.words, shown),
    )


def compare_words(
    first: Tokenizer, second: Tokenizer, words: WordCounts, shown: int = 20
) -> Segmentation:
    """Which words the two cut differently, and what that costs.

    Args:
        words: pre-tokens of the first tokenizer's pattern with their counts.
        shown: how many words of each kind to show at most.
    """
    changed = np.zeros(len(words), bool)
    costs = np.zeros(len(words), np.int64)
    either = both = 0
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        rows = slice(begin, begin + _WORDS_AT_A_TIME)
        part = words.between(rows.start, rows.stop)
        mine, my_tokens = _boundaries(first, part, first)
        theirs, their_tokens = _boundaries(second, part, first)
        ends, kept = part.offsets[1:], np.isin(mine, theirs)
        first_cuts, second_cuts, shared = (_cuts(one, part) for one in (mine, theirs, mine[kept]))
        either += first_cuts + second_cuts - shared
        both += shared
        other = np.concatenate((mine[~kept], theirs[~np.isin(theirs, mine)]))
        changed[rows][np.searchsorted(ends, other)] = True
        costs[rows] = part.counts * (their_tokens - my_tokens)
    rows_changed = np.flatnonzero(changed)
    by_cost = rows_changed[np.argsort(costs[rows_changed], kind="stable")]
    cheaper, dearer = by_cost[costs[by_cost] < 0], by_cost[costs[by_cost] > 0][::-1]
    alike = by_cost[costs[by_cost] == 0]
    alike = alike[np.argsort(-words.counts[alike], kind="stable")]
    return Segmentation(
        words=len(words),
        occurrences=words.total,
        changed_words=len(rows_changed),
        changed_occurrences=int(words.counts[rows_changed].sum()),
        stability=both / either if either else 1.0,
        worse=_changes(first, second, words, dearer[:shown]),
        better=_changes(first, second, words, cheaper[:shown]),
        same_cost=_changes(first, second, words, alike[:shown]),
    )


def _boundaries(
    tokenizer: Tokenizer, words: WordCounts, first: Tokenizer
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where tokens end in the joined words, ascending, and how many tokens each word has."""
    ids, ends = _encoded(tokenizer, words, first)
    if tokenizer.words is not None:  # whose tokens need not be pieces of the text
        places = _without_sentences(tokenizer.words).placed(*_spans_of(words)).places
        return np.unique(places[:, 1]), np.diff(ends, prepend=0)
    lengths = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    lengths[list(tokenizer.vocab)] = list(map(len, tokenizer.vocab.values()))
    places = np.cumsum(lengths[ids])
    if not tokenizer.merges_words:
        places = _scaled(places, ends, words.offsets)
    return places, np.diff(ends, prepend=0)


def _scaled(
    places: NDArray[np.int64], ends: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where tokens end in words that were normalized before: in proportion, and in order.

    Args:
        places: int64, where tokens end if all are joined. ends: int64, tokens up to each word's
            end. offsets: int64 ``[words + 1]``.
    """
    tokens = np.diff(ends, prepend=0)
    filled = tokens > 0
    stops = np.zeros(len(ends) + 1, np.int64)
    stops[1:] = np.concatenate((np.zeros(1, np.int64), places))[ends]
    word = np.repeat(np.arange(len(ends)), tokens)
    made, given = np.maximum(np.diff(stops), 1), np.diff(offsets)
    scaled = offsets[:-1][word] + (places - stops[:-1][word]) * given[word] // made[word]
    words_ends: NDArray[np.int64] = offsets[1:][~filled]  # of which nothing is left
    return np.unique(np.concatenate((scaled, words_ends)))


def _cuts(places: NDArray[np.int64], words: WordCounts) -> int:
    """How many of some places lie inside words, over all occurrences of these."""
    ends = words.offsets[1:]
    inside = places[~np.isin(places, ends)]
    return int(words.counts[np.searchsorted(ends, inside)].sum())


def _encoded(
    tokenizer: Tokenizer, words: WordCounts, first: Tokenizer
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if tokenizer.words is not None:
        return _without_sentences(tokenizer.words).encode(*_spans_of(words))
    if tokenizer.pattern == first.pattern:
        return tokenizer.encoder.encode_words(words.words())
    return tokenizer.encoder.encode(*_spans_of(words))


def _spans_of(words: WordCounts) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
    """Words as spans of one text, nothing behind them."""
    spans = np.stack((words.offsets[:-1], words.offsets[1:]), axis=1)
    return Text.of(words.word_bytes.tobytes()), spans, np.full(len(words), -1, np.int64)


def _without_sentences(encoder: WordEncoder) -> WordEncoder:
    """The same for words alone, which are no sentences."""
    return WordEncoder(encoder.algorithm, encoder.pattern)


def _changes(
    first: Tokenizer, second: Tokenizer, words: WordCounts, rows: NDArray[np.int64]
) -> tuple[WordChange, ...]:
    if not len(rows):
        return ()
    chosen = words.take(rows)
    tokens = []
    for tokenizer in (first, second):
        ids, ends = _encoded(tokenizer, chosen, first)
        vocab, listed = tokenizer.vocab, ids.tolist()
        bounds = pairwise([0, *ends.tolist()])
        tokens.append([tuple(vocab[id_] for id_ in listed[a:b]) for a, b in bounds])
    return tuple(
        WordChange(word, count, mine, theirs)
        for (word, count), mine, theirs in zip(chosen.items(), *tokens, strict=True)
    )
