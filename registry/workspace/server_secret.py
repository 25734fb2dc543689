"""The password of a workspace's servers: a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.redaction import tell_secrets_of

_BYTES = 32
_LONGEST = 4096
_PRIVATE = 0o600


def make_server_secret(path: Path) -> str:
    """Read the password; make one if there is none.

    Raises:
        StorageError: others own the file, or may read or write it.
    """
    if not os.path.lexists(path):
        aside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        try:
            os.write(descriptor, secrets.token_hex(_BYTES).encode() + b"\n")
            os.fsync(descriptor)
            with suppress(FileExistsError):  # of two that make it at once, the first one's counts
                os.link(aside, path)
        finally:
            os.close(descriptor)
            aside.unlink()
        DURABLE.sync(path.parent)
    return read_server_secret(path)


def read_server_secret(path: Path) -> str:
    """Read the password.

    Raises:
        StorageError: it cannot be read; others own the file, or may read or write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(path, error.strerror) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "it is no regular file")
        if status.st_uid != os.geteuid():
            raise _unusable(path, f"it belongs to user {status.st_uid}")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _unusable(path, f"its mode is {stat.S_IMODE(status.st_mode):04o}, not 0600")
        text = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    if len(text) < _BYTES:
        raise _unusable(path, "it is too short")
    tell_secrets_of(f"http://bpeline:{text}@localhost")
    return text


def _unusable(path: Path, why: str | None) -> StorageError:
    return StorageError(
        f"the password of the workspace's servers, {path}, cannot be used: {why}",
        "a file that belongs to you and that nobody else can read",
        f"type `rm {path}`: the next `bpeline ui` or `bpeline server` makes a new one",
    )
