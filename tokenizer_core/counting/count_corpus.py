"""Word counts of a whole corpus in one call: plan, threads over groups of chunks, rows."""

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
from bpeline.tokenizer_core.kernels.memory.pages import Reused
from bpeline.tokenizer_core.kernels.scanning.automaton import mark_by_automaton
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.splitting import (
    MASK_KERNELS,
    SplitPattern,
    Splitter,
)

# Read, checked, marked and counted while it is still in the last cache that cores share.
_CHUNK_BYTES = 4 << 20
# Each worker learns the frequent words: two of them count 7.5 MB 2 to 4 ms sooner than one,
# which takes a seventh to a quarter less processor time.
_CHUNKS_FOR_ONE = 1.5
_SMALL = 1 << 15  # bytes of files, in the mean
_PIECES = 4  # of a chunk at the end
_LONGEST_PATH = 4096  # characters
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class FilesCounted:
    """How far counting is.

    Attributes:
        bytes: on disk, of all files, that were read and counted.
        total_bytes: how many there are; twice the size of the files where copies of documents are
            looked for first.
    """

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

    Args:
        paths: files, directories or globs (see `find_source_files`), or one of them. A string, and
            the strings in a list, tuple or set, name files; from any other iterable of strings,
            and from mappings, texts are counted, see `count_texts`, which takes lists, too.
        pattern: the name of a split pattern, a regex, or a `SplitPattern`.
        special_tokens: boundaries between documents; never part of a word.
        workers: threads at most; None means one for each processor this process may use.
        invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD,
            ``ignore`` leaves them out.
        text_field: the member of a JSON line, or the column, that holds documents.
        chunk_bytes: how much one thread reads at a time.
        deduplicate: whether to count a document once of which exact copies follow. A document is
            the text between special tokens, the ends of a file and JSON lines, so a file without
            any is one. All files are read twice, and 24 bytes are kept for each document.
        text_form: the Unicode form that texts are brought to first, such as ``NFC``; empty: none.
        sentences: ``punkt``, ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``: the pattern cuts each
            sentence by itself, as NLTK's Punkt finds them, at 2 to 3 MB/s for each core; for
            frequency BPE. ``none`` and ``lines``: it cuts the text as a whole.
        on_progress: called in the calling thread with a `FilesCounted`, at most ten times a second
            and at the end; for texts with a `TextsCounted`, see `count_texts`. What it raises, and
            an interruption, end the counting after the chunks that are being counted, and nothing
            is left behind.

    The result depends neither on ``workers`` nor on ``chunk_bytes``.

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
                "copies are looked for in files, and texts are given",
                "deduplicate is for files, which are read twice",
                "leave deduplicate out, or write the texts to a file of JSON lines",
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
    reading = corpus.Reading(
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
        advice = f"{error.next_step}; a list of texts is counted by count_texts([…])"
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
            "files with some text beside special tokens",
            f"wc -c {shlex.quote(sources[0].pattern)}",
        )
    return counts


def _paths_or_texts(given: Any) -> tuple[Any, Iterable[Any] | None]:
    """What names files, or else texts."""
    if isinstance(given, str | bytes | os.PathLike | corpus.Source) or not isinstance(
        given, Iterable
    ):
        return given, None
    if isinstance(given, list | tuple | set | frozenset):
        texts = any(isinstance(one, Mapping | list | tuple) for one in given)
        return given, given if texts else None
    if is_keyed(given):
        return given, given  # which is refused
    items = iter(given)
    first = next(items, "")
    everything = chain((first,), items)
    if isinstance(first, os.PathLike | corpus.Source):
        return list(everything), None
    if isinstance(first, str | bytes) and 0 < len(first) < _LONGEST_PATH and os.path.exists(first):
        raise InvalidOption(
            f"the first of what is given, {first!r}, names a file, and could be a text",
            "files are named in a list or a tuple; texts come from any other iterable",
            "write count_words(list(paths)), or count_texts(texts)",
        )
    return given, everything


def compile_counting(pattern: SplitPattern) -> None:
    """Compile, or load, the kernels of counting that every corpus needs.

    What some files alone need, JSON lines and those with special tokens among them, is compiled
    when the first of them is read.
    """
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
    known_by = pattern.name or pattern.regex
    if known_by in MASK_KERNELS:
        compile_declared(MASK_KERNELS[known_by][0])
    elif pattern.automaton is not None:
        compile_declared(mark_by_automaton, find_cut)  # there may be no cut at a space


