"""MLflow's errors as ours: what failed, what is accepted, what to type."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from bpeline.tokenizer_core.errors import (
    ArtifactsRefused,
    DiskFull,
    RegistryError,
    RegistryUnreachable,
)
from bpeline.tokenizer_core.redaction import without_secrets

Answer = TypeVar("Answer")

_ATTEMPTS = 5
_LONGEST_REASON = 10_000  # characters: an answer of many megabytes may be quoted in it
_LOST_RACE = ("IntegrityError", "UniqueViolation")
_CLIENT_SAYS = re.compile(r"^API request to \S+ failed with (timeout )?exception ")
_STORE_SAYS = "An error occurred ("  # S3, at the end of what MLflow says of a file
_DISK_IS_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded")
_LATER = {408, 425, 429, 502, 503, 504}  # HTTP's statuses of servers that may answer later
_REFUSALS = {
    "BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST",
    "PERMISSION_DENIED", "UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "INVALID_STATE",
}  # fmt: skip
# What MLflow says of a thing that is not there; of an alias, that it is an invalid parameter.
_MISSING = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}


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


def says_missing(error: Any) -> bool:
    """Whether MLflow's answer is that there is no such thing."""
    return getattr(error, "error_code", "") in _MISSING


def already_exists(error: Any) -> bool:
    """Whether MLflow's answer is that there is one already."""
    return getattr(error, "error_code", "") == "RESOURCE_ALREADY_EXISTS"


def unshown(place: str, what: str) -> RegistryUnreachable:
    """The error of a server that answers as if all were well and does not show what it did."""
    return RegistryUnreachable(
        f"MLflow at {place} answered as if all were well, but it does not show {what}",
        "accepted is a server that shows what was written to it",
        "look at its log, and type `bpeline doctor`",
    )


def _status(error: Exception) -> int:
    """HTTP's status, of what the client of files raises; 0 of other errors."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def as_registry_error(error: Exception, doing: str, uri: str) -> RegistryError | DiskFull:
    """An error of MLflow, the network or the disk, as one of ours."""
    code = getattr(error, "error_code", None)
    # Before it is cut: of half an address, nothing tells where its secret ends.
    said = _CLIENT_SAYS.sub("", without_secrets(" ".join(str(error)[:_LONGEST_REASON].split())))
    reason = said.rpartition("(Caused by ")[2][:200]
    if _STORE_SAYS in said:
        refusal = said[said.rindex(_STORE_SAYS) :][:200]
        return ArtifactsRefused(
            f"the store of MLflow's files refuses ({doing}): {refusal}",
            "accepted is a bucket that is there, and credentials that may read and write in it",
            "make the bucket, or look at BPELINE_ARTIFACTS_URL and at the store's credentials",
        )
    if any(sign in reason for sign in _DISK_IS_FULL):
        return DiskFull(
            f"no space left for MLflow's files ({doing}): {reason}",
            "what was finished before is kept",
            f"free some space on the disk of {uri.removeprefix('sqlite:///')}",
        )
    if isinstance(error, OSError) and error.filename is not None:  # those of a network name none
        return ArtifactsRefused(
            f"the system refuses MLflow's files ({doing}): {reason}",
            "accepted are directories that are there, and that this user may read and write",
            f"look at what is named above, and at the artifacts of {uri}",
        )
    if _status(error) >= 400 and _status(error) not in _LATER:
        return ArtifactsRefused(
            f"MLflow at {uri} refuses a file ({doing}): {reason}",
            "accepted are credentials that may read and write artifacts, and files it has room for",
            "look at the server's log, then type the same command again",
        )
    if code in _REFUSALS:
        return RegistryError(
            f"MLflow at {uri} refused while {doing}: {reason}",
            "accepted are credentials that may write runs, artifacts and registered models",
            "look at the server's log, or at MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    return RegistryUnreachable(
        f"MLflow at {uri} does not answer ({doing}): {reason}",
        "accepted is the URI of a running MLflow server, or of a database it can open",
        "start it, or set MLFLOW_TRACKING_URI to another",
    )
