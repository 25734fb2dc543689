"""Count the words of a whole corpus in one call, in threads."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks, corpus
from bpeline.tokenizer_core.corpus import AnyPath
from bpeline.tokenizer_core.counting.document_stream import (
    Duplicates,
    FileDocuments,
    digest_documents,
    find_copies,
)
from bpeline.tokenizer_core.counting.text_streams import (
    TextCounter,
    count_texts,
    is_keyed,
    words_of,
)
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_tables import WordParts, load_kernels_of_rows
from bpeline.tokenizer_core.counting.work_queue import WorkQueue
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, MissingSource
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared, entry_kernels
from bpeline.tokenizer_core.kernels.memory.pages import BufferPool
from bpeline.tokenizer_core.kernels.scanning.automaton import mark_by_automaton
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.splitting import (
    MASK_KERNELS,
    SplitPattern,
    Splitter,
)

# Read, checked, marked and counted while it is in the shared last-level cache.
_CHUNK_BYTES = 4 << 20
# Each worker has to learn the frequent words: two count 7.5 MB only 2 to 4 ms sooner than one, and
# one takes 14 to 25 % less CPU time.
_CHUNKS_FOR_ONE = 1.5
_SMALL = 1 << 15  # bytes; mean size of files
_PIECES = 4  # of each of the last chunks
_LONGEST_PATH = 4096  # characters
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class FilesCounted:
    """Progress in bytes on disk; files are read twice with ``deduplicate``."""

    bytes: int
    total_bytes: int


def count_words(
    paths: AnyPath | Iterable[AnyPath] | Iterable[Any],
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Collection[str] = (),
    workers: int | None = None,
    *,
    invalid_utf8: Literal["strict", "replace", "ignore"] = "strict",
    text_field: str = "text",
    chunk_bytes: int = _CHUNK_BYTES,
    deduplicate: bool = False,
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = "",
    sentences: str = "none",
    on_progress: Callable[[Any], None] | None = None,
) -> WordCounts:
    """Count the words of files, exactly, on all processors.

    The result depends neither on ``workers`` nor on ``chunk_bytes``.

    Args:
        paths: files, directories or globs (see `find_source_files`), or one of them. A string, and
            strings in a list, tuple or set, are paths. Any other iterable of strings, and any
            iterable of mappings, is counted as texts, see `count_texts`.
        pattern: the name of a split pattern, a regex, or a `SplitPattern`.
        special_tokens: boundaries between documents; never part of a word.
        workers: maximum number of threads; None means one per available processor.
        invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD,
            ``ignore`` drops them.
        text_field: the member of a JSON line, or the column, with the documents.
        chunk_bytes: how much one thread reads at a time.
        deduplicate: whether to count exact copies of a document once. A document is the text
            between special tokens, file ends and JSON lines, so a file without any is one. All
            files are read twice, and each document takes 24 bytes of memory.
        text_form: the Unicode form to convert texts to, such as ``NFC``; empty for none.
        sentences: ``punkt``, ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``: split each sentence of
            NLTK's Punkt by itself, at 2 to 3 MB/s per core; for frequency BPE. ``none`` and
            ``lines``: split the text as a whole.
        on_progress: called in the calling thread with a `FilesCounted`, at most ten times a second
            and at the end; for texts with a `TextsCounted`. What it raises, and an interruption,
            end the counting after the current chunks.

    Returns:
        Words in order of their first occurrence; first positions are bytes of the decompressed
        corpus, file after file. Weights of sources are not applied.

    Raises:
        MissingSource, UnreadableSource, InvalidUtf8, CorpusChanged: the corpus cannot be read.
        EmptyCorpus: not a single word.
        InvalidOption, InvalidPattern, InvalidSpecialToken: settings that cannot be used.
    """
    deduplicate = checks.flag("deduplicate", deduplicate)
    chunk_bytes = checks.whole_number("chunk_bytes", chunk_bytes)
    checks.function("on_progress", on_progress)
    paths, texts = _paths_or_texts(paths)
    if texts is not None:
        if deduplicate:
            raise InvalidOption(
                "deduplicate was set, but texts were passed instead of files",
                "expected files, which are read twice",
                "leave out deduplicate, or write the texts to a file of JSON lines",
            )
        return count_texts(
            texts,
            pattern,
            special_tokens,
            workers,
            text_field=text_field,
            invalid_utf8=invalid_utf8,
            text_form=text_form,
            sentences=sentences,
            on_progress=on_progress,
        )
    reading = corpus.ReadOptions(
        SplitPattern.parse(pattern).within_named(sentences),
        tuple(checks.texts("special_tokens", special_tokens, ordered=False)),
        invalid_utf8,
        text_field,
        text_form=text_form,
    )
    sources = corpus.sources_of(paths)
    workers = thread_count(workers, "workers")
    try:
        files = corpus.find_source_files(sources)
    except MissingSource as error:
        advice = f"{error.next_step}; to count a list of texts, use count_texts([…])"
        raise MissingSource(error.happened, error.accepted, advice) from error
    progress = _FilesProgress(on_progress, sum(file.size for file in files) * (1 + deduplicate))
    copies = None
    if deduplicate:
        copies = find_copies(_digested(files, reading, chunk_bytes, workers, progress))
    counting = _FilesCounting(files, reading, chunk_bytes, copies, progress)
    counts = counting.words(workers)
    progress.finish()
    if not len(counts):
        raise EmptyCorpus(
            f"{', '.join(source.label for source in sources)} holds no words",
            "expected files with some text besides special tokens",
            f"wc -c {shlex.quote(sources[0].pattern)}",
        )
    return counts


def _paths_or_texts(given: Any) -> tuple[Any, Iterable[Any] | None]:
    """Return paths, or else the texts to count."""
    if isinstance(given, str | bytes | os.PathLike | corpus.Source) or not isinstance(
        given, Iterable
    ):
        return given, None
    if isinstance(given, list | tuple | set | frozenset):
        texts = any(isinstance(item, Mapping | list | tuple) for item in given)
        return given, given if texts else None
    if is_keyed(given):
        return given, given  # `count_texts` refuses it
    items = iter(given)
    first = next(items, "")
    everything = chain((first,), items)
    if isinstance(first, os.PathLike | corpus.Source):
        return list(everything), None
    if isinstance(first, str | bytes) and 0 < len(first) < _LONGEST_PATH and os.path.exists(first):
        raise InvalidOption(
            f"the first item, {first!r}, names a file but may be meant as a text",
            "expected files in a list or a tuple, or texts in any other iterable",
            "use count_words(list(paths)) or count_texts(texts)",
        )
    return given, everything


def compile_counting(pattern: SplitPattern) -> None:
    """Compile, or load, the kernels that every corpus needs; others at first use."""
    from bpeline.tokenizer_core.kernels.counting import word_rows as rows
    from bpeline.tokenizer_core.kernels.counting import word_table
    from bpeline.tokenizer_core.kernels.scanning.characters import invalid_utf8
    from bpeline.tokenizer_core.kernels.scanning.find_passages import (
        cut_sections,
        find_cut,
        fingerprint_spans,
    )
    from bpeline.tokenizer_core.kernels.tables import word_keys

    compile_declared(
        *(invalid_utf8, fingerprint_spans, cut_sections),
        *entry_kernels(word_table),
        *(rows.add_rows, rows.list_words, rows.pack_entries, rows.count_shares, rows.share_rows),
        *(rows.sort_by_digit, rows.gather_rows),
        *entry_kernels(word_keys),
    )
    pattern_key = pattern.name or pattern.regex
    if pattern_key in MASK_KERNELS:
        compile_declared(MASK_KERNELS[pattern_key][0])
    elif pattern.automaton is not None:
        compile_declared(mark_by_automaton, find_cut)  # some texts have no cut at a space


def threads_would_wait(size: int, files: int, pattern: SplitPattern) -> bool:
    """Whether one thread counts these files sooner than two.

    True for small files, which take longer to find, open and record than to count, unless other
    processes run the pattern.
    """
    return files > 1 and size < _SMALL * files and Splitter(pattern).is_native


def _with_small_last(
    numbered: list[tuple[int, corpus.Work]], chunk_bytes: int, workers: int
) -> list[tuple[int, corpus.Work]]:
    """Divide the last groups of plain files, so that workers end at the same time."""
    for size in (chunk_bytes, max(chunk_bytes // _PIECES, 1)):
        numbered[-workers:] = [
            (stretch, piece)
            for stretch, work in numbered[-workers:]
            for piece in (_pieces(work, size) if isinstance(work, corpus.ChunkGroup) else [work])
        ]
    return numbered


def _pieces(group: corpus.ChunkGroup, size: int) -> Iterator[corpus.ChunkGroup]:
    last = group.file.size if group.end is None else group.end
    for begin in range(group.begin, last, size):
        end = min(begin + size, last)
        yield corpus.ChunkGroup(
            group.file, begin, end if end < group.file.size else None, group.uncut
        )


def _stretches(pieces: Iterable[corpus.Work]) -> tuple[list[tuple[int, corpus.Work]], list[int]]:
    """Number work by the stretch its positions count in; return stretch lengths, too.

    A stretch is a file, a part of a file that has parts, or several small files. Its length is 0
    until it is known.
    """
    numbered: list[tuple[int, corpus.Work]] = []
    lengths: list[int] = []
    before = None
    for work in pieces:
        if not isinstance(work, corpus.ChunkGroup):
            lengths.append(sum(file.size for file in work))
        elif work.file is not before or work.file.has_parts:
            lengths.append(0 if work.file.is_streamed else work.file.size)
        before = work.file if isinstance(work, corpus.ChunkGroup) else None
        numbered.append((len(lengths) - 1, work))
    return numbered, lengths


class _FilesProgress:
    """Adds up what workers have read, and reports it in the thread that waits."""

    def __init__(
        self, on_progress: Callable[[FilesCounted], None] | None, total_bytes: int
    ) -> None:
        self._on_progress, self._total = on_progress, total_bytes
        self._done = self._told = 0
        self._told_at = time.monotonic()
        self._adding = threading.Lock()

    def add(self, size: int) -> None:
        with self._adding:
            self._done += size

    def queue(self) -> WorkQueue:
        return WorkQueue(None if self._on_progress is None else self._tell)

    def finish(self) -> None:
        if self._on_progress is not None:
            self._on_progress(FilesCounted(self._total, self._total))

    def _tell(self) -> None:
        assert self._on_progress is not None
        done, now = min(self._done, self._total), time.monotonic()
        if done > self._told and now - self._told_at >= _REPORT_SECONDS:
            self._told, self._told_at = done, now
            self._on_progress(FilesCounted(done, self._total))


def _digested(
    files: Sequence[corpus.SourceFile],
    reading: corpus.ReadOptions,
    chunk_bytes: int,
    workers: int,
    progress: _FilesProgress,
) -> list[tuple[str, FileDocuments]]:
    queue = progress.queue()
    documents: dict[int, FileDocuments] = {}

    def digest(number: int, file: corpus.SourceFile) -> None:
        def heard(size: int) -> None:
            progress.add(size)
            if not queue.wanted(number):
                raise _Unwanted

        documents[number] = digest_documents(file, reading, chunk_bytes, on_chunk=heard)

    queue.run(files, lambda: digest, workers)
    return [(file.path, documents[number]) for number, file in enumerate(files)]


class _Unwanted(Exception):
    """Another file has failed."""


class _FilesCounting:
    """Counts a corpus: hands out work in order and collects the words of all workers.

    While workers count, the text length of a compressed file, or of a part of a Parquet file, is
    unknown. So the upper bits of a position are the number of the stretch, and the lower bits the
    byte in it; in the end positions are converted to bytes of the corpus.
    """

    def __init__(
        self,
        files: Sequence[corpus.SourceFile],
        reading: corpus.ReadOptions,
        chunk_bytes: int,
        copies: Duplicates | None,
        progress: _FilesProgress,
    ) -> None:
        groups = corpus.plan_chunk_groups(files, chunk_bytes)
        # Copies are looked up by file.
        alone = copies is not None or not corpus.read_alike_together(reading)
        self._work, lengths = _stretches(
            groups if alone else corpus.with_small_together(groups, chunk_bytes)
        )
        self._reading, self._chunk_bytes = reading, chunk_bytes
        self._copies, self._progress = copies, progress
        self._splitter = Splitter(reading.pattern)
        self._size = sum(file.size for file in files)
        self._is_quick = (
            self._splitter.is_native
            and not reading.text_form
            and all(
                file.format == "text" and not file.is_streamed and not file.is_remote
                for file in files
            )
        )
        self._lengths = np.array(lengths, np.int64)
        self._byte_bits = 62 - len(lengths).bit_length()
        self._queue = progress.queue()
        self._reading_small = threading.Lock()

    def words(self, workers: int) -> WordCounts:
        """Count the words of the corpus in at most ``workers`` threads."""
        if self._is_quick:
            workers = min(workers, max(1, int(self._size // (_CHUNKS_FOR_ONE * self._chunk_bytes))))
            if threads_would_wait(self._size, len(self._lengths), self._reading.pattern):
                workers = 1
            if workers > 1 and self._copies is None:  # copies are looked up by whole chunk
                self._work = _with_small_last(self._work, self._chunk_bytes, workers)
        words = words_of(self._size, workers)
        self._queue.run(
            self._work,
            lambda: self._counter(words),
            workers,
            load_kernels_of_rows if self._size >= self._chunk_bytes else None,
        )
        moved = self._bytes_of_corpus if len(self._lengths) > 1 else None
        return words.rows(self._reading.pattern, moved, workers)

    def _counter(self, words: WordParts) -> Callable[[int, tuple[int, corpus.Work]], None]:
        """Return the function that one thread calls with each piece of work."""
        memory, counter = BufferPool(), TextCounter(self._splitter, words)

        def count(number: int, piece: tuple[int, corpus.Work]) -> None:
            stretch, work = piece
            if isinstance(work, corpus.ChunkGroup):
                self._count_group(number, stretch, work, counter, memory)
            else:
                self._count_together(stretch, work, counter, memory)

        return count

    def _count_group(
        self,
        number: int,
        stretch: int,
        group: corpus.ChunkGroup,
        counter: TextCounter,
        memory: BufferPool,
    ) -> None:
        """Count the chunks of a group, one after the other while they are wanted."""
        reading, origin = self._reading, stretch << self._byte_bits
        chunks = corpus.read_chunks(
            group,
            reading,
            self._chunk_bytes,
            with_digests=False,
            quick=self._copies is None,
            memory=memory,
        )
        for chunk, text in chunks:
            if not self._queue.wanted(number):
                return
            documents, _ = corpus.documents_between(text, reading.special_bytes)
            if self._copies is not None:
                copies = self._copies.within(group.file.path, chunk.ordinal)
                documents = corpus.without_copies(documents, copies)
            begin, end = origin + chunk.begin, origin + chunk.end
            counter.count(text.text, documents, text.anchors, begin, end)
            del text  # free it before the next chunk is read
            if group.file.is_streamed:
                self._lengths[stretch] = chunk.end
            self._progress.add(chunk.spent)

    def _count_together(
        self,
        stretch: int,
        files: Sequence[corpus.SourceFile],
        counter: TextCounter,
        memory: BufferPool,
    ) -> None:
        """Count small files, which follow each other in their stretch."""
        with self._reading_small:  # threads would contend at each file
            small = corpus.SmallFiles.read(files, self._reading, memory)
        documents, _ = small.documents(self._reading)
        begins = small.edges[:, 0]
        anchors = np.column_stack((begins, begins - np.arange(len(begins))))
        origin = stretch << self._byte_bits
        counter.count(small.text, documents, anchors, origin, origin + small.spent)
        self._progress.add(small.spent)

    def _bytes_of_corpus(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert positions to bytes of all files, one after the other."""
        begins = np.cumsum(self._lengths) - self._lengths
        byte = positions & np.int64((1 << self._byte_bits) - 1)
        byte += begins[positions >> np.int64(self._byte_bits)]
        return byte
