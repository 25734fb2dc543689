"""Token shards as OLMo reads them; of where documents stood it knows file and number alone.

Two files for each shard, as the package dolma writes them: NAME.npy, which is the ids and nothing
else (no header of NumPy's, whatever its name says: `numpy.memmap` opens it), and NAME.csv.gz,
without a first line of names: ``start,end,id,src,loc``, a line for each document, start and end in
ids.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.shards.carried_columns import CarriedColumn
from bpeline.tokenizer_core.shards.number_files import HashedFile, sha256_of
from bpeline.tokenizer_core.shards.shard_formats import RowWriter, ShardFormat, ShardWriter

_MAPPED = 1_000  # shards; a process may map some 65,000 files
_LEVEL = 6


class _OlmoWriter(ShardWriter):
    """Both files; documents without a name have an empty id and source."""

    def __init__(self, paths: Sequence[Path], dtype: str) -> None:
        self._ids = HashedFile(paths[0], dtype)
        # No name and no time in the header: the same shard is the same bytes.
        self._raw = paths[1].open("wb")
        packed = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0)
        self._lines: TextIO = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        self._csv = csv.writer(self._lines, lineterminator="\n")
        self._end = 0
        self._number = 0

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        for end in ends.tolist():
            self._csv.writerow((self._end, end, *self._named()))
            self._end = end

    def _named(self) -> tuple[str, str, int]:
        """Id, source and place of the next document that ends."""
        self._number += 1
        return "", "", self._number

    def close(self) -> None:
        self._ids.close()
        self._lines.close()
        self._raw.close()

    def digests(self, paths: Sequence[Path]) -> Sequence[str]:
        return self._ids.sha256(), sha256_of(paths[1])


class _OlmoRowWriter(_OlmoWriter, RowWriter):
    """The same with the id and the file of each document, and its number in that file, from 1."""

    def __init__(
        self, paths: Sequence[Path], dtype: str, _columns: Sequence[CarriedColumn]
    ) -> None:
        super().__init__(paths, dtype)
        self._waiting: deque[tuple[str, str, int]] = deque()
        self._path, self._of_path = "", 0

    def describe(
        self, path: str, ids: Sequence[bytes], values: Sequence[bytes], number: int
    ) -> None:
        if path != self._path:
            self._path, self._of_path = path, 0
        name = path.encode(errors="backslashreplace").decode()
        for place in range(number):
            self._of_path += 1
            given = json.loads(ids[place]) if ids and ids[place] else ""
            self._waiting.append((str(given), name, self._of_path))

    def _named(self) -> tuple[str, str, int]:
        return self._waiting.popleft()


def _read(paths: Sequence[Path], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    ids = np.memmap(paths[0], dtype, "r") if paths[0].stat().st_size else np.empty(0, dtype)
    try:
        ends = np.fromiter(_ends(paths[1], len(ids)), np.uint64)
    except (OSError, EOFError, ValueError, IndexError, csv.Error, zlib.error) as error:
        raise CorruptFile(
            f"{paths[1]} is no index of {paths[0].name}: {error}",
            "the lines start,end,id,src,loc that were written with it",
            "encode the files again",
        ) from error
    return ids, np.append(np.zeros(1, np.uint64), ends)


def _ends(path: Path, count: int) -> Iterator[int]:
    """Where documents end; each has an id at least, so there are never more lines than ids."""
    last = 0
    with open_file(path) as file, gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            start, end = int(row[0]), int(row[1])
            if start != last or not last < end <= count:
                raise ValueError(f"a document from id {start} to {end}, after one to {last}")
            yield end
            last = end
    if last != count:
        raise ValueError(f"documents up to id {last} of {count}")


OLMO = ShardFormat(
    "olmo", (".npy", ".csv.gz"), _OlmoWriter, _read, kept=_MAPPED, write_rows=_OlmoRowWriter
)
