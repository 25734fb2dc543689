"""The password of a workspace's servers, in a file that only its owner can read."""

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
    """Read the password; creates one if there is none."""
    if not os.path.lexists(path):
        DURABLE.require_changeable(path)
        aside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        try:
            os.write(descriptor, secrets.token_hex(_BYTES).encode() + b"\n")
            os.fsync(descriptor)
            with suppress(FileExistsError):  # another process created it first
                os.link(aside, path)
        finally:
            os.close(descriptor)
            aside.unlink()
        DURABLE.sync(path.parent)
    return read_server_secret(path)


def read_server_secret(path: Path) -> str:
    """Read the password.

    Raises:
        StorageError: the file cannot be read, or other users own it or can access it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            text = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        is_private = is_own and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        mode = stat.filemode(status.st_mode)
        why = "" if is_private and len(text) >= _BYTES else f"{mode} of user {status.st_uid}"
    except OSError as error:
        why = str(error.strerror)
    if why:
        raise StorageError(
            f"the password of the workspace's servers, {path}, cannot be used: {why}",
            f"expected a file of {2 * _BYTES} characters that only you can read",
            f"type `rm {path}`: the next `bpeline serve` creates a new one",
        )
    tell_secrets_of(f"http://bpeline:{text}@localhost")
    return text
