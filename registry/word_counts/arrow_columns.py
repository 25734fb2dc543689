"""Word counts as Arrow columns and back: what Parquet files and DuckDB are made of.

Knows buffers, no SQL and no names of files. Arrays are handed over as they are; coming back, each
byte is copied once. Nothing here calls `pyarrow.array` or `pyarrow.table`: they import pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.splitting import SplitPattern

_NAMES = ["word", "count", "first_position"]

Bytes = NDArray[np.uint8]


# ---- documents -------------------------------------------------------------------------------


def document_batch(documents: Sequence[bytes], chunks: NDArray[np.int32] | None = None) -> Any:
    """Documents as a `pyarrow.RecordBatch`, with the number of a chunk for each or without."""
    import pyarrow

    columns, names = [column_of_bytes(documents)], ["document"]
    if chunks is not None:
        columns, names = [*columns, column_of_integers(chunks)], [*names, "chunk"]
    return pyarrow.RecordBatch.from_arrays(columns, names=names)


def documents_as_file(documents: list[bytes]) -> Any:
    """Documents as an Arrow file in memory."""
    import pyarrow

    batch = document_batch(documents)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return sink.getvalue()


def documents_from_file(content: bytes) -> Iterator[bytes]:
    """What `documents_as_file` was given, in order."""
    import pyarrow

    with pyarrow.ipc.open_file(pyarrow.py_buffer(content)) as file:
        joined, offsets = words_of(file.get_batch(0).column(0))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield joined[begin:end].tobytes()


# ---- batches ---------------------------------------------------------------------------------


def batch_of(counts: WordCounts, chunks: NDArray[np.int32] | None = None) -> Any:
    """A `pyarrow.RecordBatch` over the arrays of the counts, which must outlive it.

    They become word (large_binary), count and first_position (int64), and chunk (int32), the number
    of one for each row, where that is given.
    """
    import pyarrow

    columns = [
        _binary(counts.word_bytes, counts.offsets),
        column_of_integers(counts.counts),
        column_of_integers(counts.first_positions),
    ]
    names = _NAMES
    if chunks is not None:
        columns, names = [*columns, column_of_integers(chunks)], [*names, "chunk"]
    return pyarrow.RecordBatch.from_arrays(columns, names=names)


def reader_of(batches: Iterator[Any]) -> Any:
    """A `pyarrow.RecordBatchReader` that pulls its batches, at least one, when it is read."""
    import pyarrow

    first = [next(batches)]

    def all_of_them() -> Iterator[Any]:
        yield first.pop()  # which may be large, is not kept
        yield from batches

    return pyarrow.RecordBatchReader.from_batches(first[0].schema, all_of_them())


def filled(batches: Iterable[Any], rows: int, size: int, pattern: SplitPattern) -> WordCounts:
    """Counts from batches, with room for ``rows`` words of ``size`` bytes together.

    Raises:
        ValueError: that is not what there was.
    """
    word_bytes, offsets = np.empty(size, np.uint8), np.zeros(rows + 1, np.int64)
    counts, positions = np.empty(rows, np.int64), np.empty(rows, np.int64)
    begin = 0
    for batch in batches:
        end = begin + batch.num_rows
        content, ends = words_of(batch.column(0))
        first = int(offsets[begin])
        offsets[begin + 1 : end + 1] = ends[1:]
        offsets[begin + 1 : end + 1] += first - int(ends[0])
        content = content[ends[0] : ends[-1]]
        word_bytes[first : first + len(content)] = content
        counts[begin:end] = _values(batch.column(1))
        positions[begin:end] = _values(batch.column(2))
        begin = end
    if begin != rows or offsets[-1] != size:
        raise ValueError(f"{begin} rows of {offsets[-1]} bytes instead of {rows} of {size}")
    return WordCounts(word_bytes, offsets, counts, positions, pattern)


# ---- columns ---------------------------------------------------------------------------------


def _binary(content: Bytes, offsets: NDArray[np.int64]) -> Any:
    import pyarrow

    buffers = [
        pyarrow.py_buffer(np.ascontiguousarray(offsets, np.int64)),
        pyarrow.py_buffer(np.ascontiguousarray(content, np.uint8)),
    ]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(offsets) - 1, [None, *buffers])


def column_of_bytes(parts: Sequence[bytes]) -> Any:
    """A large_binary column."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return _binary(np.frombuffer(b"".join(parts), np.uint8), offsets)


def column_of_integers(values: NDArray[Any]) -> Any:
    """An int32 column of what is int32, else an int64 column."""
    import pyarrow

    if values.dtype != np.int32:
        values = np.asarray(values, np.int64)
    kind = pyarrow.int32() if values.dtype == np.int32 else pyarrow.int64()
    buffer = pyarrow.py_buffer(np.ascontiguousarray(values))
    return pyarrow.Array.from_buffers(kind, len(values), [None, buffer])


def _values(column: Any) -> NDArray[np.int64]:
    """The values of an int64 column, which may be a part of a larger one; nothing is copied."""
    if str(column.type) != "int64" or column.null_count:
        raise ValueError(f"{column.type} instead of int64")
    content = column.buffers()[1] or b""
    return np.frombuffer(content, np.int64)[column.offset : column.offset + len(column)]


def words_of(column: Any) -> tuple[Bytes, NDArray[np.int64]]:
    """The bytes and the offsets of a large_binary column, which may be a part of a larger one."""
    if str(column.type) != "large_binary" or column.null_count:
        raise ValueError(f"{column.type} instead of large_binary")
    _, ends, content = column.buffers()
    joined = np.frombuffer(content or b"", np.uint8)
    if not len(column):
        return joined, np.zeros(1, np.int64)
    return joined, np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
