"""Word counts of texts that a program hands over: batches, counted by threads; reads no files."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.corpus import Reading, TextBatch, batches_of, documents_between
from bpeline.tokenizer_core.counting.text_counter import TextCounter, words_of
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_parts import WordParts
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter, abandon_matching

_WAITING = 2  # batches for each worker that may wait for it
_GUESSED_BYTES = 64 << 20  # of text: nobody knows how much will come


def is_keyed(given: Any) -> bool:
    """Whether iterating gives names: of a mapping's keys (all splits of a data set), of columns."""
    return isinstance(given, Mapping) or hasattr(given, "columns")


@dataclass(frozen=True, slots=True)
class TextsCounted:
    """How far counting is: texts and bytes of UTF-8 that were taken."""

    texts: int
    bytes: int


@checked
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
    """Count the words of texts, exactly, on all processors, holding a few of them at a time.

    The same as `count_words` of a file of JSON lines with these texts.

    Args:
        texts: an iterable of strings, of UTF-8 bytes, of mappings with the text in a field, or of
            lists of these (a generator, a ``datasets.Dataset``, its batches).
        pattern, special_tokens, workers, invalid_utf8, text_form, sentences: as for `count_words`.
        text_field: the key of mappings.
        on_progress: called in the calling thread after about each MiB; what it raises ends the
            counting, as does what the iterable raises.

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
    if is_keyed(texts):
        keys = list(map(str, islice(texts, 3)))
        raise InvalidOption(
            f"a {type(texts).__name__} is given where texts are counted; it iterates over its keys "
            f"{keys}",
            "an iterable of texts, or of mappings with a text each: one split of a data set, one "
            "column of a table",
            "count_texts(given['train'])",
        )
    reading = Reading(
        SplitPattern.parse(pattern).within_named(sentences),
        tuple(special_tokens),
        invalid_utf8,
        text_field,
        text_form=text_form,
    )
    workers = thread_count(workers, "workers")
    counts = _TextsCounting(reading).words(batches_of(texts, reading), workers, on_progress)
    if not len(counts):
        raise EmptyCorpus(
            "the texts hold no words",
            "texts with something beside special tokens",
            "look at the first of them; an iterator that was used up gives none",
        )
    return counts


class _TextsCounting:
    """Batches being counted: those that wait, and the words of all workers."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._splitter = Splitter(reading.pattern)
        self._failed = threading.Event()

    def words(
        self,
        batches: Iterator[TextBatch],
        workers: int,
        on_progress: Callable[[TextsCounted], None] | None,
    ) -> WordCounts:
        """The words of all batches, counted by so many threads."""
        waiting: queue.Queue[TextBatch | None] = queue.Queue(_WAITING * workers)
        words = words_of(_GUESSED_BYTES, workers)
        with ThreadPoolExecutor(workers, thread_name_prefix="count") as threads:
            try:  # from here on: workers that nobody hands anything wait until they are told to end
                counting = [threads.submit(self._count, waiting, words) for _ in range(workers)]
                for batch in batches:
                    if not self._hand_over(batch, waiting):
                        break
                    if on_progress is not None:
                        on_progress(TextsCounted(batch.texts, batch.begin + batch.size))
                for _ in counting:
                    self._hand_over(None, waiting)
                for one in counting:
                    one.result()
            except BaseException:  # of the iterable, of who listens, of a worker, or interrupted
                self._failed.set()
                abandon_matching()
                raise
        return words.rows(self._reading.pattern, threads=workers)

    def _hand_over(self, batch: TextBatch | None, waiting: queue.Queue[TextBatch | None]) -> bool:
        """Put a batch where workers take them; False where one of these has failed."""
        while not self._failed.is_set():
            try:
                waiting.put(batch, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _count(self, waiting: queue.Queue[TextBatch | None], words: WordParts) -> None:
        """What a worker does until there is no more."""
        special_bytes = self._reading.special_bytes
        counter = TextCounter(self._splitter, words)
        try:
            while not self._failed.is_set():
                try:
                    batch = waiting.get(timeout=0.1)
                except queue.Empty:
                    continue
                if batch is None:
                    break
                text = batch.read(self._reading)
                documents, _ = documents_between(text, special_bytes)
                end = batch.begin + batch.size
                counter.count(text.text, documents, text.anchors, batch.begin, end)
        except BaseException:
            self._failed.set()
            raise
