"""The directory of machine code, which only this user can write to.

What is kept there is loaded as code. So every directory on the path must be one that only this user
and root can change: no link, owned by them, and not writable by others; a sticky one (as /tmp) may
be, because nobody can rename or remove there what another user made. The path is walked from the
root by descriptors each time, without following links, and files are read, written and removed
through the last one: a link or a directory that is put in the way meanwhile is never used.
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

MOST_BYTES = 1 << 26  # of one file; kernels take a few hundred kilobytes at most
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_INSIDE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# On the way to a directory its parents need not be readable, where the system knows of that.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO is not waited for
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TURN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MINE_ALONE = 0o700
_ELSEWHERE = "set BPELINE_KERNEL_CACHE to a directory that you alone may write"


class Untrusted(OSError):
    """A directory or a file that others can write to, or that is not what it should be.

    Args:
        reason: what was found, naming the path.
        mend: what to type.
    """

    def __init__(self, reason: str, mend: str) -> None:
        super().__init__(reason)
        self.reason, self.mend = reason, mend


def kept_below() -> str:
    """Where caches are kept: ``BPELINE_KERNEL_CACHE``, or where the user's caches are.

    An ``XDG_CACHE_HOME`` that is empty or relative does not count, as its specification says. A
    relative ``BPELINE_KERNEL_CACHE`` counts from the working directory.
    """
    if named := os.environ.get("BPELINE_KERNEL_CACHE"):
        return os.path.abspath(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "bpeline", "kernels")


@contextlib.contextmanager
def opened(directory: str | Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a directory of this user, as long as the block lasts.

    Args:
        directory: an absolute path.
        make: make what is missing of it, for this user alone.

    Raises:
        Untrusted: others can write to it or to a directory on the way, or a link leads there.
        OSError: it is missing or cannot be opened.
    """
    path = os.path.normpath(directory)
    if not os.path.isabs(path):
        raise Untrusted(f"{path} is no absolute path", _ELSEWHERE)
    there = "/"
    descriptor = os.open(there, _DIRECTORY)
    try:
        for name in path.strip("/").split("/"):
            _trust(os.fstat(descriptor), there, {0, os.geteuid()}, sticky=True)
            there = os.path.join(there, name)
            descriptor = _instead_of(descriptor, _open_inside(descriptor, name, there, make))
        _trust(os.fstat(descriptor), there, {os.geteuid()}, sticky=False)
        descriptor = _instead_of(descriptor, os.open(".", _INSIDE, dir_fd=descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _instead_of(descriptor: int, other: int) -> int:
    os.close(descriptor)
    return other


@contextlib.contextmanager
def opened_inside(parent: int, name: str) -> Iterator[int]:
    """`opened` of a directory in one that is opened."""
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
            mend = "set BPELINE_KERNEL_CACHE to a directory that no link leads to"
            raise Untrusted(f"{path} is a link", mend) from None
        raise error


def _trust(status: os.stat_result, path: str, owners: set[int], *, sticky: bool) -> None:
    """Refuse a directory whose entries others than its owners can change.

    Args:
        sticky: whether others may write where they cannot touch what is not their own.

    Raises:
        Untrusted: as `opened`.
    """
    if status.st_uid not in owners:
        owner = "root" if status.st_uid == 0 else f"another user ({status.st_uid})"
        raise Untrusted(f"{path} belongs to {owner}", _ELSEWHERE)
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        found = f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
        raise Untrusted(
            found,
            f"chmod go-w {shlex.quote(str(path))}" if sticky else f"rm -r {shlex.quote(str(path))}",
        )


def read_file(directory: int, name: str) -> bytes:
    """The content of a file of this user.

    Raises:
        FileNotFoundError: it is missing.
        Untrusted: a link, no regular file, one with other names, of another user, that others can
            write to, or larger than `MOST_BYTES`.
    """
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
        raise Untrusted(f"{name} is no file of this user alone", "remove it")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES)


def write_file(directory: int, name: str, content: bytes) -> None:
    """Put a file in place as a whole, over whatever has its name.

    Raises:
        OSError: it cannot be written.
    """
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
    """Wait until no other process has this name's turn, and have it as long as the block lasts.

    It ends with the process that has it, however that ends. Where the file system knows no locks
    everybody goes at once.

    Raises:
        OSError: the file of this name cannot be made.
    """
    descriptor = os.open(name, _TURN, 0o600, dir_fd=directory)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a directory holds: names of regular files, their bytes together, and other names."""

    files: tuple[str, ...]
    size: int
    others: tuple[str, ...]


def holding(directory: int) -> Holding:
    """Look into a directory without following links."""
    files, others, size = [], [], 0
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process replaces it
                if entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
                    files.append(entry.name)
                else:
                    others.append(entry.name)
    return Holding(tuple(sorted(files)), size, tuple(sorted(others)))
