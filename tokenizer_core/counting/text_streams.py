"""Count the words of texts into tables, by one thread or in batches by several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus import ReadOptions, TextBatch, batches_of, documents_between
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_tables import WordParts, empty_entries
from bpeline.tokenizer_core.counting.work_queue import WorkQueue
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_table import (
    ALL_COUNTED,
    FRESH,
    NOWHERE,
    QUEUE,
    WALK,
    add_waiting,
    count_marked,
)
from bpeline.tokenizer_core.kernels.memory.pages import in_lines
from bpeline.tokenizer_core.kernels.tables.word_queue import QUEUE_BYTES
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text

# Memory for the words of one worker until they are passed on: about 2.5 million words, and 128 MiB
# of words longer than 15 bytes.
TABLE_BYTES = 256 << 20

# The front table fits a core's L2 cache. The main table begins as large as the text suggests,
# unless touching new memory would cost more than growing later.
_FRONT_BITS = 13
_MAIN_BITS = 10, 19
_BYTES_PER_WORD = 16  # of text for each distinct word; initial guess
_LINE = 8  # int64 of a cache line
_SMALLEST_BOUND = 1 << 21  # entries for twice the words that front and queue can hold

_GUESSED_BYTES = 64 << 20  # of text; the real size is unknown


def words_of(text_bytes: int, threads: int = 1, table_bytes: int | None = None) -> WordParts:
    """Create the tables for the words of about ``text_bytes`` of text.

    ``table_bytes`` is the memory limit of the words of one thread; at least 2 MiB are used.
    """
    fewest, most = _MAIN_BITS
    bits = min(max((text_bytes // _BYTES_PER_WORD).bit_length(), fewest), most)
    bound = None if table_bytes is None else max(table_bytes, _SMALLEST_BOUND)
    return WordParts(bits, threads, bound)


class TextCounter:
    """Counts the pre-tokens of texts, which come in the order of the corpus.

    Attributes:
        words: the words so far; complete while no counter that shares them is in `count`.
    """

    def __init__(
        self,
        splitter: Splitter,
        words: WordParts,
        pass_on: Callable[[WordParts], WordParts] | None = None,
    ) -> None:
        """Create an empty counter; threads may share ``words`` without a memory limit.

        ``pass_on`` receives words that would exceed their limit and returns empty ones to go on
        with, so a word may be passed on several times.
        """
        self._splitter, self._pass_on = splitter, pass_on
        parts = len(words.tables)
        self._front = empty_entries(min(words.bits, _FRONT_BITS))
        # Whole cache lines, so that threads do not share one.
        self._queue = in_lines(4 * QUEUE * parts, np.uint64)
        self._waiting = in_lines(max(2 * parts, _LINE), np.int64)[: 2 * parts].reshape(parts, 2)
        self._ahead = in_lines(QUEUE_BYTES // 8, np.uint64)
        self._walk = in_lines(_LINE, np.int64)[: WALK.itemsize // 8].view(WALK)
        self.words = words

    def count(
        self,
        text: Text,
        spans: NDArray[np.int64],
        anchors: NDArray[np.int64],
        origin: int = 0,
        end: int = NOWHERE,
    ) -> None:
        """Count the pre-tokens of spans of a text.

        Args:
            text: UTF-8, at least within the spans.
            spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
            anchors: int64 ``[m, 2]``, as in `ChunkText`.
            origin: added to the positions of the anchors; below 2⁶², and beyond all earlier texts.
            end: beyond all positions in this text, but not beyond those in later texts, which
                another thread may have counted.
        """
        starts, dropped = self._splitter.mark(text, spans)
        self._walk[:] = np.zeros(1, WALK)
        self._walk["begin"] = FRESH
        place = (anchors, origin, end)
        near = (self._front, self._queue, self._waiting)
        walk = (text.data, starts, dropped, spans, *place, *near, self._ahead, self._walk)
        while (part := count_marked(*walk, self.words.used)) != ALL_COUNTED:
            waiting, waiting_bytes = self._waiting[part].tolist()
            if not self.words.make_room(part, waiting, waiting_bytes):
                self._settle(text, place)
                assert self._pass_on is not None
                self.words = self._pass_on(self.words)
                self._front[:] = 0
        self._settle(text, place)

    def _settle(self, text: Text, place: tuple[NDArray[np.int64], int, int]) -> None:
        """Add all queued words and the front's counts, even if tables become crowded."""
        near, part = (self._front, self._queue, self._waiting), 0
        while (part := add_waiting(text.data, *place, *near, self.words.used, part)) != ALL_COUNTED:
            waiting, waiting_bytes = self._waiting[part].tolist()
            hot = int(np.count_nonzero(self._front[4 * part + 2 :: 4 * len(self._waiting)]))
            with self.words.held(part) as table:
                table.make_room_anyway(waiting + hot, waiting_bytes)
        if self._pass_on is not None:
            for table in self.words.tables:
                table.tell()  # restores the limit


