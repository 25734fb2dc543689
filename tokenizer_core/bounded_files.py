"""Files from elsewhere read with limits: size, kind, depth, duplicates. Trusts nothing it reads."""

from __future__ import annotations

import gc
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.errors import InvalidTokenizer, MissingSource

MAX_FILE_BYTES = 64 << 20
# Members and elements of a JSON file: a vocab of a million tokens with its merges has four million.
MAX_PARTS = 5_000_000


def read_bounded(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The content of a regular file of at most ``limit`` bytes.

    Raises:
        MissingSource: no such file, or it cannot be opened.
        InvalidTokenizer: not a regular file (a pipe would block for ever), or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise MissingSource(
            f"{path} cannot be opened: {error.strerror}",
            "a readable file",
            "check the path and its permissions",
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise InvalidTokenizer(
                f"{path} is not a regular file of at most {limit} bytes",
                "tokenizers are small regular files",
                "check the path",
            )
        parts = []
        left = limit + 1
        at_once = status.st_size + 1  # Python allocates this before it reads
        while left and (part := os.read(descriptor, min(left, at_once))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    if not left:
        refuse(path, f"grew beyond {limit} bytes while it was read")
    return b"".join(parts)


def text_of(content: bytes, path: Path) -> str:
    """``content`` as UTF-8; raises `InvalidTokenizer` where it is not."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        refuse(path, f"is not UTF-8 at byte {error.start}")


def json_of(content: bytes, path: Path) -> Any:
    """``content`` as JSON, strictly: UTF-8, no duplicate keys, no NaN, bounded depth and digits.

    What is parsed takes at most a few hundred bytes for each of `MAX_PARTS`.

    Raises:
        InvalidTokenizer: anything else; the message names ``path``.
    """
    # Separators inside of strings count too: a bound, not a number.
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_PARTS:
        refuse(path, f"has more than {MAX_PARTS:,} members and elements")
    text = text_of(content, path)
    try:
        with _no_collection():
            return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        refuse(path, "is nested too deeply")
    except InvalidTokenizer:
        raise
    except ValueError as error:  # malformed, duplicate keys, numbers of more than 4,300 digits
        refuse(path, f"is not the JSON we read: {error}")


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
