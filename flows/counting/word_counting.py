"""Word counts of chunks, counted in parallel and reused from earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby

import numpy as np

from bpeline.flows import engines
from bpeline.flows.counting.chunk_plan import Bundle, CorpusPlan, file_parcels, keys_of
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import Progress, progress, raise_if_stopped, steps
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import ChunkRecord, FileReading
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import (
    ShardKeys,
    ShardRef,
    SmallShards,
    WordCountStore,
    digest_of_corpus,
    digest_without,
)
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import (
    Chunk,
    ChunkGroup,
    ReadOptions,
    SmallFiles,
    SourceFile,
    cut_chunks,
    documents_in,
    open_source,
    read_alike_together,
    with_small_together,
)
from bpeline.tokenizer_core.counting import (
    CopiedSections,
    Duplicates,
    FileDocuments,
    SmallChunks,
    compile_counting,
    count_chunk,
    counts_given,
    digest_documents,
    find_copies,
)
from bpeline.tokenizer_core.splitting import abandon_matching

# Up to this many chunks are written one by one, so that a killed run keeps all of them.
_FEW = 4
# From this many small files in a row, up to so many bytes, files are counted together. Compiling
# the kernels for that takes as long as counting thousands of files one by one.
_MANY, _MANY_TO_COMPILE_FOR = 16, 4096
_TOGETHER = 2 << 20


@dataclass(frozen=True, slots=True)
class CountedChunk:
    """A chunk whose counts are stored; ``reused`` if an earlier run counted it."""

    path: str
    record: ChunkRecord
    reused: bool


CountBundle = Callable[..., list[CountedChunk]]


@dataclass(frozen=True, slots=True)
class CountedCorpus:
    """All chunks of a corpus, counted.

    Attributes:
        reused: number of chunks counted by an earlier run.
        unread: number of these in files that were not read at all.
        copies: documents left out as copies; None without deduplication.
        of_counts: whether the chunks are rows of words and counts; their bytes are not text then.
    """

    readings: tuple[FileReading, ...]
    reused: int
    unread: int
    keys: tuple[tuple[str, ...], ...] = ()
    sources: tuple[str, ...] = ()
    copies: Duplicates | None = None
    of_counts: bool = False

    @property
    def digest(self) -> str:
        """Digest of the content of all files, in order, and of their sources."""
        return digest_of_corpus(self.readings, self.sources)

    @property
    def chunks(self) -> list[ChunkRecord]:
        return [chunk for reading in self.readings for chunk in reading.chunks]

    @property
    def corpus_bytes(self) -> int:
        """Bytes of text, decompressed."""
        return sum(chunk.end - chunk.begin for chunk in self.chunks)

    @property
    def copied_bytes(self) -> int:
        """Bytes of chunks that are exact copies of other chunks."""
        first = {chunk.digest: chunk.end - chunk.begin for chunk in self.chunks}
        return self.corpus_bytes - sum(first.values())

    @property
    def copies_remark(self) -> str:
        """Remark on the share of text in exact copies, or left out as copies.

        Without deduplication whole chunks are compared, so a copied small file is found, but not a
        passage copied into another file.
        """
        if self.copies is not None:
            return _left_out_remark(self.copies)
        chunks, copied = self.chunks, self.copied_bytes
        if not copied or self.of_counts:
            return ""
        copies = len(chunks) - len({chunk.digest for chunk in chunks})
        predicate = "is an exact copy" if copies == 1 else "are exact copies"
        return (
            f"{counted(copies, 'chunk')} of {len(chunks):,} {predicate} of "
            f"others: {copied:,} bytes, {copied / self.corpus_bytes:.1%} of the text, are counted "
            f"more than once (whole chunks are compared, not documents; --deduplicate compares "
            f"documents and counts each once)"
        )

    @property
    def outcome(self) -> str:
        number = len(self.chunks)
        summary = f"{counted(number, 'chunk')}, {megabytes(self.corpus_bytes)}"
        if self.of_counts:
            summary = f"{counted(number, 'chunk')} of words and counts"
        if not self.reused:
            return summary
        if self.unread == number:
            return f"{summary}; counts reused: {self.reused} of {number} chunks, nothing read"
        return f"{summary}; counts reused: {self.reused:,} of {number:,} chunks"


def count_words(
    plan: CorpusPlan,
    request: TrainingRequest,
    registry: Registry,
    count: CountBundle | None = None,
) -> CountedCorpus:
    """Count the chunks that have no counts yet, and record each file's chunks."""
    corpus = count_chunks(plan, request, registry.workspace, count)
    read = [reading for reading in corpus.readings if reading.path not in plan.known]
    registry.catalogue.remember_file_readings(read)
    return corpus


