"""Chunks become word counts, in parallel; what an earlier run counted is not counted again."""

from __future__ import annotations

from dataclasses import dataclass

from flows import progress
from flows.plan_chunks import Bundle, CorpusPlan
from flows.steps import map_step, raise_if_stopped, step
from flows.summary import counted
from flows.training_request import TrainingRequest
from registry.catalogue_records import ChunkRecord, FileReading
from registry.opening import open_registry
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core.chunk_counts import count_chunk
from tokenizer_core.chunking import CHUNK_BYTES, read_chunks
from tokenizer_core.counting import compile_counting
from tokenizer_core.errors import CorruptFile
from tokenizer_core.reading import Reading
from tokenizer_core.regex_processes import abandon_matching

STEP = "count words"


@dataclass(frozen=True, slots=True)
class CountedChunk:
    """One chunk whose counts lie in the store.

    Attributes:
        path: of its file.
        record: digest and place.
        reused: whether its counts were there already.
    """

    path: str
    record: ChunkRecord
    reused: bool


@dataclass(frozen=True, slots=True)
class CountedCorpus:
    """All chunks of a corpus, counted.

    Attributes:
        readings: of every file, in the order of the plan.
        reused: how many chunks an earlier run had counted.
        unread: how many of these were in files that were not even read.
    """

    readings: tuple[FileReading, ...]
    reused: int
    unread: int

    @property
    def chunks(self) -> list[ChunkRecord]:
        return [chunk for reading in self.readings for chunk in reading.chunks]

    @property
    def corpus_bytes(self) -> int:
        """Bytes of text, decompressed."""
        return sum(chunk.end - chunk.begin for chunk in self.chunks)

    @property
    def outcome(self) -> str:
        number = len(self.chunks)
        said = f"{counted(number, 'chunk')}, {self.corpus_bytes / 1e6:,.1f} MB"
        if not self.reused:
            return said
        if self.unread == number:
            return f"{said}; counts reused: {self.reused} of {number} chunks, nothing read"
        return f"{said}; counts reused: {self.reused:,} of {number:,} chunks"


def count_words(plan: CorpusPlan, workspace: Workspace, request: TrainingRequest) -> CountedCorpus:
    """Count everything that is not counted yet and remember which file holds which chunks.

    Raises:
        CorpusError: a file that cannot be read as declared.
        DiskFull: no space; what was counted is kept.
    """
    corpus = count_chunks(plan, workspace, request)
    read = [one for one in corpus.readings if one.path not in plan.known]
    open_registry(workspace).catalogue.remember_file_readings(read)
    return corpus


def count_chunks(plan: CorpusPlan, workspace: Workspace, request: TrainingRequest) -> CountedCorpus:
    """Count everything that is not counted yet; arguments and errors as `count_words`."""
    reading = request.reading
    if plan.bundles:
        compile_counting(reading.pattern)
    parts: list[list[CountedChunk]] = map_step(
        count_bundle,
        plan.bundles,
        request.workers,
        on_interrupt=abandon_matching,
        workspace=workspace,
        reading=reading,
        table_bytes=request.table_memory << 20,
    )
    found: dict[str, list[CountedChunk]] = {}
    for part in parts:
        for chunk in part:
            found.setdefault(chunk.path, []).append(chunk)
    digest = reading.digest
    read = {
        file.path: FileReading.of(
            file, CHUNK_BYTES, digest, [chunk.record for chunk in found.get(file.path, [])]
        )
        for file in plan.files
        if file.path not in plan.known
    }
    unread = sum(len(reading.chunks) for reading in plan.known.values())
    reused = sum(chunk.reused for part in parts for chunk in part)
    readings = [plan.known.get(file.path) or read[file.path] for file in plan.files]
    return CountedCorpus(tuple(readings), unread + reused, unread)


@step(name=STEP, retries=1, retry_on=(CorruptFile,))
def count_bundle(
    bundle: Bundle, workspace: Workspace, reading: Reading, table_bytes: int
) -> list[CountedChunk]:
    """Count the chunks of a few groups, one chunk in memory at a time.

    Words that do not fit in ``table_bytes`` become several rows of the chunk's counts.

    Raises:
        CorpusError, DiskFull: see `count_words`.
    """
    listener = progress.current()
    store = WordCountStore(workspace)
    digest = reading.digest
    counted_chunks = []
    for group in bundle:
        for chunk, text in read_chunks(group, reading, CHUNK_BYTES):
            raise_if_stopped()
            reused = store.has(chunk.digest, digest)
            if not reused:
                store.put(count_chunk(chunk, text, reading, table_bytes), digest)
            record = ChunkRecord(chunk.digest, chunk.begin, chunk.end, chunk.ordinal)
            counted_chunks.append(CountedChunk(group.file.path, record, reused))
            listener.step_advanced(STEP, chunk.size)
    return counted_chunks


def positions(corpus: CountedCorpus) -> list[tuple[ChunkRecord, int]]:
    """Every chunk with the position of its first byte in the corpus.

    Files follow each other in the order of the plan, so positions do not depend on who counted
    what, or when.
    """
    placed = []
    base = 0
    for reading in corpus.readings:
        placed += [(chunk, base + chunk.begin) for chunk in reading.chunks]
        base += reading.chunks[-1].end if reading.chunks else 0
    return placed
