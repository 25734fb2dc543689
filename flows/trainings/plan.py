"""The plan of a training: what is cached, and what must be read or learned.

It uses the functions of the steps, so that plan and training agree. For changed files only reading
shows which chunks were counted before, so the plan has an upper bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpeline.flows.counting import (
    CountedCorpus,
    chunk_plan,
    empty_corpus,
    sections_remark,
    table_of,
)
from bpeline.flows.evaluation import setup
from bpeline.flows.learning import kept_merges
from bpeline.flows.requests import DEMO, TrainingRequest, demo_place
from bpeline.flows.running import steps
from bpeline.flows.trainings.run import run_to_continue
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import Catalogue, FileReading, Version
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.word_counts import ShardKeys, TableHandle, WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import (
    LEFT_OUT_RULE,
    ChunkGroup,
    FoundFiles,
    SkippedFiles,
    SourceFile,
    read_chunks,
)
from bpeline.tokenizer_core.counting import count_chunk
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.training import merges_to_continue

_SOON_READ = 64 << 20  # bytes of held-out text that a plan reads at most
_SOON_COUNTED = 1 << 20  # bytes of new files that a plan counts at most, to find a word


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that must be read."""

    path: str
    why: str  # new, grown, changed, to find copies
    bytes: int  # on disk
    most_chunks: int | None = None  # None: compressed
    known_chunks: int = 0  # counted before, if the beginning of a grown file is unchanged


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of the training, and whether its result is cached."""

    name: str
    reused: bool
    said: str


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The plan of one run of ``train_tokenizer``.

    Attributes:
        sources: name of a source → ``files``, ``bytes``, ``chunks_reused``, ``bytes_to_read``.
        chunks_reused: counted chunks of files that are not read.
        version: the registered version that would result again; empty for a new one, or if
            unknown before reading.
    """

    name: str
    workspace: str
    files: int
    bytes: int
    sources: Mapping[str, Mapping[str, int]]
    skipped: SkippedFiles
    unread: tuple[UnreadFile, ...]
    chunks_reused: int
    merges_reused: int
    version: str
    continues: str
    extends: str
    aliases: str
    steps: tuple[PlannedStep, ...]
    notes: tuple[str, ...]

    @property
    def bytes_to_read(self) -> int:
        return sum(file.bytes for file in self.unread)

    @property
    def most_chunks_to_count(self) -> int | None:
        """Maximum number of chunks to read; None if some files are compressed."""
        most = [file.most_chunks for file in self.unread]
        return None if None in most else sum(map(int, filter(None, most)))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        sums = {name: getattr(self, name) for name in ("bytes_to_read", "most_chunks_to_count")}
        return {**asdict(self), "skipped": self.skipped.as_dict(), **sums}

    def as_text(self) -> str:
        """Return a few lines for a terminal."""
        lines = [("corpus", f"{counted(self.files, 'file')}, {megabytes(self.bytes)}")]
        for name, item in self.sources.items():
            size, unread = megabytes(item["bytes"]), megabytes(item["bytes_to_read"])
            chunks = counted(item["chunks_reused"], "counted chunk")
            text = f"{name}: {counted(item['files'], 'file')}, {size}; {chunks}, {unread} to read"
            lines.append(("source", text))
        lines += [("extends", self.extends)] * bool(self.extends)
        lines += [("continues", self.continues)] * bool(self.continues)
        lines += [(item.name, "cached: " * item.reused + item.said) for item in self.steps]
        lines.append(("aliases", self.aliases))
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*(f"{title:<14}  {text}" for title, text in lines), *notes])


def plan_training(request: TrainingRequest, home: Path) -> TrainingPlan:
    """Plan a training without locking or writing anything."""
    return _Planner(request, home).plan()