def threads_would_wait(size: int, files: int, pattern: SplitPattern) -> bool:
    """Whether several files of so many bytes are counted sooner by one thread than by two.

    So are small ones, each of which takes longer to be found, opened and recorded than counted; but
    not by a pattern that other processes cut by.
    """
    return files > 1 and size < _SMALL * files and Splitter(pattern).is_native


def _with_small_last(
    numbered: list[tuple[int, corpus.Work]], chunk_bytes: int, workers: int
) -> list[tuple[int, corpus.Work]]:
    """Work on plain files, of which the last groups are cut into chunks, and the last of these
    smaller.

    One for each worker, so that they end at about the same time: one would count alone for half of
    what a group takes, in the mean.
    """
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
    """Work with the number of the stretch its positions count in; the length of each stretch.

    A stretch is a file, or a part of one that has parts, or several small files; 0 while its length
    is not known.
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
    """Adds up what worker threads have read, and tells it in the thread that waits for them."""

    def __init__(
        self, on_progress: Callable[[FilesCounted], None] | None, total_bytes: int
    ) -> None:
        self._on_progress, self._total = on_progress, total_bytes
        self._done = self._told = 0
        self._told_at = time.monotonic()
        self._adding = threading.Lock()

    def add(self, size: int) -> None:
        """Bytes on disk that a worker has done."""
        with self._adding:
            self._done += size

    def queue(self) -> WorkQueue:
        """A queue of work that tells of this progress."""
        return WorkQueue(None if self._on_progress is None else self._tell)

    def finish(self) -> None:
        """Tell that all is done."""
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
    reading: corpus.Reading,
    chunk_bytes: int,
    workers: int,
    progress: _FilesProgress,
) -> list[tuple[str, FileDocuments]]:
    """The documents of files by their digests."""
    queue = progress.queue()
    found: dict[int, FileDocuments] = {}

    def digest(number: int, file: corpus.SourceFile) -> None:
        def heard(size: int) -> None:
            progress.add(size)
            if not queue.wanted(number):
                raise _Unwanted

        found[number] = digest_documents(file, reading, chunk_bytes, on_chunk=heard)

    queue.run(files, lambda: digest, workers)
    return [(file.path, found[number]) for number, file in enumerate(files)]


class _Unwanted(Exception):
    """Another file has failed."""


class _FilesCounting:
    """A corpus being counted: pieces of work, handed out in order, and the words of all workers.

    While workers count, the length of the text of a compressed file, or of a part of a Parquet
    file, is not known. So the bits of a position are shared out between the number of that stretch
    and the byte in it, and become bytes of the corpus in the end.
    """

    def __init__(
        self,
        files: Sequence[corpus.SourceFile],
        reading: corpus.Reading,
        chunk_bytes: int,
        copies: Duplicates | None,
        progress: _FilesProgress,
    ) -> None:
        groups = corpus.plan_chunk_groups(files, chunk_bytes)
        # Copies are known by their file.
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
        """The words of the corpus, counted by so many threads at most."""
        if self._is_quick:
            workers = min(workers, max(1, int(self._size // (_CHUNKS_FOR_ONE * self._chunk_bytes))))
            if threads_would_wait(self._size, len(self._lengths), self._reading.pattern):
                workers = 1
            if workers > 1 and self._copies is None:  # which are known by their whole chunk
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
        """What one thread does with each piece of work."""
        memory, counter = Reused(), TextCounter(self._splitter, words)

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
        memory: Reused,
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
            del text  # before the next chunk is read
            if group.file.is_streamed:
                self._lengths[stretch] = chunk.end
            self._progress.add(chunk.spent)

    def _count_together(
        self, stretch: int, files: Sequence[corpus.SourceFile], counter: TextCounter, memory: Reused
    ) -> None:
        """Count small files, which follow each other in their stretch."""
        with self._reading_small:  # threads would wait for each other at each file
            small = corpus.SmallFiles.read(files, self._reading, memory)
        documents, _ = small.documents(self._reading)
        begins = small.edges[:, 0]
        anchors = np.column_stack((begins, begins - np.arange(len(begins))))
        origin = stretch << self._byte_bits
        counter.count(small.text, documents, anchors, origin, origin + small.spent)
        self._progress.add(small.spent)

    def _bytes_of_corpus(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions as bytes of all files one after the other, in the same order."""
        begins = np.cumsum(self._lengths) - self._lengths
        byte = positions & np.int64((1 << self._byte_bits) - 1)
        byte += begins[positions >> np.int64(self._byte_bits)]
        return byte
