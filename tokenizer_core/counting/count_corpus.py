"""Word counts of a whole corpus in one call: plan, threads over groups of chunks, sum."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    AnyPath,
    ChunkGroup,
    Reading,
    SourceFile,
    find_source_files,
    hold_out,
    plan_chunk_groups,
    read_chunks,
    sources_of,
)
from bpeline.tokenizer_core.counting.chunk_counts import documents_between
from bpeline.tokenizer_core.counting.text_counter import TABLE_BYTES, TextCounter
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_order import compile_sorting
from bpeline.tokenizer_core.counting.word_tables import FEWEST_BITS, WordTable
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.model import find_special_tokens, validate_special_tokens
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting import SplitPattern, abandon_matching
from bpeline.tokenizer_core.text import Text, invalid_utf8_at

# Read, checked, marked and counted while it is still in the last cache that cores share; memory
# of this size is used again and again by the allocator, where larger pieces go back to the system.
_CHUNK_BYTES = 4 << 20


def count_words(
    paths: AnyPath | Iterable[AnyPath],
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Sequence[str] = (),
    workers: int | None = None,
    *,
    invalid_utf8: Literal["strict", "replace"] = "strict",
    text_field: str = "text",
    chunk_bytes: int = _CHUNK_BYTES,
    table_bytes: int = TABLE_BYTES,
) -> WordCounts:
    """Count the words of files, exactly, on all processors.

    Args:
        paths: files, directories or globs (see `find_source_files`), or one of them.
        pattern: the name of a split pattern, a regex, or a `SplitPattern`.
        special_tokens: boundaries between documents; never part of a word.
        workers: threads; None means one for each processor this process may use.
        invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD.
        text_field: the member of a JSON line that holds its document.
        chunk_bytes: how much one thread reads at a time.
        table_bytes: most memory that the words of one thread take, apart from the result: when
            they would take more, they are added to the result early. At least 2 MiB are used.

    The result depends neither on ``workers`` nor on the last two.

    Returns:
        Words in order of their first occurrence; first positions are bytes of the decompressed
        corpus, file after file. Weights of sources are not applied.

    Raises:
        MissingSource, UnreadableSource, InvalidUtf8, CorpusChanged: the corpus cannot be read.
        EmptyCorpus: not a single word.
        InvalidOption, InvalidPattern, InvalidSpecialToken: settings that cannot be used.
    """
    reading = Reading(
        SplitPattern.parse(pattern),
        validate_special_tokens(special_tokens),
        invalid_utf8,
        text_field,
    )
    sources = sources_of(paths)
    workers = available_processors() if workers is None else workers
    if workers < 1:
        raise InvalidOption(
            f"workers is {workers}", "a number of threads from 1 upwards", "leave workers out"
        )
    files = find_source_files(sources)
    share = sum(file.size for file in files) // workers
    compile_counting(reading.pattern)
    settings = _Settings(reading, chunk_bytes, table_bytes, share)
    counts = _count_files(files, settings, workers)
    if not len(counts):
        raise EmptyCorpus(
            f"{', '.join(source.label for source in sources)} holds no words",
            "files with some text beside special tokens",
            f"wc -c {sources[0].pattern}",
        )
    return counts


def compile_counting(pattern: SplitPattern) -> None:
    """Compile, or load, every kernel that counting can call; before worker threads start."""
    text, anchors = Text.of(b"a word, another"), np.zeros((1, 2), np.int64)
    spans = np.array([[0, text.size]], np.int64)
    invalid_utf8_at(text)
    find_special_tokens(text, 0, text.size, (b"<|endoftext|>",))
    if pattern.cut_pairs is not None:
        pattern.cut_pairs.first(text.bytes(), 0, text.size)
    training, _ = hold_out(text, spans, 1, pattern.cut_pairs)
    total = WordTable()
    counter = TextCounter(pattern, total.absorb, text.size)
    counter.count(text, training, anchors)
    counter.table.make_room(1 << FEWEST_BITS, 0)
    total.absorb(counter.table)
    total.add(total.rows(pattern))
    _ = total.rows(pattern).digest
    compile_sorting()


@dataclass(frozen=True, slots=True)
class _Settings:
    """What all workers share and nobody changes."""

    reading: Reading
    chunk_bytes: int
    table_bytes: int
    text_bytes: int  # about what one worker will read


class _Corpus:
    """The groups of a corpus, handed out in order, and the places of their words.

    While workers count, nobody knows how long the text of a compressed file is. So the bits of a
    position are shared out between the number of the file and the byte in it, and become bytes
    of the corpus in the end.
    """

    def __init__(self, files: Sequence[SourceFile], groups: Sequence[ChunkGroup]) -> None:
        number = {id(file): index for index, file in enumerate(files)}
        self._groups = [(number[id(group.file)], group) for group in groups]
        self._lengths = np.array([0 if file.compression else file.size for file in files], np.int64)
        self._byte_bits = 62 - len(files).bit_length()
        self._next = 0
        self._failed = len(groups)  # the first group with an error
        self._lock = threading.Lock()

    def take(self) -> int | None:
        """The number of the next group; None when there is no more, or no more is wanted."""
        with self._lock:
            if self._next >= self._failed:
                return None
            self._next += 1
            return self._next - 1

    def group(self, number: int) -> tuple[ChunkGroup, int]:
        """A group, and the position of its file's first byte."""
        file, group = self._groups[number]
        return group, file << self._byte_bits

    def is_wanted(self, number: int) -> bool:
        """Whether a group must be counted to its end: no earlier one has failed."""
        return number < self._failed

    def counted(self, number: int, end: int) -> None:
        """A group was counted up to byte ``end`` of its file."""
        file, group = self._groups[number]
        if group.file.compression is not None:
            self._lengths[file] = end

    def fail(self, number: int = 0) -> None:
        """End the work, but for groups before this one: the first error is the one to tell."""
        with self._lock:
            self._failed = min(self._failed, number)

    def bytes_of_corpus(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions as bytes of all files one after the other, in the same order."""
        begins = np.cumsum(self._lengths) - self._lengths
        byte = positions & np.int64((1 << self._byte_bits) - 1)
        byte += begins[positions >> np.int64(self._byte_bits)]
        return byte


class _Total:
    """The words of all workers."""

    def __init__(self) -> None:
        self._table: WordTable | None = None
        self._lock = threading.Lock()

    def add(self, table: WordTable) -> None:
        """Add a table, which belongs to the total from now on."""
        with self._lock:
            if self._table is None:
                self._table = table.unbounded()
            else:
                self._table.absorb(table)

    def table(self) -> WordTable:
        return self._table or WordTable()


def _count_files(files: Sequence[SourceFile], settings: _Settings, workers: int) -> WordCounts:
    groups = plan_chunk_groups(files, settings.chunk_bytes)
    corpus, total = _Corpus(files, groups), _Total()
    errors: list[tuple[int, Exception]] = []
    with ThreadPoolExecutor(workers, thread_name_prefix="count") as threads:
        try:
            shares = [
                threads.submit(_count_share, corpus, settings, total, errors)
                for _ in range(workers)
            ]
            for share in shares:
                share.result()
        except BaseException:  # interrupted
            corpus.fail()
            abandon_matching()
            raise
    if errors:
        raise min(errors, key=lambda error: error[0])[1]
    pattern = settings.reading.pattern
    return total.table().rows(pattern, corpus.bytes_of_corpus if len(files) > 1 else None)


def _count_share(
    corpus: _Corpus, settings: _Settings, total: _Total, errors: list[tuple[int, Exception]]
) -> None:
    """What one worker does: count one group after the other into a table of its own."""
    reading = settings.reading
    counter = TextCounter(reading.pattern, total.add, settings.text_bytes, settings.table_bytes)
    while (number := corpus.take()) is not None:
        group, origin = corpus.group(number)
        try:
            for chunk, text in read_chunks(
                group, reading, settings.chunk_bytes, with_digests=False
            ):
                if not corpus.is_wanted(number):
                    return
                documents, _ = documents_between(text, reading.special_bytes)
                counter.count(text.text, documents, text.anchors, origin + chunk.begin)
                corpus.counted(number, chunk.end)
        except Exception as error:
            errors.append((number, error))
            corpus.fail(number)
    total.add(counter.table)
