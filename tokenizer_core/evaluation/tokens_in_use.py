"""Where words and documents make tokens, how often, and how a vocab is used.

A token is *made* in a word if it is among the word's final ids or is part of a longer token that
is: its merges applied there. So the final ids of words and the merge tree give the tokens made.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import ChunkText, ReadOptions, documents_between, sections_of
from bpeline.tokenizer_core.counting import WordCounts, count_spans
from bpeline.tokenizer_core.encoding import BytePairEncoder
from bpeline.tokenizer_core.evaluation.metrics import RARE, curve_sizes, f95, has_curve
from bpeline.tokenizer_core.kernels.counting.word_rows import (
    LEAST,
    MOST,
    SUM,
    join_values,
    mark_rows,
)
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

NOWHERE = np.iinfo(np.int64).max
JUNK_SHARE = 0.9  # Chizhov et al. 2024 ("BPE Gets Picky") try thresholds from 0.6 to 0.9
_WORDS_AT_A_TIME = 1 << 18
_BYTES_AT_A_TIME = 4 << 20


class MergeTree:
    """The parts of every token that merges make.

    If several merges make the same token, as in imported tokenizers, all their parts count.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.size = tokenizer.spec.largest_id + 1
        self.is_exact = True  # at most one merge makes each token
        self._levels: list[tuple[NDArray[np.int64], ...]] = []
        if not has_curve(tokenizer):
            return  # some words become tokens without merges
        lengths = np.zeros(self.size, np.int64)
        for id_, token in tokenizer.vocab.items():
            lengths[id_] = len(token)
        columns = np.stack(tokenizer.merge_ids)
        self.is_exact = len(np.unique(columns[2])) == columns.shape[1]
        order = np.argsort(-lengths[columns[2]], kind="stable")
        columns, lengths = columns[:, order], lengths[columns[2, order]]
        # Parts are shorter than their token, so tokens of one length are never parts of each other.
        for level in np.split(columns, np.flatnonzero(np.diff(lengths)) + 1, axis=1):
            self._levels.append((level[0], level[1], level[2]))

    def pass_down(self, values: NDArray[np.int64], joined: np.ufunc) -> None:
        """Combine the value of every token into those of its parts, in place.

        ``joined`` is `np.minimum`, `np.maximum` or `np.add`.
        """
        for left, right, results in self._levels:
            joined.at(values, left, values[results])
            joined.at(values, right, values[results])

    def made_of(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """By id: whether a token is one of these or has one of them as a part."""
        made = np.zeros(self.size, np.bool_)
        made[tokens] = True
        for left, right, results in reversed(self._levels):
            made[results[made[left] | made[right]]] = True
        return made


@dataclass(frozen=True, slots=True)
class MadeTokens:
    """The tokens made in each of some words."""

    tree: MergeTree
    ids: NDArray[np.uint32]  # final ids, word after word
    ends: NDArray[np.int64]  # [words]: number of ids up to the end of each word

    @classmethod
    def of(cls, tokenizer: Tokenizer, words: WordCounts) -> MadeTokens:
        """Encode pre-tokens of the tokenizer's pattern, on all processors."""

        def encoded(begin: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
            part = words.between(begin, begin + _WORDS_AT_A_TIME)
            ids, ends = tokenizer.encoder.encode_rows(part.word_bytes, part.offsets)
            return ids, np.diff(ends, prepend=0)

        begins = range(0, max(len(words), 1), _WORDS_AT_A_TIME)
        with ThreadPoolExecutor(available_processors(), "encode words") as threads:
            ids, lengths = zip(*threads.map(encoded, begins), strict=True)
        return cls(MergeTree(tokenizer), np.concatenate(ids), np.cumsum(np.concatenate(lengths)))

    def smallest(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the smallest value of a word that makes the token, or `NOWHERE`."""
        smallest = self._joined(LEAST, values, NOWHERE)
        self.tree.pass_down(smallest, np.minimum)
        return smallest

    def largest(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the largest value of a word that makes the token, or −1."""
        largest = self._joined(MOST, values, -1)
        self.tree.pass_down(largest, np.maximum)
        return largest

    def totals(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the sum of word values for each final occurrence of the token."""
        return self._joined(SUM, values, 0)

    def rows_making(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The words that make at least one of these tokens, ascending (int64)."""
        rows = np.empty(len(self.ends), np.bool_)
        mark_rows(self.ids, self.ends, self.tree.made_of(tokens), rows)
        return np.flatnonzero(rows).astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> MadeTokens:
        begins = np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))[rows]
        lengths = self.ends[rows] - begins
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(begins - (ends - lengths), lengths)
        return MadeTokens(self.tree, self.ids[places], ends)

    def _joined(self, how: int, values: NDArray[np.int64], none: int) -> NDArray[np.int64]:
        """By id: the combined values of all words with the token among their final ids."""
        joined = np.full(self.tree.size, none, np.int64)
        join_values(self.ids, self.ends, np.require(values, np.int64, ["C", "W"]), how, joined)
        return joined


@dataclass(frozen=True, slots=True)
class MakingWord:
    """A word that makes a token."""

    word: bytes
    count: int  # occurrences of the word
    times: int  # how often one occurrence makes the token

    @property
    def made(self) -> int:
        return self.count * self.times


def making_words(tokenizer: Tokenizer, id_: int, words: WordCounts) -> list[MakingWord]:
    """Find the words that make a token, the most frequent makers first.

    A token is made where its merge applies, even if a later merge absorbs it. So the words are
    encoded with the merges up to its own.

    Args:
        tokenizer: byte-level BPE.
        id_: a byte or the result of a merge; other ids give an empty list.
        words: split by the tokenizer's pattern.
    """
    encoder = tokenizer.byte_pairs
    left, right, results = tokenizer.merge_ids
    ranks = np.flatnonzero(results == id_)
    if not len(ranks) and id_ not in encoder.byte_ids:
        return []
    end = int(ranks[0]) + 1 if len(ranks) else 0
    columns = left[:end], right[:end], results[:end]
    prefix_encoder = BytePairEncoder(encoder.byte_ids, *columns, encoder.pattern, cache_words=0)
    holding = words.take(rows_holding(tokenizer.id_to_token(id_), words))
    ids, ends = prefix_encoder.encode_words(holding.words())
    running = np.concatenate(([0], np.cumsum(ids == id_)))
    times = np.diff(running[ends], prepend=0)
    made_by_word = times * holding.counts
    order = np.argsort(-made_by_word, kind="stable")
    chosen = holding.take(order[made_by_word[order] > 0])
    of_each = times[order[made_by_word[order] > 0]].tolist()
    return [
        MakingWord(word, count, times_of_word)
        for (word, count), times_of_word in zip(chosen.items(), of_each, strict=True)
    ]


def rows_holding(content: bytes, words: WordCounts) -> NDArray[np.int64]:
    """Rows of the words that contain some bytes (at least one), ascending."""
    data = words.word_bytes
    places = np.flatnonzero(data[: max(len(data) - len(content) + 1, 0)] == content[0])
    for ahead, byte in enumerate(content[1:], 1):
        places = places[data[places + ahead] == byte]
    rows = np.searchsorted(words.offsets, places, "right") - 1
    within = places + len(content) <= words.offsets[rows + 1]
    return np.unique(rows[within]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class TrainingDocuments:
    """The documents of a chunk, or of a part of it, as training read them.

    No bytes may have been replaced by U+FFFD: positions are offsets in the text.
    """

    text: ChunkText
    reading: ReadOptions
    spans: NDArray[np.int64]  # [n, 2]: the documents
    training: NDArray[np.int64]  # [n, 2]: the parts used for training

    @classmethod
    def of(cls, text: ChunkText, reading: ReadOptions) -> TrainingDocuments:
        spans, _ = documents_between(text, reading.special_bytes)
        return cls(text, reading, spans, reading.share_out(text.text, spans, text.across).training)

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of the document that contains each byte position."""
        places, origins = self.text.anchors[:, 0], self.text.anchors[:, 1]
        anchor = np.searchsorted(origins, positions, "right") - 1
        place = positions - origins[anchor] + places[anchor]
        return (np.searchsorted(self.spans[:, 0], place, "right") - 1).astype(np.int64)

    def words(self, number: int) -> WordCounts:
        """The words of one document, without held-out text."""
        begin, end = self.spans[number].tolist()
        text = Text.of(self.text.text.bytes(begin, end))
        firsts = self.training[:, 0]
        inside = self.training[(firsts >= begin) & (firsts < end)] - begin
        anchors = self.text.anchors - [begin, 0]
        return count_spans(text, inside, self.reading.pattern, anchors=anchors)


def made_in_one_document(
    tokenizer: Tokenizer,
    tree: MergeTree,
    candidates: NDArray[np.int64],
    text: ChunkText,
    reading: ReadOptions,
    copies: bytes = b"",
) -> NDArray[np.int64]:
    """Find the candidates that were made in exactly one document of a chunk.

    Documents are as training read them: text between special tokens, or the record of a JSON line,
    without held-out text. Reading stops when every candidate was made in two documents.

    Args:
        tokenizer: with the pattern of ``reading``.
        candidates: ids.
        copies: a byte per document, 1 if training left it out as a duplicate; empty for none.

    Returns:
        int64, ascending; without candidates that no document makes.
    """
    first = np.full(tree.size, NOWHERE, np.int64)
    last = np.full(tree.size, -1, np.int64)
    waiting = np.unique(candidates)
    for ids, documents in _encoded(tokenizer, text, reading, copies):
        # NumPy keeps the last value of repeated indices: reversed, that is the first document.
        here = np.full(tree.size, NOWHERE, np.int64)
        here[ids[::-1]] = documents[::-1]
        np.minimum(first, here, out=first)
        last[ids] = documents
        begins, ends = first.copy(), last.copy()
        tree.pass_down(begins, np.minimum)
        tree.pass_down(ends, np.maximum)
        waiting = waiting[begins[waiting] >= ends[waiting]]
        if not len(waiting):
            return waiting
    return waiting[ends[waiting] >= 0] if len(waiting) and last.max() >= 0 else waiting[:0]


def _encoded(
    tokenizer: Tokenizer, text: ChunkText, reading: ReadOptions, copies: bytes
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Ids of the training text, a few MiB at a time, and the document of each id."""
    documents, _ = documents_between(text, reading.special_bytes)
    if copies:
        documents = np.ascontiguousarray(documents[np.frombuffer(copies, np.uint8) == 0])
    spans = reading.share_out(text.text, documents, text.across).training
    if not reading.held_out_below:
        spans = sections_of(text.text, spans, reading.pattern.cut_pairs)
    numbers = np.searchsorted(documents[:, 0], spans[:, 0], "right") - 1
    done = 0
    while done < len(spans):
        begin = spans[done, 0]
        end = max(int(np.searchsorted(spans[:, 1], begin + _BYTES_AT_A_TIME, "right")), done + 1)
        part = Text.of(text.text.bytes(int(begin), int(spans[end - 1, 1])))
        no_ids = np.full(end - done, -1, np.int64)
        ids, ends = tokenizer.encoder.encode(part, spans[done:end] - begin, no_ids)
        yield ids, np.repeat(numbers[done:end], np.diff(ends, prepend=0))
        done = end


@dataclass(frozen=True, slots=True, eq=False)
class TokenUse:
    """How often counted words make tokens; arrays have ``[largest id + 1]`` entries.

    Attributes:
        made: how often the token was made while merging: the occurrences of a byte, the
            applications of a merge (for most pairs their count when they were merged in training;
            in ``aaa`` only one pair applies).
        left: how often it is among the final ids of the words.
        absorbed: float64, by id: the largest share of a token's occurrences at that time that one
            merge absorbs (intersection over self, Chizhov et al. 2024); 0 if none does, and for
            single bytes, which every vocab needs.
        gains: by rank, how often each merge applied: the tokens it saves. Empty without merges.
        bytes: Σ count · length of the words.
    """

    made: NDArray[np.int64]
    left: NDArray[np.int64]
    absorbed: NDArray[np.float64]
    gains: NDArray[np.int64]
    bytes: int

    @property
    def junk(self) -> NDArray[np.int64]:
        """Ids of tokens that are mostly parts of one longer token."""
        return np.flatnonzero(self.absorbed >= JUNK_SHARE).astype(np.int64)


def token_use(
    tokenizer: Tokenizer, words: WordCounts, tokens: MadeTokens | None = None
) -> TokenUse:
    """Count the tokens that words make; special tokens are never among them.

    If words are looked up whole, or for other algorithms than byte-level BPE, ``made`` equals
    ``left``. ``tokens`` may be those of ``words`` if they were encoded before.
    """
    size = tokenizer.spec.largest_id + 1
    if not has_curve(tokenizer):
        left = (tokens or MadeTokens.of(tokenizer, words)).totals(words.counts)
        return TokenUse(left, left, np.zeros(size), np.zeros(0, np.int64), words.total_bytes)
    first, second, results = tokenizer.merge_ids
    if tokens is not None and tokens.tree.is_exact:
        left = tokens.totals(words.counts)
        made = left.copy()
        tokens.tree.pass_down(made, np.add)
        gains = made[results]
    else:
        gains = tokenizer.merge_gains(words)
        made = np.zeros(size, np.int64)
        made[tokenizer.byte_pairs.byte_ids] = _byte_counts(words)
        np.add.at(made, results, gains)
        left = made.copy()
        np.subtract.at(left, first, gains)
        np.subtract.at(left, second, gains)
    absorbed = _absorbed(made, first, second, gains)
    absorbed[tokenizer.byte_pairs.byte_ids] = 0
    return TokenUse(made, left, absorbed, gains, words.total_bytes)


def _absorbed(
    made: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    gains: NDArray[np.int64],
) -> NDArray[np.float64]:
    """By id: the largest share of a token's current count that one merge absorbs."""
    parts, absorbed_counts = np.concatenate([first, second]), np.concatenate([gains, gains])
    ranks = np.tile(np.arange(len(gains)), 2)
    order = np.lexsort((ranks, parts))
    parts, absorbed_counts = parts[order], absorbed_counts[order]
    before = np.cumsum(absorbed_counts) - absorbed_counts  # counts of smaller ids included
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    of_this = before - np.repeat(before[begins], np.diff(begins, append=len(parts)))
    remaining = made[parts] - of_this
    twice = np.zeros(len(parts), np.bool_)  # the right half of a pair of equal tokens
    twice[1:] = (parts[1:] == parts[:-1]) & (ranks[order][1:] == ranks[order][:-1])
    absorbed = np.zeros(len(made))
    np.maximum.at(absorbed, parts, np.where(twice, 0.0, absorbed_counts / np.maximum(remaining, 1)))
    return absorbed


def _byte_counts(words: WordCounts) -> NDArray[np.int64]:
    """int64 ``[256]``: the count of each byte in counted words."""
    sums = np.zeros(256, np.int64)
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        part = words.between(begin, begin + _WORDS_AT_A_TIME)
        np.add.at(sums, part.word_bytes, np.repeat(part.counts, part.lengths))
    return sums


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Use of a byte-level BPE vocab by the counted words.

    Attributes:
        dead: ordinary tokens that do not occur.
        rare: those that occur fewer than `RARE` times.
        junk: tokens that are mostly parts of one longer token, see `TokenUse.junk`.
        f95_by_size: (vocab size, the count that at least 95 % of that vocab reach).
    """

    dead: int
    rare: int
    junk: int
    f95_by_size: tuple[tuple[int, int], ...]

    @property
    def largest_well_used(self) -> int | None:
        """The largest size at which 95 % of the vocab occur `RARE` times, if any.

        The rule of Gowda & May 2020, on the training words.
        """
        sizes = [size for size, count in self.f95_by_size if count >= RARE]
        return max(sizes, default=None)


def token_usage(tokenizer: Tokenizer, use: TokenUse) -> TokenUsage:
    """Compute how counted words use a vocab and its smaller sizes.

    Args:
        tokenizer: byte-level BPE without ``ignore_merges``.
        use: of its tokens in these words, ideally the training words.
    """
    left, right, results = tokenizer.byte_pairs.merge_ids
    ordinary = np.concatenate((tokenizer.byte_pairs.byte_ids, results))
    final = use.left[ordinary]
    before = len(tokenizer.byte_pairs.byte_ids) + len(tokenizer.special_tokens)
    f95_by_size = []
    for size in curve_sizes(tokenizer):
        merged = max(size - before, 0)
        counts = use.made.copy()
        counts[results[merged:]] = 0
        np.subtract.at(counts, left[:merged], use.gains[:merged])
        np.subtract.at(counts, right[:merged], use.gains[:merged])
        f95_by_size.append((size, f95(np.sort(counts[counts > 0])[::-1], size)))
    return TokenUsage(
        dead=int((final == 0).sum()),
        rare=int(((final > 0) & (final < RARE)).sum()),
        junk=len(use.junk),
        f95_by_size=tuple(f95_by_size),
    )
