"""Exception classes of bpeline; each message has up to three parts.

Exit codes: 2 for `InvalidInput` and `CorpusError`, 1 for the environment, 3 for a broken promotion
rule, 4 for a rule that could not be judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from bpeline.tokenizer_core.redaction import as_message


def likely(name: str, known: Collection[str]) -> str:
    """Suggest the known name most similar to an unknown one, as the end of a sentence."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _told(part: str) -> str:
    """Hide secrets and control characters, and escape what is not UTF-8 (file names)."""
    return as_message(part).encode("utf-8", "backslashreplace").decode()


class BpelineError(Exception):
    """Base of all errors: what failed, what was expected, what to do.

    Args:
        happened: what failed, with the file, option or value.
        accepted: what was expected; may be empty.
        next_step: what to do, if possible a command.
    """

    exit_code: int = 1

    def __init__(self, happened: str, accepted: str = "", next_step: str = "") -> None:
        self.happened: str = _told(happened)
        self.accepted: str = _told(accepted)
        self.next_step: str = _told(next_step)
        parts = (self.happened, self.accepted, self.next_step)
        super().__init__("\n".join(part for part in parts if part))


class InvalidInput(BpelineError, ValueError):
    """An argument that cannot be used."""

    exit_code = 2


class InvalidOption(InvalidInput):
    """A value out of range, an invalid name or an unknown choice."""


class WrongKind(InvalidOption, TypeError):
    """A value of the wrong type."""


class OutOfRange(InvalidOption, IndexError):
    """An index of a row, document or shard that does not exist."""


class InvalidPattern(InvalidInput):
    """A split pattern that does not compile or loses text."""


class PatternExceedsLimit(InvalidPattern):
    """A regex that exceeds the time or memory limit on a text."""


class SegmenterUnavailable(InvalidPattern):
    """A segmenter dictionary that is missing or has another version."""


class InvalidSpecialToken(InvalidInput):
    """A special token that is empty, duplicate, or not allowed in this text."""


class InvalidTokenizer(InvalidInput):
    """Vocab and merges that are inconsistent or exceed the limits."""


class UnknownToken(InvalidInput):
    """An id or token that is not in the vocab."""


class CorpusError(BpelineError):
    """A corpus that cannot be read as declared."""

    exit_code = 2


class MissingSource(CorpusError):
    """A path or glob that matches nothing."""


class EmptyCorpus(CorpusError):
    """Sources without words."""


class UnreadableSource(CorpusError):
    """A source with broken compression or malformed JSON, or not a regular file."""


class InvalidUtf8(CorpusError):
    """Bytes that are not UTF-8, under the policy ``strict``."""


class CorpusChanged(CorpusError):
    """A file that changed while it was read."""


class StorageError(BpelineError):
    """A workspace that cannot be used or trusted."""


class DiskFull(StorageError):
    """No space left on the disk."""


class NotTrusted(StorageError):
    """A project, workspace or link of another user."""


class CorruptFile(StorageError):
    """A stored file whose digest does not match."""


class StoreLost(StorageError):
    """A catalogue or MLflow database that is missing, empty or replaced."""


class WorkspaceLocked(StorageError):
    """A workspace that another run is using."""


class WorkerLost(BpelineError):
    """A helper process that could not be started or was killed."""


class WorkerRefused(WorkerLost):
    """A worker that runs another version of bpeline or cannot access the files."""


class OutOfMemory(BpelineError, MemoryError):
    """A memory limit that is too low for the work."""


class LibraryFailed(BpelineError):
    """An exception raised by an optional library."""


class RegistryError(BpelineError):
    """A version that cannot be found, published or loaded."""


class UnknownVersion(RegistryError):
    """A name, alias, version number or digest that does not exist."""


class UnknownEvaluationSet(RegistryError):
    """A name without an evaluation set, or with its documents elsewhere."""


class PromotionRefused(RegistryError):
    """A version that breaks a promotion rule."""

    exit_code = 3


class PromotionNotJudged(PromotionRefused):
    """A promotion rule that could not be judged; none is broken."""

    exit_code = 4


class AliasLocked(PromotionRefused):
    """A locked alias, which only ``--force`` moves."""


class NothingGained(PromotionRefused):
    """A version that saves too few tokens to replace the current one."""


class RegistryUnreachable(RegistryError):
    """A tracking server that does not answer."""


class ArtifactsRefused(RegistryUnreachable):
    """A tracking server whose artifacts cannot be read or written."""


@contextmanager
def wrap_errors(library: str, doing: str) -> Iterator[None]:
    """Raise `LibraryFailed` for exceptions of ``library`` inside the block.

    Errors of bpeline, interruptions and `MemoryError` pass unchanged.
    """
    try:
        yield
    except (BpelineError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # a panic in Rust code is not an Exception
        message = " ".join(str(error).split())[:300]
        raise LibraryFailed(
            f"{library} failed while {doing}: {type(error).__name__}: {message}".rstrip(": "),
            f"the error comes from {library}, not from bpeline",
            f"install another version of {library}, or do without it",
        ) from error
