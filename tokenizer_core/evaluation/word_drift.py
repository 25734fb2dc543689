"""Two distributions of words side by side: how far apart they are, and which words are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts, WordSum, count_spans
from bpeline.tokenizer_core.encoding import spans_of_lengths
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

# What makes a word frequent and new. A count below 20 is known to no better than a quarter, and a
# word of one or two places is a topic, not a change.
LEAST_COUNT = 20
PER_MILLION = 10
TIMES_TRAINED = 10
LEAST_BLOCKS = 3

_WORDS_AT_A_TIME = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class TextSample:
    """Documents of a text with their words, in blocks of neighbours.

    Neighbouring documents are alike, so they are drawn together: of n documents, blocks of about
    the cube root of n (Künsch 1989; the length after Hall, Horowitz & Jing 1995).

    Attributes:
        documents: how many.
        block_bytes: int64 ``[blocks]``.
        words: every word of the sample once.
        rows, blocks, counts: int64 ``[n]`` each: word ``rows[i]`` of ``words`` occurs
            ``counts[i]`` times in block ``blocks[i]``; a word stands once for each block.
    """

    documents: int
    block_bytes: NDArray[np.int64]
    words: WordCounts
    rows: NDArray[np.int64]
    blocks: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        """Of all documents."""
        return int(self.block_bytes.sum())

    @property
    def blocks_of_words(self) -> NDArray[np.int64]:
        """int64: in how many blocks each word occurs."""
        return np.bincount(self.rows, minlength=len(self.words)).astype(np.int64)

    def sums(self, values: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """int64 ``[blocks]``: Σ count · value of the word, over the occurrences of each block.

        Args:
            values: whole numbers or bool, by row of ``words``; None for 1.
        """
        weights = self.counts if values is None else self.counts * values[self.rows]
        sums = np.bincount(self.blocks, weights, len(self.block_bytes))
        return sums.astype(np.int64)  # exact: a sample is far below 2^53


def sample_of(documents: Sequence[bytes], pattern: SplitPattern) -> TextSample:
    """Count the words of documents block by block; empty documents do not count.

    Args:
        documents: UTF-8, in the order of the text.
    """
    documents = [one for one in documents if one]
    length = max(1, round(len(documents) ** (1 / 3)))
    ids: dict[bytes, int] = {}
    sizes, rows, counts = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for begin in range(0, len(documents), length):
        block = documents[begin : begin + length]
        text = Text.of(b"".join(block))
        found = count_spans(text, spans_of_lengths(block), pattern)
        sizes.append(text.size)
        words = found.words()
        rows.append(
            np.fromiter((ids.setdefault(one, len(ids)) for one in words), np.int64, len(words))
        )
        counts.append(found.counts)
    blocks = np.repeat(np.arange(len(sizes)), list(map(len, rows[1:])))
    every, each = np.concatenate(rows), np.concatenate(counts)
    totals = np.bincount(every, each, len(ids)).astype(np.int64)
    return TextSample(
        documents=len(documents),
        block_bytes=np.array(sizes, np.int64),
        words=WordCounts.from_mapping(dict(zip(ids, totals.tolist(), strict=True)), pattern),
        rows=every,
        blocks=blocks.astype(np.int64),
        counts=each,
    )


def counts_in(table: WordCounts, words: WordCounts) -> NDArray[np.int64]:
    """How often each of some words stands in a table; 0 for those it does not have.

    Args:
        table, words: of one pattern, each word once.

    Returns:
        int64, by row of ``words``.
    """
    if not len(words) or not len(table):
        return np.zeros(len(words), np.int64)
    # Added up under the numbers of their rows, a word of both keeps its row in ``words``, which
    # come first; what is added to its count there is what the table has.
    numbered = replace(words, first_positions=np.arange(len(words), dtype=np.int64))
    behind = np.arange(len(words), len(words) + len(table), dtype=np.int64)
    both = WordSum(words.pattern)
    both.add(numbered)
    both.add(replace(table, first_positions=behind))
    return both.result().counts[: len(words)] - words.counts


def word_divergence(first: WordCounts, second: WordCounts) -> float:
    """The Jensen–Shannon divergence of two word distributions (Lin 1991), in bits.

    ½ Σ p log₂(p/m) + ½ Σ q log₂(q/m) with m = (p + q) / 2, over the words of either. A word that
    one has not seen has the share 0 there: nothing is smoothed, and its whole share counts. So 0
    is for equal shares, 1 for two without a common word, and a small text is farther from a large
    one than a large one, by chance alone (see `drift.DIVERGENCE_AT_SIZE`).

    Args:
        first, second: of one pattern, at least one word each.
    """
    return divergence(counts_in(first, second), first.total, second.counts)


def divergence(first: NDArray[np.int64], first_total: int, second: NDArray[np.int64]) -> float:
    """The same of aligned counts, of words or of anything else.

    Args:
        first, second: int64 ``[n]``: how often each one occurs in either; rows where ``second``
            has none may be left out.
        first_total: occurrences in the first of all there are.
    """
    there = second > 0
    in_first, in_second = first[there], second[there]
    p, q = in_first / first_total, in_second / in_second.sum()
    middle, seen = (p + q) / 2, p > 0
    bits = float((q * np.log2(q / middle)).sum())
    bits += float((p[seen] * np.log2(p[seen] / middle[seen])).sum())
    # Words that only the first has: log₂(p / (p / 2)) = 1, so their shares are their bits.
    bits += (first_total - int(in_first.sum())) / first_total
    return min(1.0, max(0.0, bits / 2))


def divergence_draws(
    trained: WordCounts, samples: Sequence[TextSample], draws: int, seed: int
) -> list[NDArray[np.float64]]:
    """The divergence of random parts of samples from training, all parts of one size.

    Of each sample, random blocks are drawn without replacement until they have half as many words
    as the smallest sample has. So what a small text adds to a divergence is in all of them alike,
    and the spread of random halves is that of the whole (McCarthy 1969); of a larger sample the
    part is smaller than a half and its spread too wide, never too narrow.

    Args:
        trained: the words that everything is compared with, at least one.
        samples: of the same pattern, at least one word each.
        draws: how many parts of each.

    Returns:
        For each sample float64 ``[draws]``, bits.
    """
    size = min(one.words.total for one in samples) / 2
    found = []
    for number, sample in enumerate(samples):
        random = np.random.default_rng([seed, number])
        in_training, total = counts_in(trained, sample.words), trained.total
        words_of_block = sample.sums()
        bits = np.empty(draws)
        for draw in range(draws):
            order = random.permutation(len(words_of_block))
            enough = int(np.searchsorted(np.cumsum(words_of_block[order]), size)) + 1
            chosen = np.zeros(len(order), np.bool_)
            chosen[order[:enough]] = True
            taken = chosen[sample.blocks]
            counts = np.bincount(sample.rows[taken], sample.counts[taken], len(sample.words))
            bits[draw] = divergence(in_training, total, counts.astype(np.int64))
        found.append(bits)
    return found


def tokens_of_words(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64]:
    """int64: how many tokens each word takes, each encoded once however often it occurs."""
    parts = [np.zeros(0, np.int64)]
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        some = words.between(begin, begin + _WORDS_AT_A_TIME)
        ends = tokenizer.encoder.encode_words(some.words())[1]
        parts.append(np.diff(ends, prepend=0).astype(np.int64))
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class NewWord:
    """A word that is frequent in a new text and was rare or absent in training.

    Attributes:
        word: its bytes.
        count: its occurrences in the new text.
        trained: its occurrences in training.
        times: its share of the new text, over (trained + 1) / (words of training + 1).
        tokens: what one occurrence costs.
    """

    word: bytes
    count: int
    trained: int
    times: float
    tokens: int

    @property
    def saved(self) -> int:
        """Tokens that its occurrences would save, were it one token."""
        return self.count * (self.tokens - 1)


def new_frequent_words(
    words: WordCounts,
    in_training: NDArray[np.int64],
    training_total: int,
    tokens: NDArray[np.int64],
    sample: TextSample,
) -> tuple[NewWord, ...]:
    """The words that are frequent now and were not, those that would save most first.

    Frequent: `LEAST_COUNT` occurrences and `PER_MILLION` of a million, in `LEAST_BLOCKS` blocks of
    the sample or more (one long document repeats its own names). New: `TIMES_TRAINED` times its
    share of training, as `NewWord.times` says, with one occurrence more there than were seen.

    Args:
        words: of the new text.
        in_training, tokens: int64, by row of ``words``.
        training_total: occurrences of all words of training.
        sample: of the new text.
    """
    least = max(LEAST_COUNT, PER_MILLION * words.total / 1e6)
    usual = (in_training + 1) / (training_total + 1)
    times = words.counts / words.total / usual
    rows = np.flatnonzero((words.counts >= least) & (times >= TIMES_TRAINED)).astype(np.int64)
    if not len(rows):
        return ()
    # A sample of one row for each block the word is in, so that adding up counts blocks.
    spread = counts_in(replace(sample.words, counts=sample.blocks_of_words), words.take(rows))
    rows = rows[spread >= LEAST_BLOCKS]
    found = [
        NewWord(word, count, int(in_training[row]), float(times[row]), int(tokens[row]))
        for row, (word, count) in zip(rows, words.take(rows).items(), strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-one.saved, -one.count, one.word)))
