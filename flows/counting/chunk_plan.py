"""Which files make the corpus, and which of their chunks still have to be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bpeline.flows import engines
from bpeline.flows.counting.document_notes import unknown_special
from bpeline.flows.requests import TrainingRequest, with_demo
from bpeline.flows.running import MOST_TASKS
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import Catalogue, FileReading
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import ShardFiles, ShardKeys
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    DecontaminationSet,
    FoundFiles,
    Reading,
    SkippedFiles,
    Source,
    SourceFile,
    look_for_special,
    plan_chunk_groups,
    search_sources,
    split_of,
)
from bpeline.tokenizer_core.counting import threads_would_wait

Recall = Callable[[Sequence[SourceFile], int, str], dict[str, FileReading]]
Bundle = tuple[ChunkGroup, ...]

_MOST_REMARKS = 5


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """The corpus as it was found.

    Attributes:
        files: in the order in which positions count.
        known: files that have not changed since an earlier run counted all of their chunks.
        bundles: what is to be read, in parcels of about equal size for the workers.
        bytes_to_read: bytes on disk of these.
        reading: how all of them are read.
        by_one_thread: whether one thread counts them sooner than two.
        skipped, shared: what else the search for them met, see `FoundFiles`.
    """

    files: tuple[SourceFile, ...]
    known: Mapping[str, FileReading]
    bundles: tuple[Bundle, ...]
    bytes_to_read: int
    reading: Reading
    by_one_thread: bool = False
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    shared: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        size = sum(file.size for file in self.files)
        if not self.bundles:
            return f"{counted(len(self.files), 'file')}, all counted before"
        share = "" if not self.known else f", {len(self.known):,} of them counted before"
        return f"{counted(len(self.files), 'file')}, {megabytes(size)}{share}"


def plan_chunks(
    request: TrainingRequest, registry: Registry, left_out: DecontaminationSet | None = None
) -> CorpusPlan:
    """Find the files and recall what is known of them; reads none.

    Args:
        left_out: passages that are not to be trained on.

    Raises:
        MissingSource, UnreadableSource: see `find_files`.
    """
    workspace = registry.workspace
    found = find_files(request, workspace)
    files = found.files
    reading = replace(request.reading, left_out=left_out)
    known = known_readings(files, reading, workspace, registry.catalogue)
    plan = plan_reading(files, known, reading, engines.current(request.workers))
    return replace(plan, skipped=found.skipped, shared=found.shared)


def find_files(request: TrainingRequest, workspace: Workspace) -> FoundFiles:
    """The files of the corpus, and what is not read.

    Raises:
        MissingSource, UnreadableSource: see `search_sources`, and `SkippedFiles.refuse` where the
            request is strict.
    """
    found = search_sources(sources_of(request, workspace))
    if request.strict:
        found.skipped.refuse()
    return found


def remarks_on(
    found: FoundFiles | CorpusPlan, request: TrainingRequest, reading: Reading
) -> list[str]:
    """What people should know of what was asked, and of the files that were found, a line each."""
    said = (
        request.forbid_remark,
        found.skipped.remark,
        *shared_remarks(found),
        splits_remark(found.files, request),
        special_remark(found.files, reading, request.extends),
        whole_documents_remark(request, reading),
    )
    return [remark for remark in said if remark]


def shared_remarks(found: FoundFiles | CorpusPlan) -> list[str]:
    """Which sources name files that belong to earlier ones: a line for each of the first few."""
    own = {file.source for file in found.files}
    remarks = []
    for source in dict.fromkeys(source for source, _ in found.shared):
        owners = {owner: n for (one, owner), n in found.shared.items() if one == source}
        files = counted(sum(owners.values()), "file")
        first = f"{' and '.join(owners)} {'names' if len(owners) == 1 else 'name'} first"
        left = "for the first" if source in own else f"and no text is left to {source}"
        remarks.append(f"source {source} names {files}, which {first}: a file is read once, {left}")
    more = len(remarks) - _MOST_REMARKS
    if more > 0:
        remarks[_MOST_REMARKS:] = [f"{counted(more, 'more source')} name files of earlier ones"]
    return remarks


def special_remark(files: Sequence[SourceFile], reading: Reading, extends: str = "") -> str:
    """One line where a lot looks like special tokens that were not asked for; empty as a rule."""
    found = look_for_special(files, reading.special_tokens)
    return unknown_special(found, "" if extends else "--special-token")


def whole_documents_remark(request: TrainingRequest, reading: Reading) -> str:
    """One line where more is left out than the evaluation set; empty with most patterns."""
    if not reading.leaves_out or reading.pattern.cut_pairs is not None:
        return ""
    return (
        f"each document that holds a part of the evaluation set of {request.name} is left out "
        "whole: with a split pattern that runs without a kernel nobody knows where a document "
        "may be cut. Give short documents (`--special-token` where they end, or JSON lines), or "
        "train under another --name"
    )


def splits_remark(files: Sequence[SourceFile], request: TrainingRequest) -> str:
    """One line where the search took a data set's test texts along with its training texts."""
    named = {*request.paths, *(one for source in request.named_sources for one in source.files)}
    splits = Counter(split_of(file.path) for file in files if file.path not in named)
    del splits[""]
    if len(splits) < 2 or not splits.keys() & {"train", "training"}:
        return ""
    found = ", ".join(f"{name} ({counted(splits[name], 'file')})" for name in splits)
    return (
        f"the corpus holds the splits {found} of a data set, and all of them are trained on; to "
        "keep some for evaluation name the files of one, and the others with --eval"
    )


