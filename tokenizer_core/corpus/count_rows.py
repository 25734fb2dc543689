"""Words and counts of another program, as they stand in the bytes of a chunk; adds nothing up.

A row is the word in UTF-8, `COUNT_BEGIN`, its count in `COUNT_DIGITS` decimal digits, `RECORD_END`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.file_kinds import COUNT_BEGIN, COUNT_DIGITS, RECORD_END
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.errors import UnreadableSource
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text, invalid_utf8_at
from bpeline.tokenizer_core.vocabulary import find_special_tokens, shown

_TAIL = len(COUNT_BEGIN) + COUNT_DIGITS + len(RECORD_END)


@dataclass(frozen=True, slots=True, eq=False)
class GivenCounts:
    """The rows of a chunk, each word one pre-token.

    Attributes:
        text: with the words in it; what stands between them means nothing.
        spans: int64 ``[n, 2]``: where each word stands in the text, and in the chunk.
        counts: int64 ``[n]``, 1 or more.
    """

    text: Text
    spans: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def word_bytes(self) -> NDArray[np.uint8]:
        """The words, one after the other."""
        inside = np.zeros(self.text.size + 1, np.int8)
        inside[self.spans[:, 0]] = 1
        inside[self.spans[:, 1]] -= 1
        held = np.cumsum(inside[:-1], dtype=np.int8).astype(np.bool_)
        return np.ascontiguousarray(self.text.data[: self.text.size][held])


def given_counts(
    raw: Text, file: SourceFile, pattern: SplitPattern, special_tokens: tuple[bytes, ...]
) -> GivenCounts:
    """The rows in the bytes of a chunk.

    Args:
        raw: the chunk's bytes.
        file: where they stand, for messages.
        pattern: what the tokenizer will cut texts with: it leaves every word whole.
        special_tokens: no word holds one.

    Raises:
        UnreadableSource: a word that is not UTF-8, that the pattern cuts or drops, or that holds a
            special token.
        PatternExceedsLimit, WorkerLost, SegmenterUnavailable: as `Splitter.mark`.
    """
    data = np.array(raw.data[: raw.size])
    ends = np.flatnonzero(data == RECORD_END[0]) - (_TAIL - 1)
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + _TAIL))[: len(ends)]
    tails = sliding_window_view(data, _TAIL, writeable=True)
    digits = tails[ends][:, len(COUNT_BEGIN) : -len(RECORD_END)] - ord("0")
    counts = np.zeros(len(ends), np.int64)
    for column in digits.T:
        counts = 10 * counts + column
    tails[ends] = 0
    text = Text.of(data.tobytes())
    spans = np.ascontiguousarray(np.stack((begins, ends), axis=1))
    if (invalid := invalid_utf8_at(text)) >= 0:
        word = _word_at(invalid, text, spans)
        raise _refused(file, f"the word {shown(word)} is not UTF-8", "leave such rows out")
    _refuse_cut(text, spans, file, pattern)
    found = find_special_tokens(text, 0, text.size, special_tokens)
    if len(found):
        word = _word_at(int(found[0, 0]), text, spans)
        raise _refused(
            file,
            f"the word {shown(word)} holds a special token",
            "leave such rows out, or name other special tokens",
        )
    return GivenCounts(text, spans, counts)


def _refuse_cut(
    text: Text, spans: NDArray[np.int64], file: SourceFile, pattern: SplitPattern
) -> None:
    starts, dropped = (
        np.flatnonzero(np.unpackbits(marks.view(np.uint8), bitorder="little"))
        for marks in Splitter(pattern.within(None)).mark(text, spans)
    )
    begins = np.zeros(text.size + 1, np.bool_)
    begins[spans[:, 0]] = True
    cut = starts[~begins[starts]]
    not_whole = np.unique(np.concatenate((cut, dropped)))
    if not len(not_whole):
        return
    rows = np.unique(np.searchsorted(spans[:, 0], not_whole, "right") - 1)
    words = ", ".join(shown(_word_at(int(spans[row, 0]), text, spans)) for row in rows[:3].tolist())
    raise _refused(
        file,
        f"{len(rows):,} of {len(spans):,} words that were looked at are not one pre-token of the "
        f"split pattern {pattern.title!r}: {words}",
        "name the pattern that the words were cut with, as `--pattern '\\S+|\\s+'`, or cut them "
        "by this one: `bpeline count` and `WordCounts.to_arrow` do",
    )


def _word_at(place: int, text: Text, spans: NDArray[np.int64]) -> bytes:
    begin, end = spans[np.searchsorted(spans[:, 0], place, "right") - 1].tolist()
    return text.bytes(begin, end)


def _refused(file: SourceFile, what: str, advice: str) -> UnreadableSource:
    return UnreadableSource(
        f"{file.path}: {what}",
        "words in UTF-8, each one pre-token of the split pattern, without special tokens",
        advice,
    )