def is_keyed(given: Any) -> bool:
    """Whether iterating gives keys or column names instead of texts."""
    return isinstance(given, Mapping) or hasattr(given, "columns")


@dataclass(frozen=True, slots=True)
class TextsCounted:
    """Progress of counting: texts and bytes of UTF-8 that were read."""

    texts: int
    bytes: int


def count_texts(
    texts: Iterable[Any],
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Collection[str] = (),
    workers: int | None = None,
    *,
    text_field: str = "text",
    invalid_utf8: Literal["strict", "replace", "ignore"] = "strict",
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = "",
    sentences: str = "none",
    on_progress: Callable[[TextsCounted], None] | None = None,
) -> WordCounts:
    """Count the words of texts, exactly, on all processors, a few texts at a time.

    Equals `count_words` on a file of JSON lines with these texts.

    Args:
        texts: an iterable of strings, of UTF-8 bytes, of mappings with the text in a field, or of
            lists of these (a generator, a ``datasets.Dataset``, its batches).
        pattern, special_tokens, workers, invalid_utf8, text_form, sentences: as for `count_words`.
        text_field: the key of mappings.
        on_progress: called in the calling thread after about each MiB. What it or the iterable
            raises ends the counting.

    Returns:
        Words in order of their first occurrence; first positions are bytes of all texts together.

    Raises:
        EmptyCorpus: not a single word.
        InvalidOption, InvalidPattern, InvalidSpecialToken, InvalidUtf8: a setting or an item that
            cannot be used.

    Example:
        >>> count_texts(["low lower", {"text": "lowest"}]).to_mapping()
        {b'low': 1, b' lower': 1, b'lowest': 1}
    """
    checks.iterable("texts", texts, "texts")
    checks.function("on_progress", on_progress)
    if is_keyed(texts):
        keys = list(map(str, islice(texts, 3)))
        raise InvalidOption(
            f"a {type(texts).__name__} iterates over its keys {keys}, not over texts",
            "expected an iterable of texts, or of mappings with a text each: one split of a data "
            "set, one column of a table",
            "count_texts(dataset['train'])",
        )
    reading = ReadOptions(
        SplitPattern.parse(pattern).within_named(sentences),
        tuple(checks.texts("special_tokens", special_tokens, ordered=False)),
        invalid_utf8,
        text_field,
        text_form=text_form,
    )
    workers = thread_count(workers, "workers")
    splitter, words = Splitter(reading.pattern), words_of(_GUESSED_BYTES, workers)

    def batches() -> Iterator[TextBatch]:
        for batch in batches_of(texts, reading):
            yield batch
            if on_progress is not None:
                on_progress(TextsCounted(batch.texts, batch.begin + batch.size))

    def start() -> Callable[[int, TextBatch], None]:
        counter = TextCounter(splitter, words)

        def count(_: int, batch: TextBatch) -> None:
            text = batch.read(reading)
            documents, _specials = documents_between(text, reading.special_bytes)
            end = batch.begin + batch.size
            counter.count(text.text, documents, text.anchors, batch.begin, end)

        return count

    WorkQueue().run(batches(), start, workers)
    counts = words.rows(reading.pattern, threads=workers)
    if not len(counts):
        raise EmptyCorpus(
            "the texts hold no words",
            "expected texts with something besides special tokens",
            "look at the first texts; an exhausted iterator gives none",
        )
    return counts
