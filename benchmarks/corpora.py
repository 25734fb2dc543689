"""Texts to measure on: the documents of a file, its beginning, a sample; knows no library.

A document longer than `LONGEST` is cut where no pre-token of the GPT-2 pattern crosses: before a
single space between two ASCII characters that are not white space. The counts stay the same, and
peers that work on documents in parallel are not held up by one that is as long as the file.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SEPARATOR = "<|endoftext|>"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LONGEST = 1 << 18  # characters; 200 MB of C as one string would occupy a single thread
_READ = 1 << 20
_CUT = re.compile(r"(?<=[!-~]) (?=[!-~])")


def documents(path: Path) -> Iterator[str]:
    """Non-empty documents in order, reading the file piece by piece.

    Line ends are kept as they are; the file is UTF-8.
    """
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
    """Lines with their ends, which are line feeds alone, as libraries written in Rust read them."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def batches(path: Path, size: int = 64) -> Iterator[list[str]]:
    """`documents`, several at a time: fewer steps between Python and a native library."""
    batch: list[str] = []
    for document in documents(path):
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def sampled(path: Path, size: int, stretches: int = 20) -> bytes:
    """About ``size`` bytes of a larger file: stretches from all over it, in whole lines."""
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
    """A file of enough words to load all kernels that texts need, before the clock runs."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        file = Path(directory, "warm.txt")
        words = "".join(f" word{number}" for number in range(4000))
        file.write_text(f"warm{SEPARATOR}kernels é, and{words}")
        yield file


@contextmanager
def beginning(path: Path, megabytes: float) -> Iterator[Path]:
    """A file with the first documents of ``path``, at most so long; ``path`` itself if shorter."""
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
    """The first legal cut at or behind ``target``, or the end of the text."""
    found = _CUT.search(text, target)
    return found.start() if found else len(text)


def _pieces(document: str) -> Iterator[str]:
    while len(document) > LONGEST:
        cut = cut_at(document, LONGEST)
        yield document[:cut]
        document = document[cut:]
    if document:
        yield document