class _Planner:
    """Plans a request in a workspace."""

    def __init__(self, request: TrainingRequest, home: Path) -> None:
        self.request, self.reading = request, request.reading
        self.workspace = Workspace(home.expanduser().absolute())
        self.catalogue: Catalogue | None = None
        self.base = self.extends = self.continues = ""
        self.given = request.given if request.over_bytes and not request.extends else None
        if not Workspace.is_at(home):
            return
        registry = open_registry(home, make=False)
        self.catalogue = registry.catalogue
        left_out_rule = LEFT_OUT_RULE
        if (run := run_to_continue(self.catalogue, request)) is not None:
            left_out_rule = run.left_out_rule
            self.continues = f"run {run.id}, {run.state} at {run.step or 'its beginning'!r}"
        left_out = setup.left_out_for(request.name, self.catalogue, self.workspace, left_out_rule)
        self.reading = replace(self.reading, left_out=left_out)
        if request.extends:
            base = resolve(registry, parse_registered(request.extends))
            tokenizer, self.base = load_version(registry, base), str(base)
            size, more = tokenizer.vocab_size, request.vocab_size - tokenizer.vocab_size
            self.extends = f"{base}: its {size:,} ids are kept, {more:,} are added"
            if not (request.continued_ids or request.transition_size):
                self.given = merges_to_continue(tokenizer, request.tie_break)

    def plan(self) -> TrainingPlan:
        request = self.request
        files_found = self._files()
        files = files_found.files
        known: Mapping[str, FileReading] = {}
        if self.catalogue is not None:
            known = chunk_plan.known_readings(files, self.reading, self.workspace, self.catalogue)
        to_read = [file for file in files if file.path not in known]
        unread = self._unread(to_read)
        read = [file for file in files if file.path in known]
        corpus = CountedCorpus(
            tuple(known[file.path] for file in read), 0, 0,
            keys=tuple(chunk_plan.keys_of(read, known, self.reading).values()),
            sources=tuple(file.source for file in read) if request.sources else (),
            of_counts=bool(request.counts),
        )  # fmt: skip
        keys = [key for some in corpus.keys for key in some]
        table = None if unread else table_of(corpus, request, self.workspace)
        if table is None:
            self._require_words(to_read, keys)
        learning, merges = self._learning(table)
        existing = self._version(table)
        version = (
            ""
            if existing is None
            else registered_as(self.catalogue, existing.name, existing.digest)
        )
        reference = version or ("" if existing is None else existing.digest[:12])
        aliases = alias_moves(request.rules, version)
        notes = (
            request.pattern_remark,
            request.parity_remark,
            *chunk_plan.remarks_on(files_found, request, self.reading),
            setup.not_evaluated(setup.evaluation_files(request)[1]),
            setup.not_measured_on(setup.development_files(request)),
            corpus.copies_remark,
            "" if unread else self._copied_sections(keys, corpus.corpus_bytes),
            self._held(),
        )
        return TrainingPlan(
            name=request.name,
            workspace=str(self.workspace.root),
            files=len(files),
            bytes=sum(file.size for file in files),
            sources=self._sources(files, known),
            skipped=files_found.skipped,
            unread=unread,
            chunks_reused=len(corpus.chunks),
            merges_reused=merges,
            version=reference,
            continues=self.continues,
            extends=self.extends,
            aliases=aliases + "; none if it is registered already" * (not version),
            steps=(
                _counting(unread, len(read), len(corpus.chunks)),
                _combining(unread, table),
                learning,
                *self._publishing(reference),
            ),
            notes=tuple(filter(None, notes)),
        )

    def _files(self) -> FoundFiles:
        if DEMO in self.request.paths:
            place, size = demo_place(self.workspace)
            if not place.is_file():  # the run will write it first
                demo = SourceFile(str(place), DEMO, "jsonl", None, size, 0, 0, 0)
                return FoundFiles((demo,), SkippedFiles())
        return chunk_plan.find_files(self.request, self.workspace)

    def _sources(
        self, files: Sequence[SourceFile], known: Mapping[str, FileReading]
    ) -> dict[str, dict[str, int]]:
        names = ("files", "bytes", "chunks_reused", "bytes_to_read")
        sums = {source.name: dict.fromkeys(names, 0) for source in self.request.named_sources}
        for file in files if sums else ():
            reading, of_source = known.get(file.path), sums[file.source]
            of_source["files"] += 1
            of_source["bytes"] += file.size
            of_source["chunks_reused"] += 0 if reading is None else len(reading.chunks)
            of_source["bytes_to_read"] += file.size if reading is None else 0
        return sums

    def _unread(self, files: Sequence[SourceFile]) -> tuple[UnreadFile, ...]:
        earlier: Mapping[str, FileReading] = {}
        if self.catalogue is not None and not self.reading.deduplicated:
            recall = partial(self.catalogue.recall_file_readings, unchanged=False)
            earlier = chunk_plan.recalled(files, self.reading, recall)
        return tuple(self._unread_file(file, earlier.get(file.path)) for file in files)

    def _unread_file(self, file: SourceFile, before: FileReading | None) -> UnreadFile:
        why = "new" if before is None else "changed"
        if self.reading.deduplicated:
            why = "to find copies"
        if file.is_streamed:
            return UnreadFile(file.path, why, file.size)
        most_chunks = -(-file.size // self.reading.chunk_bytes)
        if before is None or before.size >= file.size:
            return UnreadFile(file.path, why, file.size, most_chunks)
        store, way = WordCountStore(self.workspace), self._keys_in(file)
        # The last chunk ended at the end of the file, so it has grown.
        digests = [chunk.digest for chunk in before.chunks[:-1]]
        counted_before = sum(store.has(digest, way.reading_of(digest)[1]) for digest in digests)
        return UnreadFile(file.path, "grown", file.size, most_chunks, counted_before)

    def _require_words(self, unread: Sequence[SourceFile], keys: Sequence[str]) -> None:
        """Raise EmptyCorpus like the training; counts new files only if they are small."""
        store = WordCountStore(self.workspace)
        if self.request.counts or sum(file.size for file in unread) > _SOON_COUNTED:
            return
        with suppress(CorruptFile):  # the training counts again
            if any(store.statistics([key]).words for key in keys):
                return
            seen = store.statistics(keys)
            held_out, left_out = seen.held_out_bytes, seen.left_out_bytes
            for file in unread:
                way = self._keys_in(file)
                size = way.reading.chunk_bytes
                for chunk, text in read_chunks(ChunkGroup(file), way.reading, size):
                    counts = count_chunk(chunk, text, way.reading_of(chunk.digest)[0])
                    if len(counts.counts):
                        return
                    held_out += sum(map(len, counts.held_out))
                    left_out += counts.left_out_bytes
            raise empty_corpus(self.request, held_out, left_out)

    def _keys_in(self, file: SourceFile) -> ShardKeys:
        return ShardKeys.of(self.reading.of_source(file.source))

    def _learning(self, table: TableHandle | None) -> tuple[PlannedStep, int]:
        """Return the step, and the number of cached merges."""
        request, wanted = self.request, self.request.merges_shown
        cached, finished = 0, False
        if table is not None:
            cached, finished = kept_merges(table.counts_digest, request, self.workspace, self.given)
        if wanted is not None:  # the checkpoint may have more
            cached, finished = min(cached, wanted), finished or 0 < wanted <= cached
        initial = len(self.given) if self.base and self.given is not None else 0
        total = "merges" if wanted is None else f"up to {wanted - initial:,} merges"
        across = " across spaces" * bool(request.transition_size)
        start = f"after those of {self.base}" if self.base else "from the beginning"
        text = f"{total}{across} {start}"
        if cached:
            text = f"{cached:,} merges" + f" of {wanted or cached:,} are cached" * (not finished)
        if request.token_rules:
            text += f"; each token: {request.token_rules}"
        return PlannedStep(steps.LEARN_MERGES.name, finished, text), cached

    def _version(self, table: TableHandle | None) -> Version | None:
        """Return the version that the same settings made from these counts."""
        if table is None or self.catalogue is None or self.request.chooses_size:
            return None
        for version in self.catalogue.versions(self.request.name):
            if version.counts_digest == table.counts_digest:
                run = self.catalogue.find_run(version.run_id)
                if run is not None and self.request.learns_as(run.config):
                    return version
        return None

    def _publishing(self, version: str) -> list[PlannedStep]:
        request = self.request
        text = "a new version, unless an earlier one has the same tokens"
        if version:
            text = f"{version} is registered and keeps its files"
        planned = [PlannedStep(steps.PUBLISH.name, False, text)]
        if request.chooses_size:
            smallest = request.smallest_size_after(0 if self.given is None else len(self.given))
            sizes = f"of {smallest:,} to {request.vocab_size:,} ids"
            text = f"the size with the lowest cost per byte for {request.model}, {sizes}"
            planned.insert(0, PlannedStep(steps.CHOOSE_SIZE.name, False, text))
        return planned

    def _copied_sections(self, keys: Sequence[str], text: int) -> str:
        """Return the training's remark on copies, if it is known and quick to read."""
        reading = self.reading
        if reading.deduplicated or not 0 < reading.held_out * text <= _SOON_READ:
            return ""
        with suppress(CorruptFile):
            store = WordCountStore(self.workspace)
            return sections_remark(store.copied_sections(keys))
        return ""

    def _held(self) -> str:
        holder = self.workspace.lock_holder() if self.catalogue is not None else None
        if holder is None:
            return ""
        by = f"{holder.purpose}, process {holder.process.pid}"
        return f"the workspace is in use ({by}): a training would be refused"


def _counting(unread: Sequence[UnreadFile], read: int, chunks: int) -> PlannedStep:
    reused = f"{counted(chunks, 'chunk')} of {counted(read, 'file')}"
    if not unread:
        return PlannedStep(steps.COUNT_WORDS.name, True, reused)
    kinds = Counter(file.why for file in unread)
    listed = ", ".join(f"{number:,} {why}" for why, number in kinds.items())
    size = megabytes(sum(file.bytes for file in unread))
    text = f"reads {counted(len(unread), 'file')} ({listed}), {size}"
    if known_chunks := sum(file.known_chunks for file in unread):
        text += f", {counted(known_chunks, 'chunk')} of it known if grown files begin as before"
    if chunks:
        text += f"; {reused} are reused"
    return PlannedStep(steps.COUNT_WORDS.name, False, text)


def _combining(unread: Sequence[UnreadFile], table: TableHandle | None) -> PlannedStep:
    if table is not None:
        return PlannedStep(steps.COMBINE_COUNTS.name, True, counted(table.rows, "distinct word"))
    text = "adds up the counts of all chunks"
    if any(file.why != "new" for file in unread):
        text += "; nothing to do if the files turn out to be unchanged"
    return PlannedStep(steps.COMBINE_COUNTS.name, False, text)


def registered_as(catalogue: Catalogue | None, name: str, digest: str) -> str:
    """Return ``name/number`` of a digest's last registration; empty if there is none."""
    rows = [] if catalogue is None else catalogue.registrations(name)
    return next((f"{row.name}/{row.number}" for row in reversed(rows) if row.digest == digest), "")


def alias_moves(promotion_rules: str | None, known: str) -> str:
    """Describe which aliases a publication moves; ``known`` is an earlier version."""
    if known:
        unless = ", unless rules refused it" * bool(promotion_rules)
        return f"candidate and champion stay{unless}: {known} is registered already"
    champion = "champion stays, as no --rules were given"
    if promotion_rules is not None:
        champion = (
            f"champion too if all rules hold and it gains enough ({Path(promotion_rules).name})"
        )
    return f"candidate moves to the new version, {champion}"
