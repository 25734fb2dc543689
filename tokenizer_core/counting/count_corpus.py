"""Word counts of a whole corpus in one call: plan, threads over groups of chunks, sum."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    AnyPath,
    ChunkGroup,
    Reading,
    Source,
    SourceFile,
    documents_between,
    find_source_files,
    plan_chunk_groups,
    read_chunks,
    sources_of,
    without_copies,
)
from bpeline.tokenizer_core.counting.document_copies import Copies, digest_documents, find_copies
from bpeline.tokenizer_core.counting.text_counter import TABLE_BYTES, TextCounter
from bpeline.tokenizer_core.counting.text_streams import count_texts
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_tables import WordTable
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, MissingSource
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared, entry_kernels
from bpeline.tokenizer_core.kernels.scanning.automaton import mark_by_automaton
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting import (
    MASK_KERNELS,
    SplitPattern,
    Splitter,
    abandon_matching,
)
from bpeline.tokenizer_core.vocabulary import validate_special_tokens

# Read, checked, marked and counted while it is still in the last cache that cores share; memory
# of this size is used again and again by the allocator, where larger pieces go back to the system.
_CHUNK_BYTES = 4 << 20
_LONGEST_PATH = 4096  # characters


def count_words(
    paths: AnyPath | Iterable[AnyPath] | Iterable[Any],
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Sequence[str] = (),
    workers: int | None = None,
    *,
    invalid_utf8: Literal["strict", "replace"] = "strict",
    text_field: str = "text",
    chunk_bytes: int = _CHUNK_BYTES,
    table_bytes: int = TABLE_BYTES,
    deduplicate: bool = False,
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = "",
) -> WordCounts:
    """Count the words of files, exactly, on all processors.

    Args:
        paths: files, directories or globs (see `find_source_files`), or one of them. A list or a
            tuple of strings names files; from any other iterable of strings, and from mappings,
            texts are counted, see `count_texts`.
        pattern: the name of a split pattern, a regex, or a `SplitPattern`.
        special_tokens: boundaries between documents; never part of a word.
        workers: threads; None means one for each processor this process may use.
        invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD.
        text_field: the member of a JSON line, or the column, that holds documents.
        chunk_bytes: how much one thread reads at a time.
        table_bytes: most memory that the words of one thread take, apart from the result: when
            they would take more, they are added to the result early. At least 2 MiB are used.
        deduplicate: whether to count a document once of which exact copies follow. A document is
            the text between special tokens, the ends of a file and JSON lines, so a file without
            any is one. All files are read twice, and 24 bytes are kept for each document.
        text_form: the Unicode form that texts are brought to first, such as ``NFC``; empty: none.

    The result depends neither on ``workers`` nor on ``chunk_bytes`` and ``table_bytes``.

    Returns:
        Words in order of their first occurrence; first positions are bytes of the decompressed
        corpus, file after file. Weights of sources are not applied.

    Raises:
        MissingSource, UnreadableSource, InvalidUtf8, CorpusChanged: the corpus cannot be read.
        EmptyCorpus: not a single word.
        InvalidOption, InvalidPattern, InvalidSpecialToken: settings that cannot be used.
    """
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
            table_bytes=table_bytes,
            text_form=text_form,
        )
    reading = Reading(
        SplitPattern.parse(pattern),
        validate_special_tokens(special_tokens) if special_tokens else (),
        invalid_utf8,
        text_field,
        text_form=text_form,
    )
    sources = sources_of(paths)
    workers = available_processors() if workers is None else workers
    if workers < 1:
        raise InvalidOption(
            f"workers is {workers}", "a number of threads from 1 upwards", "leave workers out"
        )
    try:
        files = find_source_files(sources)
    except MissingSource as error:
        advice = f"{error.next_step}; a list of texts is counted by count_texts([…])"
        raise MissingSource(error.happened, error.accepted, advice) from error
    copies = None
    if deduplicate:
        with ThreadPoolExecutor(workers, thread_name_prefix="digest") as threads:
            digest = partial(digest_documents, reading=reading, chunk_bytes=chunk_bytes)
            documents = threads.map(digest, files)
            paths = (file.path for file in files)
            copies = find_copies([*zip(paths, documents, strict=True)])
    counts = _Counting(files, reading, chunk_bytes, table_bytes, copies).words(workers)
    if not len(counts):
        raise EmptyCorpus(
            f"{', '.join(source.label for source in sources)} holds no words",
            "files with some text beside special tokens",
            f"wc -c {sources[0].pattern}",
        )
    return counts


def _paths_or_texts(given: Any) -> tuple[Any, Iterable[Any] | None]:
    """What names files, or else texts.

    Raises:
        InvalidOption: an iterator whose first string names a file: it could be either.
    """
    if isinstance(given, str | bytes | os.PathLike | Source):
        return given, None
    if isinstance(given, list | tuple | set | frozenset):
        texts = any(isinstance(one, Mapping | list | tuple) for one in given)
        return given, given if texts else None
    items = iter(given)
    first = next(items, "")
    everything = chain((first,), items)
    if isinstance(first, os.PathLike | Source):
        return list(everything), None
    if isinstance(first, str | bytes) and 0 < len(first) < _LONGEST_PATH and os.path.exists(first):
        raise InvalidOption(
            f"the first of what is given, {first!r}, names a file, and could be a text",
            "files are named in a list or a tuple; texts come from any other iterable",
            "write count_words(list(paths)), or count_texts(texts)",
        )
    return given, everything


def compile_counting(pattern: SplitPattern) -> None:
    """Compile, or load, every kernel that counting can call; before worker threads start."""
    from bpeline.tokenizer_core.kernels.counting import word_rows, word_table, word_walk
    from bpeline.tokenizer_core.kernels.scanning import (
        find_cuts,
        find_specials,
        fingerprint,
        json_lines,
        utf8,
    )
    from bpeline.tokenizer_core.kernels.tables import word_keys

    scanning = (utf8, json_lines, find_specials, find_cuts, fingerprint)
    for module in (*scanning, word_walk, word_table, word_rows, word_keys):
        compile_declared(*entry_kernels(module))
    if pattern.name in MASK_KERNELS:
        compile_declared(MASK_KERNELS[pattern.name][0])
    elif pattern.automaton is not None:
        compile_declared(mark_by_automaton)


def _stretches(groups: Sequence[ChunkGroup]) -> tuple[list[tuple[int, ChunkGroup]], list[int]]:
    """Groups with the number of the stretch their positions count in; the length of each stretch.

    A stretch is a file, or a part of one that has parts; 0 while its length is not known.
    """
    numbered: list[tuple[int, ChunkGroup]] = []
    lengths: list[int] = []
    before = None
    for group in groups:
        if group.file is not before or group.file.has_parts:
            lengths.append(0 if group.file.is_streamed else group.file.size)
        before = group.file
        numbered.append((len(lengths) - 1, group))
    return numbered, lengths


class _Counting:
    """A corpus being counted: its groups, handed out in order, and the words of all workers.

    While workers count, nobody knows how long the text of a compressed file is, or that of a part
    of a Parquet file. So the bits of a position are shared out between the number of that stretch
    and the byte in it, and become bytes of the corpus in the end.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        reading: Reading,
        chunk_bytes: int,
        table_bytes: int,
        copies: Copies | None,
    ) -> None:
        groups = plan_chunk_groups(files, chunk_bytes)
        self._groups, lengths = _stretches(groups)
        self._reading, self._chunk_bytes, self._table_bytes = reading, chunk_bytes, table_bytes
        self._copies = copies
        self._splitter = Splitter(reading.pattern)
        self._size = sum(file.size for file in files)
        self._lengths = np.array(lengths, np.int64)
        self._byte_bits = 62 - len(lengths).bit_length()
        self._next = 0
        self._failed = len(groups)  # the first group with an error
        self._errors: dict[int, Exception] = {}
        self._total: WordTable | None = None
        self._handing_out, self._adding = threading.Lock(), threading.Lock()

    def words(self, workers: int) -> WordCounts:
        """The words of the corpus, counted by so many threads."""
        with ThreadPoolExecutor(workers, thread_name_prefix="count") as threads:
            try:
                text_bytes = self._size // workers
                shares = [threads.submit(self._count_share, text_bytes) for _ in range(workers)]
                for share in shares:
                    share.result()
            except BaseException:  # interrupted
                self._fail(0)
                abandon_matching()
                raise
        if self._errors:
            raise self._errors[min(self._errors)]
        table = self._total or WordTable()
        moved = self._bytes_of_corpus if len(self._lengths) > 1 else None
        return table.rows(self._reading.pattern, moved)

    def _count_share(self, text_bytes: int) -> None:
        """What one worker does: count one group after the other into a table of its own."""
        reading = self._reading
        counter = TextCounter(self._splitter, self._add, text_bytes, self._table_bytes)
        while (number := self._take()) is not None:
            stretch, group = self._groups[number]
            origin = stretch << self._byte_bits
            chunks = read_chunks(
                group, reading, self._chunk_bytes, with_digests=False, quick=self._copies is None
            )
            try:
                for chunk, text in chunks:
                    if number >= self._failed:
                        return
                    documents, _ = documents_between(text, reading.special_bytes)
                    if self._copies is not None:
                        copies = self._copies.within(group.file.path, chunk.ordinal)
                        documents = without_copies(documents, copies)
                    counter.count(text.text, documents, text.anchors, origin + chunk.begin)
                    if group.file.is_streamed:
                        self._lengths[stretch] = chunk.end
            except Exception as error:
                self._errors[number] = error
                self._fail(number)
        self._add(counter.table)

    def _take(self) -> int | None:
        """The number of the next group; None when there is no more, or no more is wanted."""
        with self._handing_out:
            if self._next >= self._failed:
                return None
            self._next += 1
            return self._next - 1

    def _fail(self, number: int) -> None:
        """End the work, but for groups before this one: the first error is the one to tell."""
        with self._handing_out:
            self._failed = min(self._failed, number)

    def _add(self, table: WordTable) -> None:
        """Add a table, which belongs to the total from now on."""
        with self._adding:
            if self._total is None:
                self._total = table.unbounded()
            else:
                self._total.absorb(table)

    def _bytes_of_corpus(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions as bytes of all files one after the other, in the same order."""
        begins = np.cumsum(self._lengths) - self._lengths
        byte = positions & np.int64((1 << self._byte_bits) - 1)
        byte += begins[positions >> np.int64(self._byte_bits)]
        return byte
