"""Sentences of spans of a text, with the ids that stand around each; encodes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import sentence_spans
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.word_encoding import MarkedSpans

_BYTE_ORDER_MARK = "\ufeff".encode()


@dataclass(frozen=True, slots=True)
class SentenceMarks:
    """The ids around each sentence. A byte order mark at a document's begin is in none.

    Attributes:
        kind: of `sentence_spans`.
        line_begin, line_end: the ids.
        least: sentences of fewer characters are left out.
    """

    kind: str
    line_begin: int
    line_end: int
    least: int = 1

    def mark(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
        """The sentences of each span, and behind them an empty one that carries its id."""
        parts = [np.empty((0, 2), np.int64)]
        marks = [np.empty((0, 2), np.int64)]
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            if text.bytes(begin, begin + len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
                begin = min(begin + len(_BYTE_ORDER_MARK), end)
            found = sentence_spans(text, begin, end, self.kind)
            if self.least > 1:
                is_lead = (text.data[begin:end] & 0xC0) != 0x80
                leads = np.concatenate(([0], np.cumsum(is_lead)))
                found = found[np.diff(leads[found - begin], axis=1)[:, 0] >= self.least]
            around = np.tile(np.array([self.line_begin, self.line_end]), (len(found), 1))
            parts += [found, np.array([[end, end]])]
            marks += [around, np.array([[-1, id_]])]
        lasts = np.cumsum([len(part) for part in parts])[2::2] - 1
        before, behind = np.concatenate(marks).T.copy()
        return MarkedSpans(np.concatenate(parts), before, behind, lasts)
