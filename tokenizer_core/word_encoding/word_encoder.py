"""Text to ids word by word: distinct words are numbered, each is encoded once, ids are copied.

Knows nothing of how one word becomes pieces: `WordAlgorithm` does. Nothing is remembered between
calls, so any number of threads may encode at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import whole_number
from bpeline.tokenizer_core.counting import FULL, empty_entries
from bpeline.tokenizer_core.encoding import Encoder, PlacedIds
from bpeline.tokenizer_core.kernels.counting.number_words import (
    PROGRESS,
    copy_pieces,
    number_words,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import move_words
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.word_encoding.marked_spans import MarkedSpans, Marks, unmarked
from bpeline.tokenizer_core.word_encoding.word_algorithm import Pieces, WordAlgorithm

_BYTES_PER_WORD = 16  # of text for each distinct word, as a first guess
_TABLE_BITS = 6, 19


@dataclass(frozen=True, slots=True, eq=False)
class NumberedWords:
    """A text as numbers of its distinct words.

    Attributes:
        numbers: uint32: the word of each pre-token.
        begins: int64: where each pre-token stands, in bytes.
        ends: int64 ``[n_spans]``: how many pre-tokens lie before the end of each span.
        places, lengths: int64 ``[n_words]``: where each word stands first, and its bytes.
    """

    numbers: NDArray[np.uint32]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]


def number_marked(
    text: Text,
    spans: NDArray[np.int64],
    starts: NDArray[np.uint64],
    dropped: NDArray[np.uint64],
) -> NumberedWords:
    """Number the words of spans in order of sight; bitmaps are of `Splitter.mark`."""
    room = int(np.bitwise_count(starts).sum())
    numbers = np.empty(room, np.uint32)
    begins, places, lengths = (np.empty(room, np.int64) for _ in range(3))
    ends = np.empty(len(spans), np.int64)
    fewest, most = _TABLE_BITS
    bits = min(max((text.size // _BYTES_PER_WORD).bit_length(), fewest), most)
    table = empty_entries(bits)
    state = np.zeros(1, PROGRESS)
    state["position"] = -1
    spans = np.ascontiguousarray(spans, np.int64)
    marked = text.data, starts, dropped, spans
    while not number_words(
        *marked, table, HASH_KEY, int(FULL * (1 << bits)),
        state, numbers, begins, places, lengths, ends,
    ):  # fmt: skip
        bits += 1
        smaller, table = table, empty_entries(bits)
        move_words(smaller, table, HASH_KEY)
    seen, words = int(state["pre_tokens"][0]), int(state["words"][0])
    return NumberedWords(numbers[:seen], begins[:seen], ends, places[:words], lengths[:words])


class WordEncoder(Encoder):
    """Encodes text word by word.

    Args:
        algorithm: makes pieces of words.
        pattern: how spans are cut into words.
        marks: ids around parts of a text, such as sentences; None for none.
    """

    def __init__(
        self,
        algorithm: WordAlgorithm,
        pattern: SplitPattern,
        marks: Marks | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.pattern = pattern
        self._splitter = Splitter(pattern)
        self.marks = marks

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        marked, words, pieces = self._encoded(text, spans, behind)
        copied = int(np.diff(pieces.edges)[words.numbers].sum())
        ids = np.empty(copied + 2 * len(marked.spans), np.uint32)
        ends = np.empty(len(marked.spans), np.int64)
        around = marked.before, marked.behind
        copy_pieces(words.numbers, words.ends, *around, pieces.ids, pieces.edges, ids, ends)
        return ids[: ends[-1] if len(ends) else 0], ends[marked.lasts]

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        pieces = self.algorithm.pieces_of(
            Text.of(b"".join(words)), np.cumsum(lengths) - lengths, lengths
        )
        return pieces.ids, pieces.edges[1:].copy()

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """The ids of `encode`, and where they stand; an id behind a span up to the next span."""
        marked, words, pieces = self._encoded(text, spans, behind)
        firsts = np.zeros(len(pieces.ends), np.int64)
        firsts[1:] = pieces.ends[:-1]
        firsts[pieces.edges[:-1]] = 0
        counts = np.diff(pieces.edges)[words.numbers]
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        chosen = np.repeat(pieces.edges[:-1][words.numbers] - edges[:-1], counts)
        chosen += np.arange(edges[-1])
        begins = np.repeat(words.begins, counts)
        places = np.stack((begins + firsts[chosen], begins + pieces.ends[chosen]), axis=1)
        closes = np.zeros(len(chosen), np.bool_)
        closes[edges[1:] - 1] = True
        # What stands around the spans goes in between.
        last = edges[words.ends]
        first = np.concatenate((np.zeros(1, np.int64), last[:-1]))
        around = np.stack((marked.before, marked.behind), axis=1)
        put = around >= 0
        at = np.stack((first, last), axis=1)[put]
        begin, end = marked.spans.T
        stops = end.copy()  # the marks of sentences are not in the text
        stops[marked.lasts] = np.append(begin[1:], text.size)[marked.lasts]
        around_places = np.stack((begin, begin, end, stops), axis=1).reshape(len(end), 2, 2)
        return PlacedIds(
            np.insert(pieces.ids[chosen], at, around[put].astype(np.uint32)),
            np.insert(places, at, around_places[put], axis=0),
            np.insert(closes, at, True),
        )

    def _encoded(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[MarkedSpans, NumberedWords, Pieces]:
        """Spans or sentences with what stands around them, their words, and the pieces of these."""
        mark = unmarked if self.marks is None else self.marks.mark
        marked = mark(text, spans, behind)
        marks = self._splitter.mark(text, marked.spans)
        words = number_marked(text, marked.spans, *marks)
        pieces = self.algorithm.pieces_of(text, words.places, words.lengths)
        return marked.where(words.ends), words, pieces


def longest_prefix_of_words(
    content: bytes, max_tokens: int, placed: PlacedIds, count: Callable[[bytes], int]
) -> str:
    """The longest prefix of at most ``max_tokens`` tokens that ends with a word.

    Words are independent, so the tokens up to the end of a word are those of the text up to
    there; only marks around sentences may come to more, so the prefix is counted again.

    Args:
        content: UTF-8.
        placed: its tokens.
        count: counts the tokens of a prefix.

    Raises:
        InvalidOption: ``max_tokens`` is negative.
    """
    max_tokens = whole_number("max_tokens", max_tokens, 0, "write max_tokens=512")
    if len(placed.ids) <= max_tokens:
        return content.decode()
    ends = placed.places[:max_tokens, 1][placed.closes[:max_tokens]]
    for end in np.unique(ends)[::-1].tolist():
        # A token of a single byte may end within a character.
        whole = end == len(content) or content[end] & 0xC0 != 0x80
        if whole and count(content[:end]) <= max_tokens:
            return content[:end].decode()
    return ""
