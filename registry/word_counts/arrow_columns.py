"""Convert word counts to Arrow columns and back, for Parquet and DuckDB.

Conversion to Arrow copies nothing, the way back copies each byte once. `pyarrow.array` and
`pyarrow.table` are avoided, since they import pandas.
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


def document_batch(documents: Sequence[bytes], chunks: NDArray[np.int32] | None = None) -> Any:
    """Convert documents, with optional chunk numbers, to a `pyarrow.RecordBatch`."""
    import pyarrow

    columns, names = [column_of_bytes(documents)], ["document"]
    if chunks is not None:
        columns, names = [*columns, column_of_integers(chunks)], [*names, "chunk"]
    return pyarrow.RecordBatch.from_arrays(columns, names=names)


def documents_as_file(documents: list[bytes]) -> Any:
    """Convert documents to an Arrow file in memory."""
    import pyarrow

    batch = document_batch(documents)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return sink.getvalue()


def documents_from_file(content: bytes) -> Iterator[bytes]:
    """Read the output of `documents_as_file`."""
    import pyarrow

    with pyarrow.ipc.open_file(pyarrow.py_buffer(content)) as file:
        joined, offsets = words_of(file.get_batch(0).column(0))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield joined[begin:end].tobytes()


def batch_of(counts: WordCounts, chunks: NDArray[np.int32] | None = None) -> Any:
    """Wrap counts in a `pyarrow.RecordBatch` without copying; they must outlive it.

    Columns: word (large_binary), count and first_position (int64), and with ``chunks`` the chunk
    number of each row (int32).
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
    """Return a lazy `pyarrow.RecordBatchReader` over at least one batch."""
    import pyarrow

    first = [next(batches)]

    def all_of_them() -> Iterator[Any]:
        yield first.pop()  # not kept: it may be large
        yield from batches

    return pyarrow.RecordBatchReader.from_batches(first[0].schema, all_of_them())


def filled(batches: Iterable[Any], rows: int, size: int, pattern: SplitPattern) -> WordCounts:
    """Copy batches into word counts of ``rows`` words with ``size`` bytes in total."""
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


def _binary(content: Bytes, offsets: NDArray[np.int64]) -> Any:
    import pyarrow

    buffers = [
        pyarrow.py_buffer(np.ascontiguousarray(offsets, np.int64)),
        pyarrow.py_buffer(np.ascontiguousarray(content, np.uint8)),
    ]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(offsets) - 1, [None, *buffers])


def column_of_bytes(parts: Sequence[bytes]) -> Any:
    """Convert byte strings to a large_binary column."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return _binary(np.frombuffer(b"".join(parts), np.uint8), offsets)


def column_of_integers(values: NDArray[Any]) -> Any:
    """Convert an int32 array to an int32 column, any other to int64."""
    import pyarrow

    if values.dtype != np.int32:
        values = np.asarray(values, np.int64)
    kind = pyarrow.int32() if values.dtype == np.int32 else pyarrow.int64()
    buffer = pyarrow.py_buffer(np.ascontiguousarray(values))
    return pyarrow.Array.from_buffers(kind, len(values), [None, buffer])


def _values(column: Any) -> NDArray[np.int64]:
    """Return the values of an int64 column, which may be a slice, without a copy."""
    if str(column.type) != "int64" or column.null_count:
        raise ValueError(f"{column.type} instead of int64")
    content = column.buffers()[1] or b""
    return np.frombuffer(content, np.int64)[column.offset : column.offset + len(column)]


def words_of(column: Any) -> tuple[Bytes, NDArray[np.int64]]:
    """Return the bytes and offsets of a large_binary column, which may be a slice."""
    if str(column.type) != "large_binary" or column.null_count:
        raise ValueError(f"{column.type} instead of large_binary")
    _, ends, content = column.buffers()
    joined = np.frombuffer(content or b"", np.uint8)
    if not len(column):
        return joined, np.zeros(1, np.int64)
    return joined, np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
