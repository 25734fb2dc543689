"""The plan of a corpus: its files, the chunks that must be read, and notes on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bpeline.flows import engines
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
    ReadOptions,
    SkippedFiles,
    Source,
    SourceFile,
    SpecialLooking,
    look_for_special,
    plan_chunk_groups,
    search_sources,
    split_of,
)
from bpeline.tokenizer_core.counting import threads_would_wait
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

FOUND_IN_TEXTS = (
    "each text file is one document, and special tokens in it become their ids, as in the "
    "tokenizer's own library; `--separator TOKEN` ends documents at one"
)
_NAMED = 3  # special tokens
Recall = Callable[[Sequence[SourceFile], int, str], dict[str, FileReading]]
Bundle = tuple[ChunkGroup, ...]

_MOST_REMARKS = 5


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """The files of a corpus, and the chunks that have to be read.

    Attributes:
        files: in corpus order, which determines positions.
        known: unchanged files whose chunks were all counted by an earlier run, by path.
        bundles: chunks to read, in bundles of about equal size for the workers.
    """

    files: tuple[SourceFile, ...]
    known: Mapping[str, FileReading]
    bundles: tuple[Bundle, ...]
    bytes_to_read: int
    reading: ReadOptions
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
    """Find the files and look up what earlier runs recorded; does not read the files."""
    workspace = registry.workspace
    found = find_files(request, workspace)
    files = found.files
    reading = replace(request.reading, left_out=left_out)
    known = known_readings(files, reading, workspace, registry.catalogue)
    plan = plan_reading(files, known, reading, engines.current(request.workers))
    return replace(plan, skipped=found.skipped, shared=found.shared)


def find_files(request: TrainingRequest, workspace: Workspace) -> FoundFiles:
    """Find the files of the corpus, and the files that are skipped."""
    found = search_sources(sources_of(request, workspace))
    if request.strict:
        found.skipped.refuse()
    return found


def remarks_on(
    found: FoundFiles | CorpusPlan, request: TrainingRequest, reading: ReadOptions
) -> list[str]:
    """Return remarks on the request and the files found, one line each."""
    remarks = (
        request.forbid_remark,
        found.skipped.remark,
        *shared_remarks(found),
        splits_remark(found.files, request),
        special_remark(found.files, reading, request.extends),
        whole_documents_remark(request, reading),
    )
    return [remark for remark in remarks if remark]


def shared_remarks(found: FoundFiles | CorpusPlan) -> list[str]:
    """Return a line for each of the first sources whose files belong to others."""
    own = {file.source for file in found.files}
    remarks = []
    for source in dict.fromkeys(source for source, _ in found.shared):
        owners = {owner: n for (name, owner), n in found.shared.items() if name == source}
        files = counted(sum(owners.values()), "file")
        first = f"{' and '.join(owners)} {'names' if len(owners) == 1 else 'name'} first"
        kept = "for the first" if source in own else f"and no text is left to {source}"
        remarks.append(f"source {source} names {files}, which {first}: a file is read once, {kept}")
    more = len(remarks) - _MOST_REMARKS
    if more > 0:
        remarks[_MOST_REMARKS:] = [f"{counted(more, 'more source')} name files of earlier ones"]
    return remarks


def special_remark(files: Sequence[SourceFile], reading: ReadOptions, extends: str = "") -> str:
    """Return a note on text that looks like undeclared special tokens, usually empty."""
    found = look_for_special(files, reading.special_tokens)
    return unknown_special(found, "" if extends else "--special-token")


def whole_documents_remark(request: TrainingRequest, reading: ReadOptions) -> str:
    """Return a note if whole documents are left out for the evaluation set."""
    if not reading.leaves_out or reading.pattern.cut_pairs is not None:
        return ""
    return (
        f"every document that contains a part of the evaluation set of {request.name} is left "
        "out whole, because this split pattern has no kernel and therefore no safe places to cut "
        "a document. Use short documents (`--special-token` where they end, or JSON lines), or "
        "train under another --name"
    )


def splits_remark(files: Sequence[SourceFile], request: TrainingRequest) -> str:
    """Return a note if the search found test splits beside training splits."""
    named = {*request.paths, *(path for source in request.named_sources for path in source.files)}
    splits = Counter(split_of(file.path) for file in files if file.path not in named)
    del splits[""]
    if len(splits) < 2 or not splits.keys() & {"train", "training"}:
        return ""
    found = ", ".join(f"{name} ({counted(splits[name], 'file')})" for name in splits)
    return (
        f"the corpus contains the splits {found} of a data set, and all are used for training; to "
        "keep some for evaluation, pass only the training files and the others with --eval"
    )


def known_readings(
    files: Sequence[SourceFile], how: ReadOptions, workspace: Workspace, catalogue: Catalogue
) -> dict[str, FileReading]:
    """Return the recorded chunks of unchanged files whose counts are all stored.

    Empty with deduplication: which documents of a file are copies depends on earlier files.
    """
    if how.deduplicated:
        return {}
    known = recalled(files, how, catalogue.recall_file_readings)
    keys = keys_of(files, known, how)
    there = ShardFiles(workspace).there(key for some in keys.values() for key in some)
    return {path: known[path] for path, some in keys.items() if there.issuperset(some)}


def keys_of(
    files: Sequence[SourceFile], readings: Mapping[str, FileReading], how: ReadOptions
) -> dict[str, tuple[str, ...]]:
    """Return the keys of each file's chunk counts, for files whose chunks are known."""
    ways = ShardKeys.of_sources(how, {file.source for file in files})
    return {
        file.path: tuple(
            ways[file.source].key(chunk.digest) for chunk in readings[file.path].chunks
        )
        for file in files
        if file.path in readings
    }


