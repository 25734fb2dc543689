"""Secure access to the kernel cache, a directory that only this user can write to.

Cached files are loaded as code, so every directory on the path must belong to this user or root,
must not be a link, and must not be writable by others. Sticky directories such as /tmp are allowed,
because other users cannot rename or remove entries there. Each directory is opened through the
descriptor of its parent, from the root and without following links, so a link or directory that is
swapped in later is never used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 26  # of one file; kernels take at most a few hundred kilobytes
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_INSIDE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# With O_PATH, parent directories need not be readable.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # does not block on a FIFO
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TURN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MINE_ALONE = 0o700
_ELSEWHERE = "set BPELINE_KERNEL_CACHE to a directory that only you can write to"


class Untrusted(OSError):
    """A directory or file that others can write to, or of the wrong type."""

    def __init__(self, reason: str, mend: str) -> None:
        super().__init__(reason)
        self.reason, self.mend = reason, mend


def kept_below() -> str:
    """Return the root of the caches: ``BPELINE_KERNEL_CACHE``, ``XDG_CACHE_HOME``.

    As its specification requires, an empty or relative ``XDG_CACHE_HOME`` is ignored.
    """
    if named := os.environ.get("BPELINE_KERNEL_CACHE"):
        return os.path.abspath(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "bpeline", "kernels")


@contextlib.contextmanager
def opened(directory: str | Path, *, make: bool = False) -> Iterator[int]:
    """Open a directory of this user and yield its descriptor.

    Args:
        directory: an absolute path.
        make: create missing directories, accessible by this user only.

    Raises:
        Untrusted: others can write to it or to a parent, or the path contains a link.
        OSError: it is missing or cannot be opened.
    """
    path = os.path.normpath(directory)
    if not os.path.isabs(path):
        raise Untrusted(f"{path} is not an absolute path", _ELSEWHERE)
    current = "/"
    descriptor = os.open(current, _DIRECTORY)
    try:
        for name in path.strip("/").split("/"):
            _trust(os.fstat(descriptor), current, {0, os.geteuid()}, sticky=True)
            current = os.path.join(current, name)
            descriptor = _instead_of(descriptor, _open_inside(descriptor, name, current, make))
        _trust(os.fstat(descriptor), current, {os.geteuid()}, sticky=False)
        descriptor = _instead_of(descriptor, os.open(".", _INSIDE, dir_fd=descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _instead_of(descriptor: int, other: int) -> int:
    os.close(descriptor)
    return other


@contextlib.contextmanager
def opened_inside(parent: int, name: str) -> Iterator[int]:
    """Open a subdirectory of an open directory; see `opened`."""
    descriptor = _open_inside(parent, name, name, make=False)
    try:
        _trust(os.fstat(descriptor), name, {os.geteuid()}, sticky=False)
        descriptor = _instead_of(descriptor, os.open(".", _INSIDE, dir_fd=descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _open_inside(parent: int, name: str, path: str, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _MINE_ALONE, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        try:
            linked = stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode)
        except OSError:
            linked = False
        if linked:
            mend = "set BPELINE_KERNEL_CACHE to a directory whose path contains no link"
            raise Untrusted(f"{path} is a link", mend) from None
        raise error


def _trust(status: os.stat_result, path: str, owners: set[int], *, sticky: bool) -> None:
    """Raise `Untrusted` for a directory that others can change, unless ``sticky``."""
    if status.st_uid not in owners:
        owner = "root" if status.st_uid == 0 else f"another user ({status.st_uid})"
        raise Untrusted(f"{path} belongs to {owner}", _ELSEWHERE)
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        reason = f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
        raise Untrusted(
            reason,
            f"chmod go-w {shlex.quote(str(path))}" if sticky else f"rm -r {shlex.quote(str(path))}",
        )


def read_file(directory: int, name: str) -> bytes:
    """Read a file; raises `Untrusted` if it is not a small file of this user alone."""
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Untrusted(f"{name} cannot be opened: {error.strerror}", "remove it") from None
    status = os.fstat(descriptor)
    trusted = (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and status.st_nlink == 1
        and not status.st_mode & _OTHERS_WRITE
        and status.st_size <= MOST_BYTES
    )
    if not trusted:
        os.close(descriptor)
        raise Untrusted(f"{name} is not a regular file that only this user can write", "remove it")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES)


def write_file(directory: int, name: str, content: bytes) -> None:
    """Write a file atomically, replacing any file of that name."""
    unfinished = f"{name}.{secrets.token_hex(8)}.tmp"
    descriptor = os.open(unfinished, _NEW, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished, dir_fd=directory)
        raise


@contextlib.contextmanager
def turn(directory: int, name: str) -> Iterator[None]:
    """Hold the lock file ``name`` during the block, if the file system supports locks."""
    descriptor = os.open(name, _TURN, 0o600, dir_fd=directory)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Holding:
    """Names of regular files, their total size in bytes, and names of other entries."""

    files: tuple[str, ...]
    size: int
    others: tuple[str, ...]


def holding(directory: int) -> Holding:
    """List the entries of a directory without following links."""
    files, others, size = [], [], 0
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # replaced by another process
                if entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
                    files.append(entry.name)
                else:
                    others.append(entry.name)
    return Holding(tuple(sorted(files)), size, tuple(sorted(others)))
