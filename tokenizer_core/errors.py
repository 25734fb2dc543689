"""Every error this project raises on purpose, as one tree; each message has three parts.

`InvalidInput` and `CorpusError` are the caller's to mend (exit code 2); the others are the
environment's (exit code 1). A rule that is broken has 3, one that could not be judged 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from bpeline.tokenizer_core.redaction import as_message


def likely(name: str, known: Collection[str]) -> str:
    """The accepted name that is most like one that is not, as the end of a sentence; or nothing."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f"; {near[0]} is meant?" if near else ""


def _told(part: str) -> str:
    """Without secrets and controls, and in UTF-8: names of files may have no such form."""
    return as_message(part).encode("utf-8", "backslashreplace").decode()


class BpelineError(Exception):
    """What happened, what is accepted, what to type next, each without secrets.

    Args:
        happened: one sentence about what was found, naming the file, option or value.
        accepted: what would have been accepted (may be empty when nothing would).
        next_step: what to do now, as something to type where that is possible.
    """

    exit_code: int = 1

    def __init__(self, happened: str, accepted: str = "", next_step: str = "") -> None:
        self.happened: str = _told(happened)
        self.accepted: str = _told(accepted)
        self.next_step: str = _told(next_step)
        parts = (self.happened, self.accepted, self.next_step)
        super().__init__("\n".join(part for part in parts if part))


class InvalidInput(BpelineError, ValueError):
    """Something the caller gave cannot be used as it is."""

    exit_code = 2


class InvalidOption(InvalidInput):
    """A parameter out of range, a bad name, an unknown choice."""


class WrongKind(InvalidOption, TypeError):
    """A value of another type than is accepted."""


class OutOfRange(InvalidOption, IndexError):
    """The number of a row, a document or a shard that there is not."""


class InvalidPattern(InvalidInput):
    """A split pattern that does not compile or loses text."""


class PatternExceedsLimit(InvalidPattern):
    """A regex that takes too much time or memory on a text."""


class SegmenterUnavailable(InvalidPattern):
    """A dictionary that is not installed, or is another one."""


class InvalidSpecialToken(InvalidInput):
    """Empty, duplicate, or not allowed in this text."""


class InvalidTokenizer(InvalidInput):
    """Vocab and merges that contradict each other or exceed the limits."""


class UnknownToken(InvalidInput):
    """An id or token that the vocab does not hold."""


class CorpusError(BpelineError):
    """The corpus cannot be read as declared."""

    exit_code = 2


class MissingSource(CorpusError):
    """A path or glob that matches nothing."""


class EmptyCorpus(CorpusError):
    """Sources without a single word."""


class UnreadableSource(CorpusError):
    """Broken compression, malformed JSON lines, not a regular file."""


class InvalidUtf8(CorpusError):
    """Bytes that are not UTF-8 under the policy ``strict``."""


class CorpusChanged(CorpusError):
    """A file changed while it was being read."""


class StorageError(BpelineError):
    """The workspace cannot be used or trusted."""


class DiskFull(StorageError):
    """No space left."""


class NotTrusted(StorageError):
    """A project, workspace or link belongs to another user."""


class CorruptFile(StorageError):
    """A stored file fails its digest."""


class StoreLost(StorageError):
    """A catalogue or an MLflow that was there is missing, empty or another."""


class WorkspaceLocked(StorageError):
    """Another run holds the workspace."""


class WorkerLost(BpelineError):
    """A process that works for this one cannot be started or was killed."""


class WorkerRefused(WorkerLost):
    """A worker runs another program or does not see the files."""


class OutOfMemory(BpelineError, MemoryError):
    """The limits of this process leave less memory than the work needs."""


class LibraryFailed(BpelineError):
    """A library that a user may leave out raised an exception of its own."""


class RegistryError(BpelineError):
    """A version cannot be found, published or loaded."""


class UnknownVersion(RegistryError):
    """No such name, alias, number or digest."""


class UnknownEvaluationSet(RegistryError):
    """A name has no evaluation set, or its documents are elsewhere."""


class PromotionRefused(RegistryError):
    """A version breaks a rule of promotion."""

    exit_code = 3


class PromotionNotJudged(PromotionRefused):
    """No rule of promotion is broken, but one of them could not be judged."""

    exit_code = 4


class AliasLocked(PromotionRefused):
    """An alias was locked, and is moved only by force."""


class NothingGained(PromotionRefused):
    """No rule of promotion is broken, and the version saves too few tokens to replace another."""


class RegistryUnreachable(RegistryError):
    """The tracking server does not answer."""


class ArtifactsRefused(RegistryUnreachable):
    """The tracking server answers, and its files cannot be read or written.

    What waits for a server that does not answer waits for its files in the same way.
    """


@contextmanager
def fenced(library: str, doing: str) -> Iterator[None]:
    """Let nothing that a library raises out of the block, whatever it is derived from.

    Errors of ours, interruptions, and a lack of memory pass.

    Args:
        library: its name, for the message.
        doing: what it is asked to do, for the message.

    Raises:
        LibraryFailed: it raised something.
    """
    try:
        yield
    except (BpelineError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # what Rust panics with is no Exception
        said = " ".join(str(error).split())[:300]
        raise LibraryFailed(
            f"{library} failed while {doing}: {type(error).__name__}: {said}".rstrip(": "),
            f"accepted is what {library} can do",
            f"install another version of {library}, or do without it",
        ) from error
