"""What a database complains of, as errors of ours; knows SQLite's words and PostgreSQL's codes."""

from __future__ import annotations

from typing import Any

from bpeline.tokenizer_core.errors import (
    BpelineError,
    CorruptFile,
    DiskFull,
    RegistryError,
    RegistryUnreachable,
    StorageError,
)

LOCK_SECONDS = 30  # how long a writer waits for the one before it

# SQLSTATE: PostgreSQL's codes, the same in every language its messages are in.
_LOST_RACE = {"40001", "40P01"}  # serialization failure, deadlock
_LOCKED = {"55P03"}
_FULL = {"53100"}
_GONE = ("08", "57P")  # no connection; shut down, starting up


def is_busy(reason: Any) -> bool:
    """Whether somebody else holds what is needed."""
    code = _code(reason)
    return code in _LOST_RACE | _LOCKED or "database is locked" in str(reason)


def lost_race(reason: Any) -> bool:
    """Whether the same transaction may succeed when it is begun again at once."""
    return _code(reason) in _LOST_RACE or "database is locked" in str(reason)


def is_gone(reason: Any) -> bool:
    """Whether a server did not answer, or ended the connection; never so for a file."""
    code = _code(reason)
    if code is None:  # libpq could not connect, or the connection broke
        return hasattr(reason, "sqlstate") and type(reason).__name__ == "OperationalError"
    return code.startswith(_GONE)


def translated(reason: Any, place: str, server: bool) -> BpelineError:
    """A driver's error as one of ours.

    Args:
        reason: the driver's own error.
        place: the database's URL without its password.
        server: whether it is one, rather than a file.
    """
    said = " ".join(str(reason).split())
    if _code(reason) in _FULL or "disk is full" in said:
        return DiskFull(
            f"no space left while writing the catalogue {place}",
            "the catalogue keeps its earlier content",
            "free some space and run the same command again",
        )
    if not server and ("not a database" in said or "malformed" in said):
        return CorruptFile(
            f"the catalogue {place} is damaged: {said}",
            "a SQLite database that bpeline made",
            "restore it, or move it away and start anew: versions in MLflow are not affected",
        )
    if is_busy(reason):
        return StorageError(
            f"the catalogue {place} stays locked by others",
            f"others may hold it for up to {LOCK_SECONDS} s",
            "stop the program that holds it (a database browser?) and try again",
        )
    if server and is_gone(reason):
        return RegistryUnreachable(
            f"the catalogue {place} does not answer: {said}",
            "a PostgreSQL server that accepts this user",
            "start it, or mend BPELINE_CATALOGUE_URL, and run the same command again",
        )
    return (RegistryError if server else StorageError)(
        f"the catalogue {place} refuses: {said}",
        "a database that this user may read and write",
        "grant this user the rights of an owner, or mend BPELINE_CATALOGUE_URL"
        if server
        else "see whether its file and folder can be read and written by this user",
    )


def release_0_1(place: str) -> StorageError:
    """The refusal of what release 0.1 made."""
    return StorageError(
        f"{place} is of bpeline 0.1",
        "a workspace of bpeline 0.2 or later",
        "type `bpeline promote NAME/NUMBER` with bpeline 0.2, which converts the workspace",
    )


def other_schema(place: str, number: int, known: int) -> StorageError:
    """The refusal of tables that a later bpeline made, or release 0.1."""
    if number < known:
        return release_0_1(f"the catalogue {place}")
    return StorageError(
        f"the catalogue {place} has the schema version {number}",
        f"this bpeline knows versions up to {known}",
        "install a newer bpeline, or set BPELINE_CATALOGUE_URL to another catalogue",
    )


def _code(reason: Any) -> str | None:
    return getattr(reason, "sqlstate", None)