def sources_of(request: TrainingRequest, workspace: Workspace) -> list[Source]:
    """Return the named sources, the word count files, or one source for each path."""
    include = request.include
    named = [
        Source(files, source.name, include=include)
        for source in request.named_sources
        for files in source.files
    ]
    if request.counts:
        return [Source(path, of_counts=True) for path in request.counts]
    paths = with_demo(request.paths, workspace)
    return named or [Source(path, include=include) for path in paths]


def recalled(
    files: Sequence[SourceFile], reading: ReadOptions, recall: Recall
) -> dict[str, FileReading]:
    """Return what the catalogue knows of files, whose sources may be read differently."""
    ways = ShardKeys.of_sources(reading, {file.source for file in files})
    alike = {way.digest: way for way in ways.values()}
    together: dict[str, list[SourceFile]] = {}
    for file in files:
        if not file.was_text_once:
            together.setdefault(ways[file.source].digest, []).append(file)
    readings: dict[str, FileReading] = {}
    for digest, some in together.items():
        way = alike[digest]
        if way.plain_digest != digest:
            readings |= {
                path: reading_of_file
                for path, reading_of_file in recall(
                    some, reading.chunk_bytes, way.plain_digest
                ).items()
                if way.are_plain(chunk.digest for chunk in reading_of_file.chunks)
            }
        readings |= recall(some, reading.chunk_bytes, digest)
    return readings


def plan_reading(
    files: Sequence[SourceFile],
    known: Mapping[str, FileReading],
    reading: ReadOptions,
    engine: engines.Engine | None = None,
) -> CorpusPlan:
    """Plan the reading of the files that are not in ``known``."""
    unread = [file for file in files if file.path not in known]
    size = sum(file.size for file in unread)
    alone = threads_would_wait(size, len(unread), reading.pattern)
    most = MOST_TASKS if engine is None else engine.parcels(size, alone)
    groups = plan_chunk_groups(unread, reading.chunk_bytes, most)
    return CorpusPlan(tuple(files), known, _bundled(groups, most), size, reading, alone)


def file_parcels(files: Sequence[SourceFile]) -> tuple[Bundle, ...]:
    """Return whole files, in bundles of about equal size for the workers."""
    return _bundled([ChunkGroup(file) for file in files], MOST_TASKS)


def _bundled(groups: Sequence[ChunkGroup], most: int) -> tuple[Bundle, ...]:
    """Join neighbouring groups into at most ``most`` bundles of similar size."""
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
    """Return the bytes on disk, plus a little for opening the file."""
    end = group.file.size if group.end is None else group.end
    return end - group.begin + 4096


def separated_at(separators: Sequence[str]) -> str:
    """Return a note on the default separators; of many tokens, only their number."""
    if len(separators) > _NAMED:
        where = f"any of the {len(separators)} special tokens"
    else:
        where = " and ".join(separators)
    return (
        f"documents of text files end at {where}; `--separator none` reads each file as one "
        "document"
    )


def unknown_special(found: SpecialLooking, option: str) -> str:
    """Return a note on text that looks like special tokens, or an empty string.

    Args:
        option: declares them special: ``--special-token``, ``--separator``, or empty for none.
    """
    if not found.counts:
        return ""
    shown = list(found.counts.items())[:_NAMED]
    named = ", ".join(f"{token} {count:,} times" for token, count in shown)
    more = len(found.counts) - len(shown)
    return (
        f"looks like special tokens, and is read as ordinary text: {named}"
        + (f", and {more} others" if more else "")
        + f", at least (in {megabytes(found.bytes)} at the beginning of files); "
        + (
            f"type `{option} '{shown[0][0]}'` if documents end there"
            if option
            else "an extension has the special tokens of the version that it extends"
        )
    )


def notes_on_documents(
    files: Sequence[SourceFile], tokenizer: Tokenizer, asked: str | None
) -> list[str]:
    """Return notes on separators and on text that looks like special tokens.

    Only text files are searched: in a .jsonl file, each line is a document.

    Args:
        asked: the requested separator, see `separators_of`; None for the default, which is noted.
    """
    texts = [file for file in files if file.format == "text"]
    separators = separators_of(tokenizer, asked, encoded=True)
    found = look_for_special(texts, {*tokenizer.special_tokens, *separators})
    separators_note = ""
    if asked is None and texts and tokenizer.special_tokens:
        separators_note = separated_at(separators) if separators else FOUND_IN_TEXTS
    return [note for note in (separators_note, unknown_special(found, "--separator")) if note]
