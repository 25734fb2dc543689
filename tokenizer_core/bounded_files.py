"""Read files of others with limits: size, kind, and of JSON depth, digits and duplicate keys."""

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
_MAX_BYTES = 1 << 30  # of a file whose kind has no smaller limit
# Members and elements of a JSON file: a vocab of a million tokens with its merges has four million.
MAX_PARTS = 5_000_000
MAX_DEPTH = 100
_BLOCK = 1 << 16
_PATIENCE = 10_000  # milliseconds without a writer of a pipe, or without its first byte


class UnfitFile(OSError, ValueError):
    """A file of another kind or size than is read."""

    def __str__(self) -> str:
        return f"{self.strerror}: {self.filename!r}"


def open_file(path: Path | str, *, pipes: bool = False, links: bool = True) -> FileIO:
    """Open a regular file to read it, without waiting for a pipe that is in its place.

    Args:
        path: the file.
        pipes: whether pipes and terminals are read, too; for files that a user names.
        links: whether the path may be a symbolic link; one above it always may.

    Raises:
        OSError: it cannot be opened, or is of another kind (`UnfitFile`).
    """
    more = os.O_NONBLOCK if links else os.O_NONBLOCK | os.O_NOFOLLOW
    file = FileIO(path, opener=lambda path, flags: os.open(path, flags | more))
    try:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        is_stream = stat.S_ISFIFO(mode) or os.isatty(file.fileno())
        if not (pipes and (is_stream or os.path.samefile(path, os.devnull))):
            accepted = "a regular file or a pipe" if pipes else "a regular file"
            raise UnfitFile(errno.EINVAL, f"it is not {accepted}", str(path))
        os.set_blocking(file.fileno(), True)
        return file
    except BaseException:
        file.close()
        raise


def read_file(
    path: Path | str, limit: int = _MAX_BYTES, *, pipes: bool = False, links: bool = True
) -> bytes:
    """Read a whole file of at most ``limit`` bytes.

    A file of /proc, whose size is 0, is read for what it holds.

    Raises:
        OSError: it cannot be opened or read, or is larger (`UnfitFile`); see `open_file`.
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
    """Wait until a pipe has content or an end; its first byte, where waiting took that."""
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
    """Read a record: the JSON value of a regular file, to which no link leads.

    Raises:
        OSError: as `read_file`.
        ValueError: as `parse_json`.
    """
    return parse_json(read_file(path, limit, links=False))


def read_toml(path: Path, limit: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """Read the tables of a TOML file or pipe.

    Raises:
        OSError: as `read_file`.
        ValueError: as `parse_toml`.
    """
    return parse_toml(read_file(path, limit, pipes=True))


def read_bounded(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file of a tokenizer: see `read_file`.

    Raises:
        MissingSource: no such file, or it cannot be opened.
        InvalidTokenizer: not a regular file, or too large.
    """
    with unreadable_refused(path):
        return read_file(path, limit)


@contextmanager
def unreadable_refused(path: Path) -> Iterator[None]:
    """Raise the errors of `read_bounded` for those of `read_file` and `open_file`."""
    try:
        yield
    except (UnfitFile, IsADirectoryError) as error:
        raise InvalidTokenizer(
            f"{path} is not a regular file that can be read: {error.strerror}",
            "tokenizers are small regular files",
            "check the path",
        ) from error
    except OSError as error:
        raise MissingSource(
            f"{path} cannot be opened: {error.strerror}",
            "a readable file",
            "check the path and its permissions",
        ) from error


def text_of(content: bytes, path: Path) -> str:
    """``content`` as UTF-8; raises `InvalidTokenizer` where it is not."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        refuse(path, f"is not UTF-8 at byte {error.start}")


def json_of(content: bytes, path: Path, parse_float: Callable[[str], float] = float) -> Any:
    """Parse the JSON of a file of a tokenizer: see `parse_json`.

    What is parsed takes at most a few hundred bytes for each of `MAX_PARTS`.

    Args:
        parse_float: what makes numbers of literals with a point or an exponent.

    Raises:
        InvalidTokenizer: it is none; the message names ``path``.
    """
    # Separators inside of strings count too: a bound, not a number.
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_PARTS:
        refuse(path, f"has more than {MAX_PARTS:,} members and elements")
    text = text_of(content, path)
    try:
        return parse_json(text, parse_float)
    except ValueError as error:
        refuse(path, f"is not the JSON we read: {error}")


def parse_json(content: bytes | str, parse_float: Callable[[str], float] = float) -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN, bounded depth and digits.

    Raises:
        ValueError: anything else.
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
    """Parse TOML.

    Raises:
        ValueError: it is not TOML in UTF-8, or is nested too deeply.
    """
    try:
        tables = tomllib.loads(content.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _not_deep(tables)
    return tables


_NESTED = frozenset((dict, list))


def _not_deep(value: Any) -> Any:
    """The same value, which no recursive function finds too deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        lists = (part for part in level if type(part) is list)
        tables = (part.values() for part in level if type(part) is dict)
        members = [*chain.from_iterable(lists), *chain.from_iterable(tables)]
        if _NESTED.isdisjoint(map(type, members)):  # soon said of 100,000 pairs of strings
            return value
        level = [member for member in members if type(member) in _NESTED]
    raise ValueError("it is nested too deeply")


def refuse(path: Path, problem: str, accepted: str = "", next_step: str = "") -> NoReturn:
    """Raise `InvalidTokenizer` about a file."""
    raise InvalidTokenizer(
        f"{path} {problem}",
        accepted or "a file as its format prescribes",
        next_step or "export the tokenizer again from where it came",
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Spare Python's collector a search for cycles in what is being parsed: there are none.

    It begins anew whenever many values were made, which took as long as the parsing.
    """
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
