"""Every error this project raises on purpose, as one tree; each message has three parts.

    BpelineError
    ├── InvalidInput            something the caller gave cannot be used as it is
    │   ├── InvalidOption           a parameter out of range, a bad name, an unknown choice
    │   ├── InvalidPattern          a split pattern that does not compile or loses text
    │   │   ├── PatternExceedsLimit     a regex that takes too much time or memory on a text
    │   │   └── SegmenterUnavailable    a dictionary that is not installed, or is another one
    │   ├── InvalidSpecialToken     empty, duplicate, or not allowed in this text
    │   ├── InvalidTokenizer        vocab and merges that contradict each other or exceed the limits
    │   └── UnknownToken            an id or token that the vocab does not hold
    ├── CorpusError             the corpus cannot be read as declared
    │   ├── MissingSource           a path or glob that matches nothing
    │   ├── EmptyCorpus             sources without a single word
    │   ├── UnreadableSource        broken compression, malformed JSON lines, not a regular file
    │   ├── InvalidUtf8             bytes that are not UTF-8 under the policy ``strict``
    │   └── CorpusChanged           a file changed while it was being read
    ├── StorageError            the workspace cannot be used or trusted
    │   ├── DiskFull                no space left
    │   ├── CorruptFile             a stored file fails its digest
    │   └── WorkspaceLocked         another run holds the workspace
    ├── WorkerLost              a process that works for this one cannot be started or was killed
    │   └── WorkerRefused           a worker runs another program or does not see the files
    └── RegistryError           a version cannot be found, published or loaded
        ├── UnknownVersion          no such name, alias, number or digest
        └── RegistryUnreachable     the tracking server does not answer

``InvalidInput`` and ``CorpusError`` are the caller's to mend (exit code 2); the others are the
environment's (exit code 1).
"""

from __future__ import annotations


class BpelineError(Exception):
    """What happened, what is accepted, what to type next.

    Args:
        happened: one sentence about what was found, naming the file, option or value.
        accepted: what would have been accepted (may be empty when nothing would).
        next_step: what to do now, as something to type where that is possible.
    """

    exit_code = 1

    def __init__(self, happened: str, accepted: str = "", next_step: str = "") -> None:
        self.happened = happened
        self.accepted = accepted
        self.next_step = next_step
        super().__init__("\n".join(part for part in (happened, accepted, next_step) if part))


class InvalidInput(BpelineError, ValueError):
    exit_code = 2


class InvalidOption(InvalidInput):
    pass


class InvalidPattern(InvalidInput):
    pass


class PatternExceedsLimit(InvalidPattern):
    pass


class SegmenterUnavailable(InvalidPattern):
    pass


class InvalidSpecialToken(InvalidInput):
    pass


class InvalidTokenizer(InvalidInput):
    pass


class UnknownToken(InvalidInput):
    pass


class CorpusError(BpelineError):
    exit_code = 2


class MissingSource(CorpusError):
    pass


class EmptyCorpus(CorpusError):
    pass


class UnreadableSource(CorpusError):
    pass


class InvalidUtf8(CorpusError):
    pass


class CorpusChanged(CorpusError):
    pass


class StorageError(BpelineError):
    pass


class DiskFull(StorageError):
    pass


class CorruptFile(StorageError):
    pass


class WorkspaceLocked(StorageError):
    pass


class WorkerLost(BpelineError):
    pass


class WorkerRefused(WorkerLost):
    pass


class RegistryError(BpelineError):
    pass


class UnknownVersion(RegistryError):
    pass


class PromotionRefused(RegistryError):
    """A version breaks a rule of promotion."""

    exit_code = 3


class RegistryUnreachable(RegistryError):
    pass
