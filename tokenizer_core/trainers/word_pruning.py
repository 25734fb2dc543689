"""Leaving out rare words before training, and telling how many; learns nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import EmptyCorpus


@dataclass(frozen=True, slots=True)
class PrunedWords:
    """What ``min_word_count`` left out.

    Attributes:
        words: distinct words.
        occurrences: of all of them together.
    """

    words: int
    occurrences: int


NOTHING = PrunedWords(0, 0)


def prune(counts: WordCounts, min_word_count: int) -> tuple[WordCounts, PrunedWords]:
    """The words that occur ``min_word_count`` times or more, and what was left out.

    Raises:
        EmptyCorpus: no word of several is left.
    """
    frequent = counts.at_least(min_word_count)
    if min_word_count > 1 and len(counts) and not len(frequent):
        raise EmptyCorpus(
            f"none of {len(counts)} words occurs {min_word_count} times",
            f"min_word_count is at most {int(counts.counts.max())}, the most frequent word's count",
            "choose a smaller min_word_count, or leave it out",
        )
    if frequent is counts:
        return counts, NOTHING
    left_out = len(counts) - len(frequent), counts.total - frequent.total
    return frequent, PrunedWords(*left_out)
