"""Convert MLflow's errors to bpeline errors."""

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

# MLflow's error codes; a missing alias is an INVALID_PARAMETER_VALUE.
MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
THERE = ("RESOURCE_ALREADY_EXISTS",)
_REFUSALS = {
    *MISSING, *THERE, "BAD_REQUEST", "PERMISSION_DENIED", "UNAUTHENTICATED",
    "CUSTOMER_UNAUTHORIZED", "INVALID_STATE",
}  # fmt: skip
_ATTEMPTS = 5
_LONGEST_REASON = 10_000  # characters: an error may quote a response of many megabytes
_LOST_RACE = ("IntegrityError", "UniqueViolation")
_CLIENT_SAYS = re.compile(r"^API request to \S+ failed with (timeout )?exception ")
_STORE_SAYS = "An error occurred ("  # S3's message, at the end of MLflow's
_DISK_IS_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded")
_LATER = {408, 425, 429, 502, 503, 504}  # HTTP statuses that are worth a retry


def answering(part: type[Part]) -> type[Part]:
    """Make the public methods of a class with a `Connection` raise bpeline errors."""
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
            action = " ".join(part for part in doing if isinstance(part, str))
            raise _as_ours(error, action, self._connection.settings.place) from error

    return answering


@contextmanager
def fine_if(codes: Collection[str]) -> Iterator[None]:
    """Suppress MLflow errors with these codes."""
    try:
        yield
    except Exception as error:
        if getattr(error, "error_code", "") not in codes:
            raise


def insisting(ask: Callable[[], Answer]) -> Answer:
    """Send a repeatable request, with retries after a race inside MLflow's database.

    MLflow looks up a row before it inserts it: of two processes at once, the slower one fails,
    although a retry would find the row.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except Exception as error:
            if not any(sign in str(error) for sign in _LOST_RACE):
                raise
    return ask()


def unshown(place: str, what: str) -> RegistryUnreachable:
    """Return the error for a write that MLflow confirmed but does not show."""
    return RegistryUnreachable(
        f"MLflow at {place} confirmed the request, but it does not show {what}",
        "expected a server that shows what was written to it",
        "look at its log, and type `bpeline doctor`",
    )


def _as_ours(error: Exception, doing: str, place: str) -> RegistryError | DiskFull:
    # Redact before cutting: in half a URL, the end of the password cannot be found.
    message = _CLIENT_SAYS.sub("", without_secrets(" ".join(str(error)[:_LONGEST_REASON].split())))
    start = max(message.rfind("(Caused by "), message.rfind(_STORE_SAYS), 0)
    reason = message[start:].removeprefix("(Caused by ")[:200]
    if any(sign in reason for sign in _DISK_IS_FULL):
        return DiskFull(
            f"no space left for MLflow's files ({doing}): {reason}",
            "finished work is kept",
            f"free some space on the disk of {place.removeprefix('sqlite:///')}",
        )
    if _is_of_files(error) or _STORE_SAYS in message:
        return ArtifactsRefused(
            f"MLflow's artifact store refused ({doing}): {reason}",
            "expected an existing directory or bucket, and credentials that may use it",
            f"check the path above, BPELINE_ARTIFACTS_URL, and the artifacts of {place}",
        )
    if getattr(error, "error_code", None) in _REFUSALS:
        return RegistryError(
            f"MLflow at {place} refused ({doing}): {reason}",
            "expected credentials that may write runs, artifacts and registered models",
            "check the server's log, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    return RegistryUnreachable(
        f"MLflow at {place} does not answer ({doing}): {reason}",
        "expected the URI of a running MLflow server, or of a database that MLflow can open",
        "start it, or set MLFLOW_TRACKING_URI to another",
    )


def _is_of_files(error: Exception) -> bool:
    """Whether the error is about a path or an HTTP request for an artifact."""
    status = int(getattr(getattr(error, "response", None), "status_code", 0))
    of_a_path = isinstance(error, OSError) and error.filename is not None
    return of_a_path or (status >= 400 and status not in _LATER)