def count_chunks(
    plan: CorpusPlan,
    request: TrainingRequest,
    workspace: Workspace,
    count: CountBundle | None = None,
) -> CountedCorpus:
    """Like `count_words`, but does not record the chunks in the catalogue."""
    reading = plan.reading
    copies = _copies_in(plan, request) if reading.deduplicated else None
    parts: list[list[CountedChunk]] = engines.current(request.workers).map(
        count or count_bundle,
        plan.bundles,
        named=files_of,
        prepare=partial(_prepare, reading, _one_of_each_source(plan.bundles), workspace),
        on_interrupt=abandon_matching,
        most_threads=1 if plan.by_one_thread else None,
        workspace=workspace,
        reading=reading,
        table_bytes=request.table_memory << 20,
        copies=copies or Duplicates(),
    )
    chunks_of_file: dict[str, list[CountedChunk]] = {}
    for part in parts:
        for chunk in part:
            chunks_of_file.setdefault(chunk.path, []).append(chunk)
    ways = ShardKeys.of_sources(reading, {file.source for file in plan.files})
    read = {
        file.path: FileReading.of(
            file,
            reading.chunk_bytes,
            ways[file.source].digest,
            _in_a_row([chunk.record for chunk in chunks_of_file.get(file.path, [])]),
        )
        for file in plan.files
        if file.path not in plan.known
    }
    unread = sum(len(reading.chunks) for reading in plan.known.values())
    reused = sum(chunk.reused for part in parts for chunk in part)
    known = {**read, **plan.known}
    keys = keys_of(plan.files, known, reading)
    sources = tuple(file.source for file in plan.files) if request.sources else ()
    return CountedCorpus(
        tuple(known[file.path] for file in plan.files),
        unread + reused,
        unread,
        tuple(keys[file.path] for file in plan.files),
        sources,
        copies,
        bool(request.counts),
    )


def _prepare(reading: ReadOptions, some: Sequence[SourceFile], workspace: Workspace) -> None:
    """Compile the kernels; check that the corpus and the store can be read here."""
    for file in some:
        open_source(file, 0, reading.of_source(file.source).fields(file.format)).close()
    WordCountStore(workspace).has("", reading.digest)  # a query that needs the store
    compile_counting(reading.pattern)


def _one_of_each_source(bundles: Sequence[Bundle]) -> tuple[SourceFile, ...]:
    files = [group.file for bundle in bundles for group in bundle]
    return tuple({file.source: file for file in files if file.is_remote}.values())


def _in_a_row(chunks: Sequence[ChunkRecord]) -> list[ChunkRecord]:
    """Return the chunks of a file at consecutive positions."""
    placed: list[ChunkRecord] = []
    for chunk in chunks:
        begin = placed[-1].end if placed else 0
        if chunk.begin != begin:
            chunk = replace(chunk, begin=begin, end=begin + chunk.end - chunk.begin)
        placed.append(chunk)
    return placed


