"""Sentences of spans of a text, with the ids that stand around each; encodes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.splitting import (
    CutPairs,
    Punkt,
    SentenceBreaks,
    behind_lines,
    line_spans,
    sentence_spans,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.word_encoding import MarkedSpans

_BYTE_ORDER_MARK = "\ufeff".encode()


@dataclass(frozen=True, slots=True)
class SentenceMarks:
    """The ids around each sentence. A byte order mark at a document's begin is in none.

    Attributes:
        punkt: finds sentences; None: lines are sentences.
        line_begin, line_end: the ids.
        least: sentences of fewer characters are left out.
    """

    punkt: Punkt | None
    line_begin: int
    line_end: int
    least: int = 1

    def mark(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
        """The sentences of each span, and behind them an empty one that carries its id."""
        spans = spans.copy()
        for number, begin in enumerate(spans[:, 0].tolist()):
            if text.bytes(begin, begin + len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
                spans[number, 0] = min(begin + len(_BYTE_ORDER_MARK), spans[number, 1])
        if self.punkt is None:
            found = np.concatenate(
                [np.empty((0, 2), np.int64), *(line_spans(text, *span) for span in spans.tolist())]
            )
        else:
            found = sentence_spans(text, spans, self.punkt)
        if self.least > 1:
            is_lead = (text.data[: text.size] & 0xC0) != 0x80
            leads = np.concatenate(([0], np.cumsum(is_lead)))
            found = found[np.diff(leads[found], axis=1)[:, 0] >= self.least]
        places = np.searchsorted(found[:, 0], spans[:, 1])
        around = np.tile(np.array([self.line_begin, self.line_end]), (len(found), 1))
        parts = np.insert(found, places, np.stack((spans[:, 1],) * 2, axis=1), axis=0)
        none = np.full(len(spans), -1, np.int64)
        marks = np.insert(around, places, np.stack((none, behind), axis=1), axis=0)
        before, after = marks.T.copy()
        return MarkedSpans(parts, before, after, places + np.arange(len(spans)))

    @property
    def breaks(self) -> CutPairs | SentenceBreaks:
        """Where a text may be cut without changing its sentences."""
        return behind_lines() if self.punkt is None else SentenceBreaks(self.punkt)
