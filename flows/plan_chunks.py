"""Which files make the corpus, and which of their chunks still have to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.demo_corpus import DEMO, demo_corpus
from flows.steps import MOST_TASKS, step
from flows.summary import counted
from flows.training_request import TrainingRequest
from registry.catalogue_records import FileReading
from registry.opening import open_registry
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core.chunking import CHUNK_BYTES, ChunkGroup, plan_chunk_groups
from tokenizer_core.corpus import Source, SourceFile, find_source_files

Bundle = tuple[ChunkGroup, ...]


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """The corpus as it was found.

    Attributes:
        files: in the order in which positions count.
        known: files that have not changed since an earlier run counted all of their chunks.
        bundles: what is to be read, in parcels of about equal size for the workers.
        bytes_to_read: bytes on disk of these.
    """

    files: tuple[SourceFile, ...]
    known: Mapping[str, FileReading]
    bundles: tuple[Bundle, ...]
    bytes_to_read: int

    @property
    def outcome(self) -> str:
        size = sum(file.size for file in self.files)
        if not self.bundles:
            return f"{counted(len(self.files), 'file')}, all counted before"
        share = "" if not self.known else f", {len(self.known):,} of them counted before"
        return f"{counted(len(self.files), 'file')}, {size / 1e6:,.1f} MB{share}"


@step(name="plan chunks")
def plan_chunks(request: TrainingRequest, workspace: Workspace) -> CorpusPlan:
    """Find the files and recall what is known of them; reads none.

    Raises:
        MissingSource, UnreadableSource: see `find_source_files`.
    """
    paths = [str(demo_corpus(workspace)) if path == DEMO else path for path in request.paths]
    files = find_source_files([Source(path) for path in paths])
    digest = request.reading.digest
    recalled = open_registry(workspace).catalogue.recall_file_readings(files, CHUNK_BYTES, digest)
    store = WordCountStore(workspace)
    known = {
        path: reading
        for path, reading in recalled.items()
        if all(store.has(chunk.digest, digest) for chunk in reading.chunks)
    }
    return plan_reading(files, known)


def plan_reading(files: Sequence[SourceFile], known: Mapping[str, FileReading]) -> CorpusPlan:
    """How the files that are not known yet are shared out."""
    unread = [file for file in files if file.path not in known]
    groups = plan_chunk_groups(unread, CHUNK_BYTES, MOST_TASKS)
    return CorpusPlan(tuple(files), known, _bundled(groups), sum(file.size for file in unread))


def _bundled(groups: Sequence[ChunkGroup]) -> tuple[Bundle, ...]:
    """Neighbouring groups together, so that at most `MOST_TASKS` parcels of similar size arise."""
    total = sum(map(_size, groups))
    limit = -(-total // MOST_TASKS)
    bundles: list[list[ChunkGroup]] = []
    filled = limit
    for group in groups:
        if filled >= limit and len(bundles) < MOST_TASKS:
            bundles.append([])
            filled = 0
        bundles[-1].append(group)
        filled += _size(group)
    return tuple(map(tuple, bundles))


def _size(group: ChunkGroup) -> int:
    """Bytes on disk, and a little for opening the file."""
    end = group.file.size if group.end is None else group.end
    return end - group.begin + 4096
