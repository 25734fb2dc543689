"""Texts to measure on: documents, lines, beginnings and samples of a file.

Documents longer than `LONGEST` are cut before a single space between two ASCII words, where no
pre-token of GPT-2's pattern crosses: counts stay the same, and libraries that process documents in
parallel are not held up.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SEPARATOR = "<|endoftext|>"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LONGEST = 1 << 18  # characters
_READ = 1 << 20
_CUT = re.compile(r"(?<=[!-~]) (?=[!-~])")


def documents(path: Path) -> Iterator[str]:
    """Non-empty documents of a UTF-8 file in order; line ends are kept."""
    pending = ""
    with path.open(encoding="utf-8", newline="") as file:
        while piece := file.read(_READ):
            *complete, pending = (pending + piece).split(SEPARATOR)
            for document in complete:
                yield from _pieces(document)
            if len(pending) > 2 * _READ:
                *whole, pending = _pieces(pending)
                yield from whole
    yield from _pieces(pending)


def lines(path: Path) -> Iterator[str]:
    """Lines with their line feeds, as libraries written in Rust read them."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def batches(path: Path, size: int = 64) -> Iterator[list[str]]:
    """`documents` in batches, which saves calls into native libraries."""
    batch: list[str] = []
    for document in documents(path):
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def sampled(path: Path, size: int, stretches: int = 20) -> bytes:
    """About ``size`` bytes of whole lines, from 20 places in the file."""
    total = path.stat().st_size
    parts = []
    with path.open("rb") as file:
        for number in range(stretches):
            file.seek(number * total // stretches)
            if number:
                file.readline()
            stretch = file.read(size // stretches)
            parts.append(stretch[: stretch.rfind(b"\n") + 1])
    return b"".join(parts)


@contextmanager
def warming_file() -> Iterator[Path]:
    """A file with enough words to load all kernels before timing."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        file = Path(directory, "warm.txt")
        words = "".join(f" word{number}" for number in range(4000))
        file.write_text(f"warm{SEPARATOR}kernels é, and{words}")
        yield file


@contextmanager
def beginning(path: Path, megabytes: float) -> Iterator[Path]:
    """A file with the first documents of ``path``, up to ``megabytes``."""
    if path.stat().st_size <= megabytes * 1e6:
        yield path
        return
    with path.open("rb") as file:
        content = file.read(int(megabytes * 1e6))
    cut = max(content.rfind(SEPARATOR.encode()), content.rfind(b"\n"))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        corpus = Path(directory, f"{megabytes:g}MB.txt")
        corpus.write_bytes(content[:cut] if cut > 0 else content)
        yield corpus


def cut_at(text: str, target: int) -> int:
    """The first legal cut at or after ``target``, or the end of the text."""
    match = _CUT.search(text, target)
    return match.start() if match else len(text)


def _pieces(document: str) -> Iterator[str]:
    while len(document) > LONGEST:
        cut = cut_at(document, LONGEST)
        yield document[:cut]
        document = document[cut:]
    if document:
        yield document
