"""Token shards as Parquet: a row is a document; knows nothing of where it stood.

Any Parquet reader finds the column ``ids``: list of uint16 or uint32. Rows of documents that were
encoded have ``id`` as well, text or null: what names the document, a number in digits; and the
columns that were carried over. Needs pyarrow.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.shards.carried_columns import CarriedColumn
from bpeline.tokenizer_core.shards.shard_formats import RowWriter, ShardFormat, ShardWriter

if TYPE_CHECKING:
    import pyarrow

COLUMN = "ids"
ID = "id"
_GROUP_TOKENS = 1 << 22  # of a row group, about: what a reader holds at a time


class _ParquetWriter(ShardWriter):
    """NAME.parquet: row groups of whole documents, zstd."""

    def __init__(
        self, paths: Sequence[Path], dtype: str, others: Sequence[tuple[str, str]] = ()
    ) -> None:
        import pyarrow
        import pyarrow.parquet

        self._type = pyarrow.list_(pyarrow.from_numpy_dtype(np.dtype(dtype)))
        fields = [pyarrow.field(COLUMN, self._type, nullable=False)]
        fields += [pyarrow.field(name, pyarrow.type_for_alias(type_)) for name, type_ in others]
        self._schema = pyarrow.schema(fields)
        names = [name for name, _ in others]
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
    """The same with the id of each document and the columns that are carried over."""

    def __init__(self, paths: Sequence[Path], dtype: str, columns: Sequence[CarriedColumn]) -> None:
        kinds = {column.name: _ARROW.get(column.type, column.type) for column in columns}
        others = {ID: "string", **kinds}  # a column of that name that is carried over stands for it
        super().__init__(paths, dtype, [*others.items()])
        self._carried = columns
        self._waiting: dict[str, deque[Any]] = {name: deque() for name in others}

    def describe(
        self, path: str, ids: Sequence[bytes], values: Sequence[bytes], number: int
    ) -> None:
        if not any(column.name == ID for column in self._carried):
            named = (_id_of(id) for id in ids) if ids else [None] * number
            self._waiting[ID].extend(named)
        if not self._carried:
            return
        rows = [json.loads(value)[1:] for value in values] if values else [()] * number
        for place, column in enumerate(self._carried):
            given = (column.value(row[place] if row else None, path) for row in rows)
            self._waiting[column.name].extend(given)

    def _columns(self, rows: int) -> list[pyarrow.Array]:
        import pyarrow

        return [
            pyarrow.array([waiting.popleft() for _ in range(rows)], self._schema.field(name).type)
            for name, waiting in self._waiting.items()
        ]


_ARROW = {"json": "string"}


def _id_of(given: bytes) -> str | None:
    """What names a document, as text: a number in digits."""
    if not given:
        return None
    value = json.loads(given)
    return value if isinstance(value, str) else given.decode()


def missing_values(shards: Sequence[Path], columns: Sequence[str]) -> dict[str, int]:
    """In how many documents of shards a column that was carried over has no value.

    Only of columns where there are some.
    """
    import pyarrow.parquet

    found = dict.fromkeys(columns, 0)
    for path in shards:
        metadata = pyarrow.parquet.read_metadata(path)
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for number in range(metadata.num_columns):
                column = row_group.column(number)
                if column.path_in_schema in found:
                    found[column.path_in_schema] += column.statistics.null_count
    return {name: number for name, number in found.items() if number}


def _read(paths: Sequence[Path], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A whole shard in memory."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(paths[0], columns=[COLUMN])
    chunks: list[pyarrow.ListArray] = table.column(COLUMN).chunks
    ids = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    lengths = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in chunks]
    edges = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]), dtype=np.int64)
    return np.concatenate([np.empty(0, dtype), *ids]), edges


PARQUET = ShardFormat(
    "parquet",
    (".parquet",),
    _ParquetWriter,
    _read,
    write_rows=_ParquetRowWriter,
    has_columns=True,
)
