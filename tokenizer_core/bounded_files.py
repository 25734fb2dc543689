"""Read untrusted files with limits on size, file type and JSON structure."""

from __future__ import annotations

import errno
import gc
import json
import os
import select
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.errors import InvalidTokenizer, MissingSource

MAX_FILE_BYTES = 64 << 20
_MAX_BYTES = 1 << 30  # for files without a smaller limit
# Members and elements of a JSON file. A vocab of a million tokens and its merges has 4 million.
MAX_PARTS = 5_000_000
MAX_DEPTH = 100
_BLOCK = 1 << 16
_PATIENCE = 10_000  # milliseconds to wait for the first byte of a pipe


class UnfitFile(OSError, ValueError):
    """A file of the wrong type or size."""

    def __str__(self) -> str:
        return f"{self.strerror}: {self.filename!r}"


def open_file(path: Path | str, *, pipes: bool = False, links: bool = True) -> FileIO:
    """Open a regular file for reading, without blocking on a pipe of that name.

    Args:
        pipes: also open pipes and terminals, for paths that a user typed.
        links: allow a symbolic link as the last part of the path; other parts may be links.

    Raises:
        OSError: it cannot be opened, or has another type (`UnfitFile`).
    """
    more = os.O_NONBLOCK if links else os.O_NONBLOCK | os.O_NOFOLLOW
    file = FileIO(path, opener=lambda path, flags: os.open(path, flags | more))
    try:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        is_stream = stat.S_ISFIFO(mode) or os.isatty(file.fileno())
        if not (pipes and (is_stream or os.path.samefile(path, os.devnull))):
            expected = "a regular file or a pipe" if pipes else "a regular file"
            raise UnfitFile(errno.EINVAL, f"it is not {expected}", str(path))
        os.set_blocking(file.fileno(), True)
        return file
    except BaseException:
        file.close()
        raise


def read_file(
    path: Path | str, limit: int = _MAX_BYTES, *, pipes: bool = False, links: bool = True
) -> bytes:
    """Read a whole file of at most ``limit`` bytes, including /proc files of size 0.

    Raises `OSError`, of which `UnfitFile` means a wrong type or size.
    """
    with open_file(path, pipes=pipes, links=links) as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        parts = [_first_byte(file, path)] if stat.S_ISFIFO(status.st_mode) else []
        left = limit + 1 if size <= limit else 0
        while left > 0 and (part := file.read(min(left, max(size + 1, _BLOCK)))):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise UnfitFile(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))
    return b"".join(parts)


def _first_byte(pipe: FileIO, path: Path | str) -> bytes:
    """Wait for content or the end of a pipe; return a byte read while waiting."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if poll.poll(_PATIENCE):
        return b""
    os.set_blocking(pipe.fileno(), False)
    first = pipe.read(1)
    os.set_blocking(pipe.fileno(), True)
    if first == b"":
        raise UnfitFile(errno.ENXIO, "no program writes to this pipe", str(path))
    if first is None:
        warnings.warn(f"waiting for the program that writes to the pipe {path}", stacklevel=3)
    return first or b""


def read_json(path: Path, limit: int = MAX_FILE_BYTES) -> Any:
    """Read JSON from a regular file, not a link; raises `OSError` or `ValueError`."""
    return parse_json(read_file(path, limit, links=False))


def read_toml(path: Path, limit: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """Read a TOML file or pipe; raises `OSError` or `ValueError`."""
    return parse_toml(read_file(path, limit, pipes=True))


def read_bounded(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a tokenizer file; raises `MissingSource` or `InvalidTokenizer`."""
    with unreadable_refused(path):
        return read_file(path, limit)


@contextmanager
def unreadable_refused(path: Path) -> Iterator[None]:
    """Translate errors of `read_file` and `open_file` into those of `read_bounded`."""
    try:
        yield
    except (UnfitFile, IsADirectoryError) as error:
        raise InvalidTokenizer(
            f"{path} cannot be read: {error.strerror}",
            "expected a small regular file",
            "check the path",
        ) from error
    except OSError as error:
        raise MissingSource(
            f"{path} cannot be opened: {error.strerror}",
            "expected a readable file",
            "check the path and its permissions",
        ) from error


def text_of(content: bytes, path: Path) -> str:
    """Decode ``content`` as UTF-8; raises `InvalidTokenizer`."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        refuse(path, f"is not UTF-8 at byte {error.start}")


def json_of(content: bytes, path: Path, parse_float: Callable[[str], float] = float) -> Any:
    """Parse JSON of a tokenizer, at most `MAX_PARTS` parts; raises `InvalidTokenizer`."""
    # An upper bound: separators inside strings count too.
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_PARTS:
        refuse(path, f"has more than {MAX_PARTS:,} members and elements")
    text = text_of(content, path)
    try:
        return parse_json(text, parse_float)
    except ValueError as error:
        refuse(path, f"is not valid JSON for a tokenizer: {error}")


def parse_json(content: bytes | str, parse_float: Callable[[str], float] = float) -> Any:
    """Parse JSON strictly; raises `ValueError`.

    UTF-8 only, no duplicate keys, no NaN, bounded depth and digits.
    """
    text = content if isinstance(content, str) else content.decode()
    try:
        with _no_collection():
            value = json.loads(
                text,
                object_pairs_hook=_unique,
                parse_constant=_no_constant,
                parse_float=parse_float,
            )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value if text.count("[") + text.count("{") <= MAX_DEPTH else _not_deep(value)


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse TOML in UTF-8 with bounded depth; raises `ValueError`."""
    try:
        tables = tomllib.loads(content.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _not_deep(tables)
    return tables


_NESTED = frozenset((dict, list))


def _not_deep(value: Any) -> Any:
    """Return the value; raise ValueError if nested more than `MAX_DEPTH` deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        lists = (part for part in level if type(part) is list)
        tables = (part.values() for part in level if type(part) is dict)
        members = [*chain.from_iterable(lists), *chain.from_iterable(tables)]
        if _NESTED.isdisjoint(map(type, members)):  # fast path for flat data, such as vocabs
            return value
        level = [member for member in members if type(member) in _NESTED]
    raise ValueError("it is nested too deeply")


def refuse(path: Path, problem: str, accepted: str = "", next_step: str = "") -> NoReturn:
    """Raise `InvalidTokenizer` for a file."""
    raise InvalidTokenizer(
        f"{path} {problem}",
        accepted or "expected a file in its format",
        next_step or "export the tokenizer again",
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection, which would take as long as the parsing itself."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} occurs twice")
    return entries


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
