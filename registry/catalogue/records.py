"""What the catalogue answers with: plain frozen values, whichever database stands behind it.

Times are UTC in ISO 8601; a text that is not known is empty. Knows no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from bpeline.tokenizer_core.redaction import in_one_line

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import SourceFile

RunState = Literal[
    "running", "interrupted", "finished", "failed", "unpublished", "refused", "dismissed"
]


def utc_now(later: float = 0.0) -> str:
    """The time as the catalogue keeps it, or so many seconds later; texts compare as times do."""
    at = datetime.now(UTC) + timedelta(seconds=later)
    return at.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """One chunk as it was read.

    Attributes:
        digest: of its bytes.
        begin: byte where it begins in the decompressed file.
        end: byte where it ends.
        ordinal: its place in the file, from 0.
    """

    digest: str
    begin: int
    end: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class FileReading:
    """Which chunks a file held when it had this size, these times and this inode.

    Attributes:
        path: absolute path.
        size: bytes on disk.
        mtime_ns: time of the last change of the content.
        ctime_ns: time of the last change of anything; cannot be set back by programs.
        inode: which file the path named.
        chunk_bytes: the grid that was asked for.
        reading_digest: how bytes were turned into text.
        chunks: in the order of the file.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    chunk_bytes: int
    reading_digest: str
    chunks: tuple[ChunkRecord, ...]

    @classmethod
    def of(
        cls,
        file: SourceFile,
        chunk_bytes: int,
        reading_digest: str,
        chunks: Sequence[ChunkRecord],
    ) -> FileReading:
        """The reading of a source file that has just been read."""
        return cls(file.path, *file.state, chunk_bytes, reading_digest, tuple(chunks))


@dataclass(frozen=True, slots=True)
class CountTable:
    """A word-count table that was made.

    Attributes:
        key: its name in the word-count store.
        counts_digest: digest of the word counts in it.
        corpus_digest: digest of the corpus it counts.
        words: distinct words.
        total: occurrences of all words together.
        run_id: the run that made it.
        created_at: when.
    """

    key: str
    counts_digest: str
    corpus_digest: str
    words: int
    total: int
    run_id: str = ""
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the pipeline.

    Attributes:
        id: 12 hexadecimal digits.
        name: the tokenizer's name.
        config: what was asked for, as JSON values.
        state: ``interrupted`` when it was running in a process that is known to be dead;
            ``refused`` when what was asked for could not be begun; ``dismissed`` when somebody
            said that it is not to be continued.
        pid: the process it runs or ran in.
        host: the machine of that process.
        started_at: when it was first started.
        heartbeat_at: when it last said that it lives.
        finished_at: when it ended in whatever way; empty while running.
        corpus_digest: known after reading.
        counts_digest: known after counting.
        step: the last step reached.
        error: why it failed or could not be published.
        workspace: `Workspace.id` of the workspace it works in.
        left_out_rule: by which text of the evaluation set is left out; 1 of runs of before.
    """

    id: str
    name: str
    config: Mapping[str, Any]
    state: RunState
    pid: int
    host: str
    started_at: str
    heartbeat_at: str
    finished_at: str = ""
    corpus_digest: str = ""
    counts_digest: str = ""
    step: str = ""
    error: str = ""
    workspace: str = ""
    left_out_rule: int = 1


@dataclass(frozen=True, slots=True)
class Version:
    """A finished tokenizer with its lineage, under one name.

    Attributes:
        name: the tokenizer's name.
        digest: digest of its behaviour; unique under a name.
        run_id: the run that made it first.
        corpus_digest: the corpus it was trained on.
        counts_digest: the word counts it was trained on.
        vocab_size: number of ids.
        pattern: the split pattern's name or regex.
        created_at: when it was finished.
        trained: grows from each finished training to the next that makes it, whatever clocks
            say; 0 where no training here made it.
        measured_on: digest of the evaluation set that its metrics are of; empty for texts of its
            own.
    """

    name: str
    digest: str
    run_id: str = ""
    corpus_digest: str = ""
    counts_digest: str = ""
    vocab_size: int = 0
    pattern: str = ""
    created_at: str = ""
    trained: int = 0
    measured_on: str = ""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """The evaluation set that a name has or had.

    Attributes:
        name: the tokenizers'.
        number: 1 for its first set; the greatest is the one it has now.
        digest: which set.
        by, reason: who set it, and why.
        at: since when, UTC, ISO 8601.
    """

    name: str
    number: int
    digest: str
    by: str = ""
    reason: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """An MLflow has a version, under a number of its own.

    Attributes:
        store: identity of that MLflow; empty for one of before MLflows had any.
        name, number: what the version is called there.
        digest: of the tokenizer.
        mlflow_run_id: the MLflow run it was registered from.
        registered_at: UTC, ISO 8601.
    """

    store: str
    name: str
    number: int
    digest: str
    mlflow_run_id: str = ""
    registered_at: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A version was deleted, or is to be; its number is never used again.

    Attributes:
        store: identity of the MLflow whose number it is.
        name, number: which version it was.
        digest: of the tokenizer.
        by, reason: who deleted it, and why.
        at: when that was asked for.
        done_at: when all of it was gone; empty while something may be left.
        workspace: `Workspace.id` of the one that does it.
    """

    store: str
    name: str
    number: int
    digest: str
    by: str = ""
    reason: str = ""
    at: str = ""
    done_at: str = ""
    workspace: str = ""

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        why = f": {self.reason}" if self.reason else ""
        return in_one_line(f"deleted on {self.at[:16].replace('T', ' ')} UTC{who}{why}")


MoveKind = Literal["publish", "promote", "rollback", "seen", "refusal", "remove"]


@dataclass(frozen=True, slots=True)
class AliasMove:
    """An alias was pointed elsewhere, or was asked to.

    Attributes:
        name: the tokenizer's name.
        alias: the alias.
        from_number: where it pointed before; None for nowhere.
        to_number: where it points since; None for nowhere.
        by: who moved it.
        reason: why.
        at: when.
        kind: ``publish``: to a new version; ``promote``; ``rollback``: the last move undone;
            ``seen``: somebody moved it in MLflow itself; ``refusal``: rules kept it where it is;
            ``remove``: it was taken away.
        store: identity of the MLflow whose numbers these are.
        from_digest, to_digest: of the tokenizers that had these numbers; empty for nowhere, and in
            the history of earlier releases.
    """

    name: str
    alias: str
    from_number: int | None
    to_number: int | None
    by: str = ""
    reason: str = ""
    at: str = ""
    kind: MoveKind = "promote"
    store: str = ""
    from_digest: str = ""
    to_digest: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured value; ``step`` is the vocab size for metrics that vary with it, else 0."""

    key: str
    step: int
    value: float


def last_values(metrics: Iterable[Metric]) -> dict[str, float]:
    """Of every curve its last point."""
    return {one.key: one.value for one in sorted(metrics, key=lambda one: one.step)}
