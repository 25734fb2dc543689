"""What a training would do, told from what is known of its files: reads none whole, does nothing.

Asks the same functions as the steps themselves, so that both decide alike. What only the bytes of
a file can tell (whether a changed file holds chunks that were counted) is told as a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bpeline.flows.requests import DEMO, TrainingRequest, demo_place
from bpeline.flows.running import (
    CHOOSE_SIZE,
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
    PROMOTE,
    PUBLISH,
    SCREEN_TOKENS,
    StepKind,
)  # fmt: skip
from bpeline.flows.steps.chunk_plan import (
    find_files,
    keys_of,
    known_readings,
    recalled,
    remarks_on,
)
from bpeline.flows.steps.combining import empty_corpus, table_of
from bpeline.flows.steps.counting import CountedCorpus, sections_remark
from bpeline.flows.steps.evaluation_setup import (
    development_files,
    evaluation_files,
    left_out_for,
    not_evaluated,
    not_measured_on,
)
from bpeline.flows.steps.runs import run_to_continue
from bpeline.flows.steps.step_seconds import StepSeconds
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import Catalogue, FileReading, Run, Version
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.references import parse_registered
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

Why = Literal["new", "grown", "changed", "to find copies"]
_SOON_READ = 64 << 20  # bytes of held-out text that a plan looks at
_SOON_COUNTED = 1 << 20  # bytes of new files in which a plan looks for a word
_TEXT_IN_COMPRESSED = 3.5  # bytes of text in one of a compressed file, roughly


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that would be read.

    Attributes:
        path: absolute path.
        why: it is ``new`` under this path, has ``grown``, ``changed`` otherwise, or is read anyway
            ``to find copies`` of documents.
        bytes: on disk; all of them are read.
        most_chunks: how many chunks it may have; None for compressed files.
        known_chunks: how many of them were counted before, if a grown file begins as it did.
        new_bytes: of text that is not in these; estimated for compressed files.
    """

    path: str
    why: Why
    bytes: int
    most_chunks: int | None
    known_chunks: int
    new_bytes: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of the training.

    Attributes:
        name: as in the flow.
        reused: whether an earlier run has done it.
        said: what would be done, or why it need not be.
        seconds: how long it would take, roughly.
    """

    name: str
    reused: bool
    said: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What one run of ``train_tokenizer`` would do now.

    Attributes:
        name: the tokenizer's name.
        workspace: its directory, whether or not it is there.
        files, bytes: of the corpus, on disk.
        skipped: what else the search for them met: files, their kinds, hidden names.
        unread: the files that would be read.
        chunks_reused: chunks of all other files: their counts are there.
        merges_reused: how many merges would be taken over from an earlier run.
        version: the registered version it would come to; empty when it would be another one, or
            when only reading can tell.
        continues: the run it would continue, and how that one ended; empty when it begins anew.
        extends: the version that it continues, and what that keeps; empty for others.
        aliases: which will move, and which not.
        steps: in their order.
        notes: what else people should know.
    """

    name: str
    workspace: str
    files: int
    bytes: int
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
        """Chunks of the files that would be read; None when some are compressed."""
        most = [file.most_chunks for file in self.unread]
        return None if None in most else sum(map(int, filter(None, most)))

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """JSON values, sums among them."""
        return {
            **asdict(self),
            "skipped": self.skipped.as_dict(),
            "bytes_to_read": self.bytes_to_read,
            "most_chunks_to_count": self.most_chunks_to_count,
            "seconds": round(self.seconds, 1),
        }

    def as_text(self) -> str:
        """A few lines for a terminal."""
        width = max(len(step.name) for step in self.steps)
        lines = [f"{'corpus':<{width}}  {counted(self.files, 'file')}, {megabytes(self.bytes)}"]
        if self.extends:
            lines.append(f"{'extends':<{width}}  {self.extends}")
        if self.continues:
            lines.append(f"{'continues':<{width}}  {self.continues}")
        for step in self.steps:
            took = "nothing to do" if step.reused else f"about {_seconds(step.seconds)}"
            lines.append(f"{step.name:<{width}}  {took:>13}  {step.said}")
        lines.append(f"{'together':<{width}}  {f'about {_seconds(self.seconds)}':>13}")
        lines.append(f"{'aliases':<{width}}  {self.aliases}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


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
    """One look at a request and a workspace."""

    def __init__(self, request: TrainingRequest, home: Path) -> None:
        self.request = request
        self.workspace = Workspace(home.expanduser().absolute())
        self.catalogue: Catalogue | None = None
        if Workspace.is_at(home):
            self.catalogue = open_registry(home, make=False).catalogue
        self.reading = request.reading
        self.to_continue: Run | None = None
        runs: list[Run] = []
        if self.catalogue is not None:
            run = self.to_continue = run_to_continue(self.catalogue, request)
            rule = LEFT_OUT_RULE if run is None else run.left_out_rule
            left_out = left_out_for(request.name, self.catalogue, self.workspace, rule)
            self.reading = replace(self.reading, left_out=left_out)
            own = self.workspace.id
            runs = [run for run in self.catalogue.runs(limit=100) if run.workspace == own]
        self.seconds = StepSeconds(request, runs)
        self.given = request.given if request.over_bytes and not request.extends else None
        self.base: ResolvedVersion | None = None
        if request.extends and self.catalogue is not None:
            registry = open_registry(home, make=False)
            self.base = resolve(registry, parse_registered(request.extends))
            extended = load_version(registry, self.base)
            self.base_size = extended.vocab_size
            if not (request.continued_ids or request.transition_size):
                self.given = merges_to_continue(extended, request.tie_break)

    def plan(self) -> TrainingPlan:
        found = self._files()
        files = found.files
        known: Mapping[str, FileReading] = {}
        if self.catalogue is not None:
            known = known_readings(files, self.reading, self.workspace, self.catalogue)
        unread = self._unread([file for file in files if file.path not in known])
        chunks = sum(len(reading.chunks) for reading in known.values())
        corpus = self._corpus([file for file in files if file.path in known], known)
        keys = [key for some in corpus.keys for key in some]
        table = None if unread else table_of(corpus, self.request, self.workspace)
        if table is None:
            self._require_words([file for file in files if file.path not in known], keys)
        text = _bytes_of_text(known.values()) + sum(
            max(file.bytes, file.new_bytes) for file in unread
        )
        sections = "" if unread else self._copied_sections(keys, text)
        merges = 0 if table is None else self._merges_in(table)
        version = None if table is None else self._version(table)
        steps = [
            self._planned(PLAN_CHUNKS, "finds the files"),
            self._counting(files, unread, chunks),
            self._combining(unread, chunks, table, text),
            self._learning(table, merges, text),
            *self._choosing(),
            *self._others(version),
        ]
        return TrainingPlan(
            name=self.request.name,
            workspace=str(self.workspace.root),
            files=len(files),
            bytes=sum(file.size for file in files),
            skipped=found.skipped,
            unread=tuple(unread),
            chunks_reused=chunks,
            merges_reused=merges,
            version="" if version is None else self._called(version),
            continues=self._continued(),
            extends=self._extended(),
            aliases=self._aliases(version),
            steps=tuple(steps),
            notes=tuple(
                filter(
                    None,
                    (
                        self.request.pattern_remark,
                        self.request.parity_remark,
                        *remarks_on(found, self.request, self.reading),
                        not_evaluated(evaluation_files(self.request)[1]),
                        not_measured_on(development_files(self.request)),
                        corpus.copies_remark,
                        sections,
                        self._held(),
                    ),
                )
            ),
        )

    # ---- files -----------------------------------------------------------------------------

    def _files(self) -> FoundFiles:
        if DEMO in self.request.paths:
            place, size = demo_place(self.workspace)
            if not place.is_file():  # the run writes it first
                demo = SourceFile(str(place), DEMO, "jsonl", None, size, 0, 0, 0)
                return FoundFiles((demo,), SkippedFiles())
        return find_files(self.request, self.workspace)

    def _unread(self, files: Sequence[SourceFile]) -> list[UnreadFile]:
        if self.reading.deduplicated:
            whole = (self._unread_file(file, None) for file in files)
            return [replace(one, why="to find copies") for one in whole]
        earlier: Mapping[str, FileReading] = {}
        if self.catalogue is not None:
            earlier = recalled(files, self.reading, self.catalogue.earlier_file_readings)
        return [self._unread_file(file, earlier.get(file.path)) for file in files]

    def _unread_file(self, file: SourceFile, before: FileReading | None) -> UnreadFile:
        if file.is_streamed:
            text = round(file.size * _TEXT_IN_COMPRESSED)
            why: Why = "new" if before is None else "changed"
            return UnreadFile(file.path, why, file.size, None, 0, text)
        most = -(-file.size // self.reading.chunk_bytes)
        if before is None or before.size >= file.size:
            why = "new" if before is None else "changed"
            return UnreadFile(file.path, why, file.size, most, 0, file.size)
        store = WordCountStore(self.workspace)
        # The last chunk ended where the file did, and now ends behind it.
        way = ShardKeys.of(self.reading.of_source(file.source))
        whole = [
            one
            for one in before.chunks[:-1]
            if store.has(one.digest, way.reading_of(one.digest)[1])
        ]
        known = sum(chunk.end - chunk.begin for chunk in whole)
        return UnreadFile(file.path, "grown", file.size, most, len(whole), file.size - known)

    def _require_words(self, unread: Sequence[SourceFile], keys: Sequence[str]) -> None:
        """Refuse a corpus without a word, as the training does; of new files, count small ones."""
        store = WordCountStore(self.workspace)
        if self.request.counts or sum(file.size for file in unread) > _SOON_COUNTED:
            return
        with suppress(CorruptFile):  # which is counted again
            if any(store.statistics([key]).words for key in keys):
                return
            seen = store.statistics(keys)
            held_out, left_out = seen.held_out_bytes, seen.left_out_bytes or 0
            for file in unread:
                way = ShardKeys.of(self.reading.of_source(file.source))
                size = way.reading.chunk_bytes
                for chunk, text in read_chunks(ChunkGroup(file), way.reading, size):
                    counts = count_chunk(chunk, text, way.reading_of(chunk.digest)[0])
                    if len(counts.counts):
                        return
                    held_out += sum(map(len, counts.held_out))
                    left_out += counts.left_out_bytes
            raise empty_corpus(self.request, held_out, left_out)

    # ---- steps -----------------------------------------------------------------------------

    def _counting(
        self, files: Sequence[SourceFile], unread: Sequence[UnreadFile], chunks: int
    ) -> PlannedStep:
        reused = f"{counted(chunks, 'chunk')} of {counted(len(files) - len(unread), 'file')}"
        if not unread:
            return PlannedStep(COUNT_WORDS.name, True, f"{reused} counted before", 0.0)
        kinds = Counter(file.why for file in unread)
        listed = ", ".join(f"{number:,} {why}" for why, number in kinds.items())
        read, new = sum(file.bytes for file in unread), sum(file.new_bytes for file in unread)
        said = f"reads {counted(len(unread), 'file')} ({listed}), {megabytes(read)}"
        again = sum(file.known_chunks for file in unread)
        if again:
            said += f", {counted(again, 'chunk')} of it known if grown files begin as they did"
        if chunks:
            said += f"; {reused} are reused"
        seconds = self.seconds.of_reading(max(read, new), new)
        return PlannedStep(COUNT_WORDS.name, False, said, seconds)

    def _corpus(
        self, files: Sequence[SourceFile], known: Mapping[str, FileReading]
    ) -> CountedCorpus:
        """What is known of it already."""
        readings = tuple(known[file.path] for file in files)
        keys = tuple(keys_of(files, known, self.reading).values())
        sources = tuple(file.source for file in files) if self.request.sources else ()
        return CountedCorpus(readings, 0, 0, keys=keys, sources=sources)

    def _combining(
        self, unread: Sequence[UnreadFile], chunks: int, table: TableHandle | None, text: int
    ) -> PlannedStep:
        if table is not None:
            words = counted(table.rows, "distinct word")
            return PlannedStep(COMBINE_COUNTS.name, True, f"the table is there: {words}", 0.0)
        said = "adds up the counts of all chunks"
        if any(file.why != "new" for file in unread):
            said += "; nothing to do if the files turn out to be what they were"
        return self._planned(COMBINE_COUNTS, said, text)

    def _learning(self, table: TableHandle | None, merges: int, text: int) -> PlannedStep:
        planned = self._merging(table, merges, text)
        if not (rules := self.request.token_rules):
            return planned
        return replace(planned, said=f"{planned.said}; each token: {rules}")

    def _merging(self, table: TableHandle | None, merges: int, text: int) -> PlannedStep:
        wanted = self.request.merges_shown
        total = "merges" if wanted is None else f"up to {wanted:,} merges"
        if self.base is not None and self.request.transition_size and not merges:
            kept = f"the first {self.request.transition_size:,} ids of {self.base}"
            return self._planned(LEARN_MERGES, f"{total} across spaces after {kept}", text)
        if self.base is not None and self.request.continued_ids and not merges:
            return self._planned(LEARN_MERGES, f"{total} after those of {self.base}", text)
        if self.base is not None and self.given is not None and not merges and wanted is not None:
            more = wanted - len(self.given)
            said = f"{more:,} merges after the {len(self.given):,} of {self.base}"
            seconds = more / max(wanted, 1) * self.seconds.of(LEARN_MERGES, text)
            return PlannedStep(LEARN_MERGES.name, False, said, seconds)
        if table is None:
            said = f"{total} from the beginning: these word counts are new"
            return self._planned(LEARN_MERGES, said, text)
        if not merges:
            return self._planned(LEARN_MERGES, f"{total} from the beginning", text)
        if wanted is None or merges >= wanted:
            return PlannedStep(LEARN_MERGES.name, True, f"{merges:,} merges are there", 0.0)
        left = 1 - merges / wanted
        said = f"continues behind the first {merges:,} of {total}"
        seconds = left * self.seconds.of(LEARN_MERGES, text)
        return PlannedStep(LEARN_MERGES.name, False, said, seconds)

    def _merges_in(self, table: TableHandle) -> int:
        """How many merges of these counts are kept, of those that are wanted."""
        request = self.request
        if request.transition_size:
            from bpeline.flows.steps.superword_learning import superwords_of
            from bpeline.flows.steps.token_learning import found_in

            found = found_in(superwords_of(table.counts_digest, request, self.workspace))
            return 0 if found is None else request.merges
        if request.continued_ids:
            from bpeline.flows.steps.continuing import continued_of
            from bpeline.flows.steps.token_learning import found_in

            found = found_in(continued_of(table.counts_digest, request, self.workspace))
            return 0 if found is None else int(found["merges"])
        if request.serves_alike:
            return 0  # what each source holds is not known before it is counted
        if request.over_bytes:
            from bpeline.flows.steps.merge_learning import checkpoint_of, merges_in

            kept = merges_in(
                checkpoint_of(table.counts_digest, request, self.workspace, self.given)
            )
            return min(kept, request.merges)
        from bpeline.flows.steps.token_learning import found_in, tokenizer_of

        found = found_in(tokenizer_of(table.counts_digest, request, self.workspace))
        return 0 if found is None else int(found["merges"])

    def _version(self, table: TableHandle) -> Version | None:
        """The version that was made of these counts by the same settings, whoever asked."""
        if self.catalogue is None or self.request.chooses_size:  # which size, the texts say
            return None
        for version in self.catalogue.versions(self.request.name):
            if version.counts_digest == table.counts_digest:
                made_by = self.catalogue.find_run(version.run_id)
                if made_by is not None and self.request.learns_as(made_by.config):
                    return version
        return None

    def _called(self, version: Version) -> str:
        """Its number where it was registered last; its digest while its publication waits."""
        return self._registered_as(version) or version.digest[:12]

    def _registered_as(self, version: Version) -> str:
        """Its number where it was registered last; empty while its publication waits."""
        assert self.catalogue is not None
        for row in reversed(self.catalogue.registrations(version.name)):
            if row.digest == version.digest:
                return f"{row.name}/{row.number}"
        return ""

    def _choosing(self) -> list[PlannedStep]:
        request = self.request
        if not request.chooses_size:
            return []
        smallest = request.smallest_size_after(0 if self.given is None else len(self.given))
        said = (
            f"the size at which a byte costs {request.model} least, of {smallest:,} to "
            f"{request.vocab_size:,} ids"
        )
        return [self._planned(CHOOSE_SIZE, said)]

    def _others(self, version: Version | None) -> list[PlannedStep]:
        sources = len(self.request.evaluation)
        texts = f"{counted(sources, 'source')} of text" if sources else "documents held out"
        said = {
            EVALUATE: f"on {texts}",
            SCREEN_TOKENS: "looks for personal data",
            PUBLISH: "a new version, unless its tokens are those of an earlier one",
        }
        if version is not None:
            said[PUBLISH] = f"{self._called(version)} is registered and keeps its files"
        if self.request.rules is not None:
            new = version is None or not self._registered_as(version)
            known = "nothing, unless rules refused it: it is not new"
            said[PROMOTE] = "to champion if all rules hold" if new else known
        return [self._planned(step, text) for step, text in said.items()]

    def _aliases(self, version: Version | None) -> str:
        if version is not None and (number := self._registered_as(version)):
            unless = ", unless rules refused it" * bool(self.request.rules)
            return f"candidate and champion stay{unless}: {number} is registered already"
        if self.request.rules is None:
            champion = "champion stays, as no --rules were given"
        else:
            rules = Path(self.request.rules).name
            champion = f"champion too if all rules hold and it gains enough ({rules})"
        return (
            f"candidate moves to the new version, {champion}; neither if it turns out to be "
            f"registered already"
        )

    def _planned(self, step: StepKind, said: str, amount: float = 1) -> PlannedStep:
        """A step that has all of its work to do."""
        return PlannedStep(step.name, False, said, self.seconds.of(step, amount))

    # ---- runs ------------------------------------------------------------------------------

    def _extended(self) -> str:
        if self.base is None:
            return ""
        more = self.request.vocab_size - self.base_size
        return f"{self.base}: its {self.base_size:,} ids stay what they are, {more:,} are added"

    def _continued(self) -> str:
        run = self.to_continue
        if run is None:
            return ""
        return f"run {run.id}, {run.state} at {run.step or 'its beginning'!r}"

    def _copied_sections(self, keys: Sequence[str], text: int) -> str:
        """What the training would say of copies, where it is known and soon read."""
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
        return (
            f"the workspace is at work now ({holder.purpose}, process {holder.process.pid}): a "
            "training would be refused"
        )


def _bytes_of_text(readings: Any) -> int:
    return sum(reading.chunks[-1].end for reading in readings if reading.chunks)


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
