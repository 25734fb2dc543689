"""Columns of word counts as Arrow tables and back, for other programs; knows no files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.optional_libraries import fenced

WORD, COUNT, POSITION = "word", "count", "first_position"
PATTERN = b"bpeline.pattern"  # in the metadata of a schema


class Columns(NamedTuple):
    """Rows of word counts, in the arrays of `WordCounts`; words may be repeated."""

    word_bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_positions: NDArray[np.int64]


def arrow_of(columns: Columns, pattern: str) -> Any:
    """A `pyarrow.Table` over the arrays."""
    import pyarrow

    rows = len(columns.counts)
    buffers = [None, pyarrow.py_buffer(columns.offsets), pyarrow.py_buffer(columns.word_bytes)]
    words = pyarrow.Array.from_buffers(pyarrow.large_binary(), rows, buffers)
    numbers = [
        pyarrow.Array.from_buffers(
            pyarrow.int64(), rows, [None, pyarrow.py_buffer(np.ascontiguousarray(column))]
        )
        for column in (columns.counts, columns.first_positions)
    ]
    batch = pyarrow.RecordBatch.from_arrays([words, *numbers], names=[WORD, COUNT, POSITION])
    return pyarrow.Table.from_batches([batch]).replace_schema_metadata({PATTERN: pattern.encode()})


def columns_of(data: Any) -> tuple[list[Columns], str | None]:
    """The rows of whatever exports an Arrow stream, batch by batch; see `WordCounts.from_arrow`.

    Beside them the split pattern that its schema names, None where it names none.
    """
    import pyarrow

    with fenced("pyarrow", "reading Arrow data"):
        if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            raise InvalidOption(
                f"{type(data).__name__} exports no Arrow data",
                "tables of pyarrow, polars, DuckDB (`relation.arrow()`), pandas 3",
                "make a pyarrow.Table of it first, or use WordCounts.from_pairs",
            )
        if isinstance(data, pyarrow.RecordBatch):
            return [_columns(data, 0)], _pattern(data.schema)
        found, rows = [], 0
        reader = pyarrow.RecordBatchReader.from_stream(data)
        for batch in reader:
            found.append(_columns(batch, rows))
            rows += batch.num_rows
        return found, _pattern(reader.schema)


def _pattern(schema: Any) -> str | None:
    named = (schema.metadata or {}).get(PATTERN)
    return None if named is None else str(named, "utf-8", "replace")


def _columns(batch: Any, rows: int) -> Columns:
    import pyarrow

    missing = [name for name in (WORD, COUNT) if name not in batch.schema.names]
    if missing:
        raise InvalidOption(
            f"there is no column {missing[0]!r}, but {', '.join(batch.schema.names)}",
            "columns word (string or binary) and count (whole numbers)",
            "rename them, for instance SELECT token AS word, n AS count",
        )
    named = {name: batch.column(name) for name in (WORD, COUNT)}
    named[POSITION] = batch.column(POSITION) if POSITION in batch.schema.names else None
    for name, column in named.items():
        if column is not None and column.null_count:
            raise InvalidOption(
                f"the column {name!r} has {column.null_count} nulls",
                "a word and a count in each row",
                "leave these rows out",
            )
    if not pyarrow.types.is_integer(named[COUNT].type):
        raise InvalidOption(
            f"counts are {named[COUNT].type}",
            "whole numbers",
            "CAST(count AS BIGINT)",
        )
    words = named[WORD].cast(pyarrow.large_binary())
    _, offsets, content = words.buffers()
    ends = np.frombuffer(offsets, np.int64)[words.offset : words.offset + len(words) + 1]
    counts = np.asarray(named[COUNT].cast(pyarrow.int64()).to_numpy(zero_copy_only=False))
    if len(counts) and (int(counts.min()) < 1 or bool(np.any(ends[1:] == ends[:-1]))):
        raise InvalidOption(
            "a word is empty, or a count is below 1",
            "non-empty words, and counts from 1 to 2⁶³ − 1",
            "leave these rows out: WHERE count > 0 AND word != ''",
        )
    positions = (
        np.arange(rows, rows + len(counts))
        if named[POSITION] is None
        else named[POSITION].cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    )
    held = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    begin = int(ends[0]) if len(ends) else 0
    return Columns(
        np.array(held[begin : int(ends[-1])]),
        np.array(ends - begin, np.int64),
        np.array(counts, np.int64),
        np.array(positions, np.int64),
    )
