"""Token shards as Parquet: a row is a document; knows nothing of where it stood.

Any Parquet reader finds the column ``ids``: list of uint16 or uint32. Rows of documents that were
encoded have ``id`` as well, text or null: what names the document, a number in digits. Needs
pyarrow.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.shards.shard_formats import RowWriter, ShardFormat, ShardWriter

if TYPE_CHECKING:
    import pyarrow

COLUMN = "ids"
ID = "id"
_GROUP_TOKENS = 1 << 22  # of a row group, about: what a reader holds at a time


class _ParquetWriter(ShardWriter):
    """NAME.parquet: row groups of whole documents, zstd."""

    def __init__(self, paths: Sequence[Path], dtype: str, with_ids: bool = False) -> None:
        import pyarrow
        import pyarrow.parquet

        self._type = pyarrow.list_(pyarrow.from_numpy_dtype(np.dtype(dtype)))
        fields = [pyarrow.field(COLUMN, self._type, nullable=False)]
        names = [ID] if with_ids else []
        fields += [pyarrow.field(name, pyarrow.string()) for name in names]
        self._schema = pyarrow.schema(fields)
        self._file = pyarrow.parquet.ParquetWriter(
            paths[0], self._schema, compression="zstd", use_dictionary=names, write_statistics=names
        )
        self._dtype = dtype
        self._written = 0  # ids in row groups
        self._ids: list[NDArray[Any]] = []
        self._held = 0  # ids not in row groups yet
        self._ends: list[NDArray[np.int64]] = []

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        self._held += len(ids)
        self._ends.append(ends)
        if self._held >= _GROUP_TOKENS:
            self._write_group()

    def _write_group(self) -> None:
        """Write the documents that have ended, keep what is open."""
        import pyarrow

        ends = np.concatenate(self._ends) - self._written
        if not len(ends):
            return
        ids = np.concatenate(self._ids)
        edges = np.append(0, ends)
        complete = int(edges[-1])
        rows = pyarrow.ListArray.from_arrays(
            pyarrow.array(edges, pyarrow.int32()), pyarrow.array(ids[:complete]), type=self._type
        )
        columns = [rows, *self._columns(len(ends))]
        self._file.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._written += complete
        self._ids, self._ends = [ids[complete:]], []
        self._held = len(ids) - complete

    def _columns(self, rows: int) -> list[pyarrow.Array]:
        """The columns beside the ids of the next rows."""
        return []

    def close(self) -> None:
        if self._ends:
            self._write_group()
        self._file.close()


class _ParquetRowWriter(_ParquetWriter, RowWriter):
    """The same with the id of each document."""

    def __init__(self, paths: Sequence[Path], dtype: str) -> None:
        super().__init__(paths, dtype, with_ids=True)
        self._waiting: deque[str | None] = deque()

    def name(self, ids: Sequence[bytes], number: int) -> None:
        self._waiting.extend(map(_id_of, ids) if ids else [None] * number)

    def _columns(self, rows: int) -> list[pyarrow.Array]:
        import pyarrow

        return [pyarrow.array([self._waiting.popleft() for _ in range(rows)], pyarrow.string())]


def _id_of(given: bytes) -> str | None:
    """What names a document, as text: a number in digits."""
    if not given:
        return None
    value = json.loads(given)
    return value if isinstance(value, str) else given.decode()


def _read(paths: Sequence[Path], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A whole shard in memory."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(paths[0], columns=[COLUMN])
    chunks: list[pyarrow.ListArray] = table.column(COLUMN).chunks
    ids = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    lengths = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in chunks]
    edges = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]), dtype=np.int64)
    return np.concatenate([np.empty(0, dtype), *ids]), edges


PARQUET = ShardFormat("parquet", (".parquet",), _ParquetWriter, _read, write_rows=_ParquetRowWriter)
