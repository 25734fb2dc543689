"""MLflow's errors as ours: what failed, what is accepted, what to type."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from bpeline.tokenizer_core.errors import (
    ArtifactsRefused,
    BpelineError,
    DiskFull,
    RegistryError,
    RegistryUnreachable,
)
from bpeline.tokenizer_core.redaction import without_secrets

Answer = TypeVar("Answer")
Part = TypeVar("Part")

# MLflow's codes of a thing that is not there (of an alias, the second), and of one that is.
MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
THERE = ("RESOURCE_ALREADY_EXISTS",)
_REFUSALS = {
    *MISSING, *THERE, "BAD_REQUEST", "PERMISSION_DENIED", "UNAUTHENTICATED",
    "CUSTOMER_UNAUTHORIZED", "INVALID_STATE",
}  # fmt: skip
_ATTEMPTS = 5
_LONGEST_REASON = 10_000  # characters: an answer of many megabytes may be quoted in it
_LOST_RACE = ("IntegrityError", "UniqueViolation")
_CLIENT_SAYS = re.compile(r"^API request to \S+ failed with (timeout )?exception ")
_STORE_SAYS = "An error occurred ("  # S3, at the end of what MLflow says of a file
_DISK_IS_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded")
_LATER = {408, 425, 429, 502, 503, 504}  # HTTP's statuses of servers that may answer later


def answering(part: type[Part]) -> type[Part]:
    """Let the public methods of a class that has a `Connection` raise our errors.

    Raises:
        RegistryUnreachable: MLflow does not answer within the settings' limits.
        RegistryError: it refuses.
        DiskFull: no space left for its files.
    """
    for name, method in list(vars(part).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(part, name, _answering(method))
    return part


def _answering(method: Callable[..., Answer]) -> Callable[..., Answer]:
    @wraps(method)
    def answering(self: Any, *arguments: Any, **named: Any) -> Answer:
        try:
            return method(self, *arguments, **named)
        except BpelineError:
            raise
        except Exception as error:
            doing = [method.__name__.replace("_", " "), *arguments[:1]]
            said = " ".join(part for part in doing if isinstance(part, str))
            raise _as_ours(error, said, self._connection.settings.place) from error

    return answering


@contextmanager
def fine_if(codes: Collection[str]) -> Iterator[None]:
    """Suppress MLflow's errors with these codes."""
    try:
        yield
    except Exception as error:
        if getattr(error, "error_code", "") not in codes:
            raise


def insisting(ask: Callable[[], Answer]) -> Answer:
    """Ask, and ask again after losing a race inside MLflow's database.

    MLflow looks whether a row is there and then inserts it; when two processes do so at once, the
    slower one gets an error although asking again would find the row. Only for requests that may
    be repeated.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except Exception as error:
            if not any(sign in str(error) for sign in _LOST_RACE):
                raise
    return ask()


def unshown(place: str, what: str) -> RegistryUnreachable:
    """The error of a server that answers as if all were well and does not show what it did."""
    return RegistryUnreachable(
        f"MLflow at {place} answered as if all were well, but it does not show {what}",
        "accepted is a server that shows what was written to it",
        "look at its log, and type `bpeline doctor`",
    )


def _as_ours(error: Exception, doing: str, place: str) -> RegistryError | DiskFull:
    # Before it is cut: of half an address, nothing tells where its secret ends.
    said = _CLIENT_SAYS.sub("", without_secrets(" ".join(str(error)[:_LONGEST_REASON].split())))
    start = max(said.rfind("(Caused by "), said.rfind(_STORE_SAYS), 0)
    reason = said[start:].removeprefix("(Caused by ")[:200]
    if any(sign in reason for sign in _DISK_IS_FULL):
        return DiskFull(
            f"no space left for MLflow's files ({doing}): {reason}",
            "what was finished before is kept",
            f"free some space on the disk of {place.removeprefix('sqlite:///')}",
        )
    if _is_of_files(error) or _STORE_SAYS in said:
        return ArtifactsRefused(
            f"the place of MLflow's files refuses ({doing}): {reason}",
            "accepted are a directory or bucket that is there, and credentials that may use it",
            f"look at what is named above, BPELINE_ARTIFACTS_URL, and the artifacts of {place}",
        )
    if getattr(error, "error_code", None) in _REFUSALS:
        return RegistryError(
            f"MLflow at {place} refused ({doing}): {reason}",
            "accepted are credentials that may write runs, artifacts and registered models",
            "look at the server's log, or at MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    return RegistryUnreachable(
        f"MLflow at {place} does not answer ({doing}): {reason}",
        "accepted is the URI of a running MLflow server, or of a database it can open",
        "start it, or set MLFLOW_TRACKING_URI to another",
    )


def _is_of_files(error: Exception) -> bool:
    """Whether a path was refused, or an HTTP request for a file; others have MLflow's codes."""
    status = int(getattr(getattr(error, "response", None), "status_code", 0))
    of_a_path = isinstance(error, OSError) and error.filename is not None
    return of_a_path or (status >= 400 and status not in _LATER)
