"""Word counts of a whole corpus in one call: plan, threads over groups of chunks, sum."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tokenizer_core.chunk_counts import count_chunk, count_spans
from tokenizer_core.chunking import CHUNK_BYTES, ChunkGroup, plan_chunk_groups, read_chunks
from tokenizer_core.corpus import Source, SourceFile, find_source_files
from tokenizer_core.errors import EmptyCorpus, InvalidOption
from tokenizer_core.reading import Reading
from tokenizer_core.special_tokens import validate_special_tokens
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text import Text
from tokenizer_core.word_counts import WordCounts
from tokenizer_core.word_sums import WordSum

# Each chunk begins with an empty table, so few large ones are faster than many small ones.
_SMALLEST_CHUNK = 4 << 20
_CHUNKS_PER_WORKER = 4  # enough for all threads to end at about the same time

AnyPath = str | os.PathLike[str] | Source


def count_words(
    paths: AnyPath | Iterable[AnyPath],
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Sequence[str] = (),
    workers: int | None = None,
    *,
    invalid_utf8: Literal["strict", "replace"] = "strict",
    text_field: str = "text",
    chunk_bytes: int | None = None,
) -> WordCounts:
    """Count the words of files, exactly, on all processors.

    Args:
        paths: files, directories or globs (see `find_source_files`), or one of them.
        pattern: the name of a split pattern, a regex, or a `SplitPattern`.
        special_tokens: boundaries between documents; never part of a word.
        workers: threads; None means one for each processor this process may use.
        invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD.
        text_field: the member of a JSON line that holds its document.
        chunk_bytes: how much one thread reads at a time; None means a size that suits the
            corpus. The result does not depend on it, nor on ``workers``.

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
    if isinstance(paths, str | os.PathLike | Source):
        paths = [paths]
    sources = [path if isinstance(path, Source) else Source(os.fspath(path)) for path in paths]
    workers = available_processors() if workers is None else workers
    if workers < 1:
        raise InvalidOption(
            f"workers is {workers}", "a number of threads from 1 upwards", "leave workers out"
        )
    files = find_source_files(sources)
    if chunk_bytes is None:
        shares = workers * _CHUNKS_PER_WORKER if workers > 1 else 1
        share = sum(file.size for file in files) // shares
        chunk_bytes = min(max(share, _SMALLEST_CHUNK), CHUNK_BYTES)
    compile_counting(reading.pattern)
    counts = _count_files(files, reading, workers, chunk_bytes)
    if not len(counts):
        raise EmptyCorpus(
            f"{', '.join(source.label for source in sources)} holds no words",
            "files with some text beside special tokens",
            f"wc -c {sources[0].pattern}",
        )
    return counts.in_order_of_sight()


def available_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_counting(pattern: SplitPattern) -> None:
    """Compile, or load, the kernels of counting; to be called before worker threads start."""
    words = WordSum(pattern)
    words.add(count_spans(Text.of(b"a word"), np.array([[0, 6]], np.int64), pattern))


@dataclass(frozen=True, slots=True)
class _GroupCounts:
    """The words of one group; first positions are bytes of its file, read up to ``end``."""

    file: SourceFile
    counts: WordCounts
    end: int


def _count_group(group: ChunkGroup, reading: Reading, chunk_bytes: int) -> _GroupCounts:
    only: WordCounts | None = None
    several: WordSum | None = None
    end = group.begin
    for chunk, text in read_chunks(group, reading, chunk_bytes, with_digests=False):
        part = count_chunk(chunk, text, reading).counts.shifted(chunk.begin)
        end = chunk.end
        if only is None:
            only = part  # most groups are one chunk, whose words are distinct already
            continue
        if several is None:
            several = WordSum(reading.pattern)
            several.add(only)
        several.add(part)
    if several is not None:
        only = several.result()
    return _GroupCounts(group.file, only or WordCounts.empty(reading.pattern), end)


def _count_files(
    files: Sequence[SourceFile], reading: Reading, workers: int, chunk_bytes: int
) -> WordCounts:
    groups = plan_chunk_groups(files, chunk_bytes)
    words = WordSum(reading.pattern)
    earlier = 0  # bytes of all files before the present one
    file, end = None, 0
    with ThreadPoolExecutor(workers, thread_name_prefix="count") as threads:
        for group in _in_order(threads, groups, reading, workers, chunk_bytes):
            if file is not group.file:
                earlier += end
                file, end = group.file, 0
            words.add(group.counts.shifted(earlier))
            end = max(end, group.end)
    return words.result()


def _in_order(
    threads: ThreadPoolExecutor,
    groups: Sequence[ChunkGroup],
    reading: Reading,
    workers: int,
    chunk_bytes: int,
) -> Iterator[_GroupCounts]:
    """Results in the order of groups; only a few are ever waiting in memory."""
    running: deque[Future[_GroupCounts]] = deque()
    try:
        for group in groups:
            running.append(threads.submit(_count_group, group, reading, chunk_bytes))
            if len(running) > 2 * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