def _copies_in(plan: CorpusPlan, request: TrainingRequest) -> Duplicates:
    """Find documents that are copies of earlier ones; reads every file."""
    parts: list[list[FileDocuments]] = engines.current(request.workers).map(
        digest_bundle,
        file_parcels(plan.files),
        named=files_of,
        prepare=partial(compile_counting, plan.reading.pattern),
        on_interrupt=abandon_matching,
        reading=plan.reading,
    )
    paths = [file.path for file in plan.files]
    documents = [digests for part in parts for digests in part]
    return find_copies([*zip(paths, documents, strict=True)])


def _left_out_remark(copies: Duplicates) -> str:
    if not copies.documents:
        return ""
    is_single = copies.documents == 1
    predicate = "is an exact copy" if is_single else "are exact copies"
    return (
        f"{counted(copies.documents, 'document')} of {copies.of_documents:,} {predicate} of "
        f"earlier ones and {'was' if is_single else 'were'} left out: {copies.text_bytes:,} bytes, "
        f"{copies.text_bytes / copies.of_bytes:.1%} of the text"
    )


def sections_remark(copied: CopiedSections) -> str:
    """Return a remark on copies of sections inside distinct chunks; may be empty."""
    if not copied.copies:
        return ""
    predicate = "is an exact copy" if copied.copies == 1 else "are exact copies"
    return (
        f"{counted(copied.copies, 'section')} of {copied.sections:,} that were held out, chosen by "
        f"their content, {predicate} of others of them: about {copied.share:.1%} of the text "
        f"(estimated from {megabytes(copied.bytes)}) is counted more than once; --deduplicate "
        "counts each document once"
    )


def digest_bundle(bundle: Bundle, reading: ReadOptions) -> list[FileDocuments]:
    """Digest the documents of whole files, with one chunk in memory at a time."""
    documents = []
    for group in bundle:
        raise_if_stopped()
        own = reading.of_source(group.file.source)
        documents.append(digest_documents(group.file, own, own.chunk_bytes))
    return documents


def count_bundle(
    bundle: Bundle, workspace: Workspace, reading: ReadOptions, table_bytes: int, copies: Duplicates
) -> list[CountedChunk]:
    """Count the chunks of a bundle, with one chunk in memory at a time.

    A changed file is read from its beginning to find its unchanged chunks, which are not counted
    again. Words that do not fit in ``table_bytes`` become several rows of the chunk's counts. A
    chunk without its ``copies`` has its own digest, which depends on the copies left out.
    """
    ways = ShardKeys.of_sources(reading, {group.file.source for group in bundle})
    counted_chunks: list[CountedChunk] = []
    with WordCountStore(workspace).putting(together=len(bundle) > _FEW) as store:
        for _, groups in groupby(bundle, lambda group: ways[group.file.source].digest):
            some = list(groups)
            way = ways[some[0].file.source]
            counting = _ChunksCounting(store, way, table_bytes, copies)
            fewest = _MANY if SmallChunks.are_kernels_kept() else _MANY_TO_COMPILE_FOR
            alike = read_alike_together(way.reading) and not reading.deduplicated
            for work in with_small_together(some, _TOGETHER, fewest) if alike else some:
                if isinstance(work, ChunkGroup):
                    counted_chunks += counting.group(work)
                else:
                    counted_chunks += counting.together(work)
    return counted_chunks


