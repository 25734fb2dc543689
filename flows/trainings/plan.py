"""What a training would do: what is cached, what must be read or learned. Changes nothing.

Calls the functions of the steps themselves, so that both decide alike. Only the bytes of a changed
file tell which of its chunks were counted: the plan has an upper bound for these.
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
from bpeline.flows.running import CHOOSE_SIZE, COMBINE_COUNTS, COUNT_WORDS, LEARN_MERGES, PUBLISH
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

_SOON_READ = 64 << 20  # bytes of held-out text that a plan reads
_SOON_COUNTED = 1 << 20  # bytes of new files that a plan counts to find a word


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that must be read."""

    path: str
    why: str  # new, grown, changed, to find copies
    bytes: int  # on disk
    most_chunks: int | None = None  # None: compressed
    known_chunks: int = 0  # counted before, if a grown file begins as it did


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of the training, and whether its result is cached."""

    name: str
    reused: bool
    said: str


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What one run of ``train_tokenizer`` would do now.

    Attributes:
        files, bytes: of the corpus, on disk.
        sources: of each named source ``files``, ``bytes``, ``chunks_reused``, ``bytes_to_read``.
        chunks_reused: counted chunks of the files that need not be read.
        merges_reused: merges that an earlier run learned.
        version: the registered version that it makes again; empty for another one, or if only
            reading can tell.
        continues: the unfinished run that it continues, and how that ended.
        extends: the version that it extends.
        aliases: which will move.
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
        """Chunks of the files that must be read; None when some are compressed."""
        most = [file.most_chunks for file in self.unread]
        return None if None in most else sum(map(int, filter(None, most)))

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        sums = {name: getattr(self, name) for name in ("bytes_to_read", "most_chunks_to_count")}
        return {**asdict(self), "skipped": self.skipped.as_dict(), **sums}

    def as_text(self) -> str:
        """A few lines for a terminal."""
        lines = [("corpus", f"{counted(self.files, 'file')}, {megabytes(self.bytes)}")]
        for name, one in self.sources.items():
            size, unread = megabytes(one["bytes"]), megabytes(one["bytes_to_read"])
            chunks = counted(one["chunks_reused"], "counted chunk")
            said = f"{name}: {counted(one['files'], 'file')}, {size}; {chunks}, {unread} to read"
            lines.append(("source", said))
        lines += [("extends", self.extends)] * bool(self.extends)
        lines += [("continues", self.continues)] * bool(self.continues)
        lines += [(one.name, "cached: " * one.reused + one.said) for one in self.steps]
        lines.append(("aliases", self.aliases))
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*(f"{title:<14}  {said}" for title, said in lines), *notes])


def plan_training(request: TrainingRequest, home: Path) -> TrainingPlan:
    """Say what a training would do; makes no workspace, takes no lock, writes nothing.

    Args:
        request: what is asked for.
        home: the directory of the workspace, which need not be there.

    Raises:
        MissingSource, UnreadableSource: see `find_source_files`.
        EmptyCorpus: there is not a single word to train on, as far as that is soon known.
    """
    return _Planner(request, home).plan()


class _Planner:
    """The state of a request and a workspace."""

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
            self.extends = f"{base}: its {size:,} ids stay what they are, {more:,} are added"
            if not (request.continued_ids or request.transition_size):
                self.given = merges_to_continue(tokenizer, request.tie_break)

    def plan(self) -> TrainingPlan:
        request = self.request
        found = self._files()
        files = found.files
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
        made = self._version(table)
        version = "" if made is None else registered_as(self.catalogue, made.name, made.digest)
        called = version or ("" if made is None else made.digest[:12])
        aliases = alias_moves(request.rules, version)
        notes = (
            request.pattern_remark,
            request.parity_remark,
            *chunk_plan.remarks_on(found, request, self.reading),
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
            skipped=found.skipped,
            unread=unread,
            chunks_reused=len(corpus.chunks),
            merges_reused=merges,
            version=called,
            continues=self.continues,
            extends=self.extends,
            aliases=aliases + "; neither if it is registered already" * (not version),
            steps=(
                _counting(unread, len(read), len(corpus.chunks)),
                _combining(unread, table),
                learning,
                *self._publishing(called),
            ),
            notes=tuple(filter(None, notes)),
        )

    def _files(self) -> FoundFiles:
        if DEMO in self.request.paths:
            place, size = demo_place(self.workspace)
            if not place.is_file():  # the run writes it first
                demo = SourceFile(str(place), DEMO, "jsonl", None, size, 0, 0, 0)
                return FoundFiles((demo,), SkippedFiles())
        return chunk_plan.find_files(self.request, self.workspace)

    def _sources(
        self, files: Sequence[SourceFile], known: Mapping[str, FileReading]
    ) -> dict[str, dict[str, int]]:
        names = ("files", "bytes", "chunks_reused", "bytes_to_read")
        sums = {one.name: dict.fromkeys(names, 0) for one in self.request.named_sources}
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
        most = -(-file.size // self.reading.chunk_bytes)
        if before is None or before.size >= file.size:
            return UnreadFile(file.path, why, file.size, most)
        store, way = WordCountStore(self.workspace), self._keys_in(file)
        # The last chunk ended where the file did, and now ends after it.
        digests = [chunk.digest for chunk in before.chunks[:-1]]
        known = sum(store.has(digest, way.reading_of(digest)[1]) for digest in digests)
        return UnreadFile(file.path, "grown", file.size, most, known)

    def _require_words(self, unread: Sequence[SourceFile], keys: Sequence[str]) -> None:
        """Refuse a corpus without a word, as the training does; of new files, count small ones."""
        store = WordCountStore(self.workspace)
        if self.request.counts or sum(file.size for file in unread) > _SOON_COUNTED:
            return
        with suppress(CorruptFile):  # which is counted again
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
        """The step, and how many of its merges are cached."""
        request, wanted = self.request, self.request.merges_shown
        kept, finished = 0, False
        if table is not None:
            kept, finished = kept_merges(table.counts_digest, request, self.workspace, self.given)
        if wanted is not None:  # a checkpoint may have more
            kept, finished = min(kept, wanted), finished or 0 < wanted <= kept
        given = len(self.given) if self.base and self.given is not None else 0
        total = "merges" if wanted is None else f"up to {wanted - given:,} merges"
        across = " across spaces" * bool(request.transition_size)
        start = f"after those of {self.base}" if self.base else "from the beginning"
        said = f"{total}{across} {start}"
        if kept:
            said = f"{kept:,} merges" + f" of {wanted or kept:,} are cached" * (not finished)
        if request.token_rules:
            said += f"; each token: {request.token_rules}"
        return PlannedStep(LEARN_MERGES.name, finished, said), kept

    def _version(self, table: TableHandle | None) -> Version | None:
        """The version that was made of these counts by the same settings."""
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
        said = "a new version, unless its tokens are those of an earlier one"
        if version:
            said = f"{version} is registered and keeps its files"
        steps = [PlannedStep(PUBLISH.name, False, said)]
        if request.chooses_size:
            smallest = request.smallest_size_after(0 if self.given is None else len(self.given))
            sizes = f"of {smallest:,} to {request.vocab_size:,} ids"
            said = f"the size at which a byte costs {request.model} least, {sizes}"
            steps.insert(0, PlannedStep(CHOOSE_SIZE.name, False, said))
        return steps

    def _copied_sections(self, keys: Sequence[str], text: int) -> str:
        """What the training would report about copies, if that is known and soon read."""
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
        return f"the workspace is at work now ({by}): a training would be refused"


def _counting(unread: Sequence[UnreadFile], read: int, chunks: int) -> PlannedStep:
    reused = f"{counted(chunks, 'chunk')} of {counted(read, 'file')}"
    if not unread:
        return PlannedStep(COUNT_WORDS.name, True, reused)
    kinds = Counter(file.why for file in unread)
    listed = ", ".join(f"{number:,} {why}" for why, number in kinds.items())
    size = megabytes(sum(file.bytes for file in unread))
    said = f"reads {counted(len(unread), 'file')} ({listed}), {size}"
    if again := sum(file.known_chunks for file in unread):
        said += f", {counted(again, 'chunk')} of it known if grown files begin as they did"
    if chunks:
        said += f"; {reused} are reused"
    return PlannedStep(COUNT_WORDS.name, False, said)


def _combining(unread: Sequence[UnreadFile], table: TableHandle | None) -> PlannedStep:
    if table is not None:
        return PlannedStep(COMBINE_COUNTS.name, True, counted(table.rows, "distinct word"))
    said = "adds up the counts of all chunks"
    if any(file.why != "new" for file in unread):
        said += "; nothing to do if the files turn out to be what they were"
    return PlannedStep(COMBINE_COUNTS.name, False, said)


def registered_as(catalogue: Catalogue | None, name: str, digest: str) -> str:
    """``name/number`` under which a digest was registered last; empty if it is not."""
    rows = [] if catalogue is None else catalogue.registrations(name)
    return next((f"{one.name}/{one.number}" for one in reversed(rows) if one.digest == digest), "")


def alias_moves(promotion_rules: str | None, known: str) -> str:
    """Which aliases a publication moves; ``known``: as what it is registered already."""
    if known:
        unless = ", unless rules refused it" * bool(promotion_rules)
        return f"candidate and champion stay{unless}: {known} is registered already"
    champion = "champion stays, as no --rules were given"
    if promotion_rules is not None:
        champion = (
            f"champion too if all rules hold and it gains enough ({Path(promotion_rules).name})"
        )
    return f"candidate moves to the new version, {champion}"
