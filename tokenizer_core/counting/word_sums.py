"""A running sum of word counts in memory: parts go in one by one, each word comes out once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpeline.tokenizer_core.counting.source_weights import weighted
from bpeline.tokenizer_core.counting.word_counts import COUNT_LIMIT, WordCounts
from bpeline.tokenizer_core.counting.word_tables import WordTable, too_many
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern


class WordSum:
    """Adds `WordCounts` up; memory is that of the distinct words so far and of one part.

    Parts may be added from one thread only. First positions must already be positions in the
    whole corpus (`WordCounts.shifted`).
    """

    def __init__(self, pattern: SplitPattern) -> None:
        self._pattern = pattern
        self._table = WordTable()
        self._total = 0

    def add(self, part: WordCounts) -> None:
        """Add one part.

        Raises:
            InvalidOption: the part has another split pattern, or all counts together exceed
                2⁶³ − 1 (so no single sum can overflow either).
        """
        self._count(part)
        self._table.add(part)

    def _count(self, part: WordCounts) -> None:
        if part.pattern != self._pattern:
            raise InvalidOption(
                "word counts made by different split patterns cannot be added up",
                f"every part must have the pattern {self._pattern.name or self._pattern.regex!r}",
                "count the corpus again with one pattern",
            )
        self._total += part.total
        if self._total > COUNT_LIMIT:
            raise too_many(self._total)

    def result(self) -> WordCounts:
        """The sum so far, rows in order of first position; the sum may go on afterwards."""
        return self._table.rows(self._pattern)


def combine_word_counts(
    parts: Sequence[WordCounts], weights: Sequence[float] | None = None
) -> WordCounts:
    """Add up word counts in memory; the first position of a word is its smallest one.

    Args:
        parts: counts under one pattern, whose first positions are already positions in the whole
            corpus. A part may also be given several times.
        weights: a factor for each part, which is then all of one source: its counts are multiplied
            and rounded as `source_weights.weighted` says before they are added to the others.

    Returns:
        Each word once, rows in order of first position; no part at all gives empty counts.

    Raises:
        InvalidOption: different patterns, an impossible weight, or a sum above 2⁶³ − 1.
    """
    if not parts:
        return WordCounts.empty()
    if weights is not None and len(weights) != len(parts):
        raise InvalidOption(
            f"{len(weights)} weights for {len(parts)} word counts",
            "one weight for each",
            "leave out weights to count everything once",
        )
    words = WordSum(parts[0].pattern)
    for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True):
        words.add(weighted(part, weight))
    return words.result()