class _ChunksCounting:
    """Counts chunks that share one way of reading, and writes the counts to a store."""

    def __init__(
        self, store: SmallShards, way: ShardKeys, table_bytes: int, copies: Duplicates
    ) -> None:
        self._store, self._way = store, way
        self._table_bytes, self._copies = table_bytes, copies
        self._listener = progress.current()

    def group(self, group: ChunkGroup) -> Iterator[CountedChunk]:
        """Count the chunks of a group that have no counts yet, in order."""
        store, size = self._store, self._way.reading.chunk_bytes
        for chunk, raw in cut_chunks(group, self._way.reading, size):
            raise_if_stopped()
            remaining = _Told(self._listener, chunk.size)
            left_out = self._copies.within(group.file.path, chunk.ordinal)
            chunk = replace(chunk, digest=digest_without(chunk.digest, left_out))
            own, digest = self._way.reading_of(chunk.digest)
            reused = store.has(chunk.digest, digest)
            if not reused and group.file.format == "counts":
                with store.written(chunk.digest, digest) as rows:
                    store.put(counts_given(chunk, raw, own), digest, rows)
            elif not reused:
                documents = documents_in(chunk, raw, own)
                with store.written(chunk.digest, digest) as rows:
                    limits = self._table_bytes, rows.add
                    counts = count_chunk(
                        chunk, documents, own, *limits, left_out, remaining.advance
                    )
                store.put(counts, digest, rows)
            yield _counted(chunk, reused)
            remaining.advance(chunk.size)

    def together(self, files: Sequence[SourceFile]) -> Iterator[CountedChunk]:
        """Count small files, which are read and counted together."""
        raise_if_stopped()
        small = self._small.read(files)
        chunks = small.chunks()
        digests = [self._way.reading_of(chunk.digest)[1] for chunk in chunks]
        there = set[str]()
        for digest in {*digests}:
            there |= self._store.there(
                [
                    chunk_of_digest.digest
                    for chunk_of_digest, own in zip(chunks, digests, strict=True)
                    if own == digest
                ],
                digest,
            )
        alone = self._holding_passages(small)
        wanted, spent = [], small.spent
        for number, (chunk, digest) in enumerate(zip(chunks, digests, strict=True)):
            if chunk.digest in there:
                yield _counted(chunk, True)
            elif number in alone and digest != self._way.plain_digest:
                spent -= chunk.size
                yield from self.group(ChunkGroup(chunk.file))
            else:
                wanted.append(number)
                there.add(chunk.digest)  # for a copy
                yield _counted(chunk, False)
        for counts in self._small.count(small, chunks, wanted):
            self._store.put(counts, self._way.reading_of(counts.chunk.digest)[1])
        self._listener.step_advanced(steps.COUNT_WORDS.name, spent)

    def _holding_passages(self, small: SmallFiles) -> set[int]:
        """Return the numbers of the files that contain a part of the evaluation set."""
        reading = self._way.reading
        if reading.left_out is None or not reading.leaves_out:
            return set()
        return set(np.flatnonzero(reading.left_out.touches(small.text, small.edges)).tolist())

    @cached_property
    def _small(self) -> SmallChunks:
        return SmallChunks(self._way.plain)


def _counted(chunk: Chunk, reused: bool) -> CountedChunk:
    record = ChunkRecord(chunk.digest, chunk.begin, chunk.end, chunk.ordinal)
    return CountedChunk(chunk.file.path, record, reused)


@dataclass(slots=True)
class _Told:
    """The uncounted rest of a chunk, in bytes, for progress reports."""

    listener: Progress
    left: int

    def advance(self, text_bytes: int) -> None:
        """Report progress; sizes of decompressed text or JSON are cut to the chunk's size."""
        raise_if_stopped()
        amount = min(text_bytes, self.left)
        self.left -= amount
        self.listener.step_advanced(steps.COUNT_WORDS.name, amount)


def files_of(bundle: Bundle) -> str:
    """Return the files of a bundle, for messages."""
    paths = list(dict.fromkeys(group.file.path for group in bundle))
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    place = f" from byte {bundle[0].begin:,}" if len(paths) == 1 and bundle[0].begin else ""
    return ", ".join(paths[:3]) + more + place


def placed_shards(corpus: CountedCorpus) -> list[list[ShardRef]]:
    """Return the counts of each file's chunks with their positions in the corpus."""
    placed = []
    base = 0
    for reading, keys in zip(corpus.readings, corpus.keys, strict=True):
        placed.append(
            [
                ShardRef(key, base + chunk.begin)
                for key, chunk in zip(keys, reading.chunks, strict=True)
            ]
        )
        base += reading.chunks[-1].end if reading.chunks else 0
    return placed
