"""Spans of a text with the ids that stand around each; encodes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.splitting import CutPairs, SentenceBreaks
from bpeline.tokenizer_core.text import Text


@dataclass(frozen=True, slots=True, eq=False)
class MarkedSpans:
    """Spans and the ids around them.

    Attributes:
        spans: int64 ``[n, 2]``.
        before, behind: int64 ``[n]``: an id before and behind each, or −1.
        lasts: int64: which of them end the spans that were asked for.
    """

    spans: NDArray[np.int64]
    before: NDArray[np.int64]
    behind: NDArray[np.int64]
    lasts: NDArray[np.int64]

    def where(self, ends: NDArray[np.int64]) -> MarkedSpans:
        """The same without marks around sentences that have no word.

        Args:
            ends: int64 ``[n]``: how many words lie before the end of each span.
        """
        wordless = (np.diff(ends, prepend=0) == 0) & (self.before >= 0)
        if not wordless.any():
            return self
        before, behind = (np.where(wordless, -1, ids) for ids in (self.before, self.behind))
        return MarkedSpans(self.spans, before, behind, self.lasts)


class Marks(Protocol):
    """Puts ids around parts of spans, such as sentences."""

    def mark(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
        """The parts of each span, and behind them an empty one that carries its id."""

    @property
    def breaks(self) -> CutPairs | SentenceBreaks:
        """Where a text may be cut without changing the parts."""


def unmarked(text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
    """Spans as they are."""
    nothing = np.full(len(spans), -1, np.int64)
    return MarkedSpans(spans, nothing, np.ascontiguousarray(behind), np.arange(len(spans)))