def known_readings(
    files: Sequence[SourceFile], how: Reading, workspace: Workspace, catalogue: Catalogue
) -> dict[str, FileReading]:
    """The files that have not changed since they were read, and whose counts are all there.

    None where copies are left out: what is a copy in a file, the files before it decide.
    """
    if how.deduplicated:
        return {}
    known = recalled(files, how, catalogue.recall_file_readings)
    keys = keys_of(files, known, how)
    there = ShardFiles(workspace).there(key for some in keys.values() for key in some)
    return {path: known[path] for path, some in keys.items() if there.issuperset(some)}


def keys_of(
    files: Sequence[SourceFile], readings: Mapping[str, FileReading], how: Reading
) -> dict[str, tuple[str, ...]]:
    """The keys of the counts of each file's chunks, of files whose chunks are known."""
    ways = ShardKeys.of_sources(how, {file.source for file in files})
    return {
        file.path: tuple(ways[file.source].key(one.digest) for one in readings[file.path].chunks)
        for file in files
        if file.path in readings
    }


def sources_of(request: TrainingRequest, workspace: Workspace) -> list[Source]:
    """Where the corpus lies: named sources, word counts, or each path for itself."""
    include = request.include
    named = [
        Source(files, one.name, include=include)
        for one in request.named_sources
        for files in one.files
    ]
    if request.counts:
        return [Source(path, of_counts=True) for path in request.counts]
    paths = with_demo(request.paths, workspace)
    return named or [Source(path, include=include) for path in paths]


def recalled(
    files: Sequence[SourceFile], reading: Reading, recall: Recall
) -> dict[str, FileReading]:
    """What is known of files, which may be read in a different way in each source.

    What was read before there was an evaluation set is the same where it was made of just that.
    """
    ways = ShardKeys.of_sources(reading, {file.source for file in files})
    alike = {way.digest: way for way in ways.values()}
    together: dict[str, list[SourceFile]] = {}
    for file in files:
        if not file.was_text_once:
            together.setdefault(ways[file.source].digest, []).append(file)
    found: dict[str, FileReading] = {}
    for digest, some in together.items():
        way = alike[digest]
        if way.plain_digest != digest:
            found |= {
                path: one
                for path, one in recall(some, reading.chunk_bytes, way.plain_digest).items()
                if way.are_plain(chunk.digest for chunk in one.chunks)
            }
        found |= recall(some, reading.chunk_bytes, digest)
    return found


def plan_reading(
    files: Sequence[SourceFile],
    known: Mapping[str, FileReading],
    reading: Reading,
    engine: engines.Engine | None = None,
) -> CorpusPlan:
    """How the files that are not known yet are shared out."""
    unread = [file for file in files if file.path not in known]
    size = sum(file.size for file in unread)
    alone = threads_would_wait(size, len(unread), reading.pattern)
    most = MOST_TASKS if engine is None else engine.parcels(size, alone)
    groups = plan_chunk_groups(unread, reading.chunk_bytes, most)
    return CorpusPlan(tuple(files), known, _bundled(groups, most), size, reading, alone)


def file_parcels(files: Sequence[SourceFile]) -> tuple[Bundle, ...]:
    """Whole files, in parcels of about equal size for the workers."""
    return _bundled([ChunkGroup(file) for file in files], MOST_TASKS)


def _bundled(groups: Sequence[ChunkGroup], most: int) -> tuple[Bundle, ...]:
    """Neighbouring groups together, so that at most ``most`` parcels of similar size arise."""
    total = sum(map(_size, groups))
    limit = -(-total // most)
    bundles: list[list[ChunkGroup]] = []
    filled = limit
    for group in groups:
        if filled >= limit and len(bundles) < most:
            bundles.append([])
            filled = 0
        bundles[-1].append(group)
        filled += _size(group)
    return tuple(map(tuple, bundles))


def _size(group: ChunkGroup) -> int:
    """Bytes on disk, and a little for opening the file."""
    end = group.file.size if group.end is None else group.end
    return end - group.begin + 4096
