"""Word counts as Arrow columns and back: what shards and DuckDB are made of.

Knows buffers, no SQL and no names of files. Arrays are handed over as they are; coming back, each
byte is copied once. Nothing here calls `pyarrow.array` or `pyarrow.table`: they import pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.splitting import SplitPattern

_NAMES = ["word", "count", "first_position"]
_UINT32_LIMIT = 2**32
_INT32_LIMIT = 2**31

Bytes = NDArray[np.uint8]


# ---- files -----------------------------------------------------------------------------------


def counts_as_file(counts: WordCounts) -> Any:
    """Counts as an Arrow file in memory (anything that takes a buffer takes it).

    Integers take 32 bits where all of a column fit, which is nearly always.
    """
    columns = [
        _binary(counts.word_bytes, counts.offsets, narrow=True),
        _integers(counts.counts, narrow=True),
        _integers(counts.first_positions, narrow=True),
    ]
    return _as_file(columns, _NAMES)


def counts_from_file(content: bytes, pattern: SplitPattern) -> WordCounts:
    """What `counts_as_file` was given, or all that `counts_to_file` was."""
    batches = list(_batches(content))
    rows, sizes = zip(*map(sizes_of, batches), strict=True)
    return filled(batches, sum(rows), sum(sizes), pattern)


@contextmanager
def counts_to_file(path: Path, first: WordCounts) -> Iterator[Callable[[WordCounts], None]]:
    """Yield what appends counts to a new Arrow file, without holding what was appended before.

    Args:
        path: a file that does not exist yet.
        first: counts for the beginning.

    Raises:
        OSError: it cannot be written.
    """
    import pyarrow

    batch = batch_of(first)
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
        yield lambda counts: file.write_batch(batch_of(counts))


def counts_as_parts(counts: WordCounts, ends: NDArray[np.int64]) -> Any:
    """Counts as an Arrow file of several parts, which are read one by one; see `part_of_counts`.

    Args:
        counts: all rows.
        ends: int64 ``[n]``: where each part ends, ascending, the last one at the last row.
    """
    import pyarrow

    batch = batch_of(counts)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as file:
        begin = 0
        for end in ends.tolist():
            file.write_batch(batch.slice(begin, end - begin))
            begin = end
    return sink.getvalue()


def part_of_counts(path: Path, number: int, pattern: SplitPattern) -> WordCounts:
    """One part of what `counts_as_parts` made of counts; nothing else of the file is read."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as mapped, pyarrow.ipc.open_file(mapped) as file:
        batch = file.get_batch(number)
        return filled([batch], *sizes_of(batch), pattern)


def sizes_of_parts(path: Path) -> tuple[int, int]:
    """Rows, and bytes of all words together, of what `counts_as_parts` made of counts."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as mapped, pyarrow.ipc.open_file(mapped) as file:
        sizes = [sizes_of(file.get_batch(number)) for number in range(file.num_record_batches)]
    return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)


def documents_as_file(documents: list[bytes]) -> Any:
    """Documents as an Arrow file in memory."""
    offsets = np.zeros(len(documents) + 1, np.int64)
    np.cumsum([len(document) for document in documents], out=offsets[1:])
    content = np.frombuffer(b"".join(documents), np.uint8)
    return _as_file([_binary(content, offsets)], ["document"])


def documents_from_file(content: bytes) -> Iterator[bytes]:
    """What `documents_as_file` was given, in order."""
    (batch,) = _batches(content)
    joined, offsets = _words(batch.column(0))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield joined[begin:end].tobytes()


def _as_file(columns: list[Any], names: list[str]) -> Any:
    import pyarrow

    batch = pyarrow.RecordBatch.from_arrays(columns, names=names)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return sink.getvalue()


def _batches(content: bytes) -> Iterator[Any]:
    import pyarrow

    with pyarrow.ipc.open_file(pyarrow.py_buffer(content)) as file:
        for index in range(file.num_record_batches):
            yield file.get_batch(index)


# ---- batches ---------------------------------------------------------------------------------


def batch_of(counts: WordCounts) -> Any:
    """A `pyarrow.RecordBatch` over the arrays of the counts, which must outlive it.

    They become word (large_binary), count and first_position (int64).
    """
    import pyarrow

    columns = [
        _binary(counts.word_bytes, counts.offsets),
        _integers(counts.counts),
        _integers(counts.first_positions),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=_NAMES)


def reader_of(batches: Iterator[Any]) -> Any:
    """A `pyarrow.RecordBatchReader` that pulls its batches, at least one, when it is read."""
    import pyarrow

    first = [next(batches)]

    def all_of_them() -> Iterator[Any]:
        yield first.pop()  # which may be large, is not kept
        yield from batches

    return pyarrow.RecordBatchReader.from_batches(first[0].schema, all_of_them())


def sizes_of(batch: Any) -> tuple[int, int]:
    """Rows, and bytes of all words together."""
    offsets = _words(batch.column(0))[1]
    return batch.num_rows, int(offsets[-1]) - int(offsets[0])


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
        content, ends = _words(batch.column(0))
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


def _binary(content: Bytes, offsets: NDArray[np.int64], *, narrow: bool = False) -> Any:
    import pyarrow

    narrow = narrow and len(content) < _INT32_LIMIT
    buffers = [
        pyarrow.py_buffer(np.ascontiguousarray(offsets, np.int32 if narrow else np.int64)),
        pyarrow.py_buffer(np.ascontiguousarray(content, np.uint8)),
    ]
    kind = pyarrow.binary() if narrow else pyarrow.large_binary()
    return pyarrow.Array.from_buffers(kind, len(offsets) - 1, [None, *buffers])


def _integers(values: NDArray[np.int64], *, narrow: bool = False) -> Any:
    import pyarrow

    narrow = narrow and (not len(values) or int(values.max()) < _UINT32_LIMIT)
    buffer = pyarrow.py_buffer(np.ascontiguousarray(values, np.uint32 if narrow else np.int64))
    kind = pyarrow.uint32() if narrow else pyarrow.int64()
    return pyarrow.Array.from_buffers(kind, len(values), [None, buffer])


def _values(column: Any) -> NDArray[np.uint32] | NDArray[np.int64]:
    """The values of an integer column, which may be a part of a larger one; nothing is copied."""
    content = column.buffers()[1] or b""
    part = slice(column.offset, column.offset + len(column))
    if column.type.bit_width == 32:
        return np.frombuffer(content, np.uint32)[part]
    return np.frombuffer(content, np.int64)[part]


def _words(column: Any) -> tuple[Bytes, NDArray[np.int32] | NDArray[np.int64]]:
    """The bytes and the offsets of a binary column, which may be a part of a larger one."""
    _, ends, content = column.buffers()
    joined = np.frombuffer(content or b"", np.uint8)
    if not len(column):
        return joined, np.zeros(1, np.int64)
    part = slice(column.offset, column.offset + len(column) + 1)
    if str(column.type) == "binary":
        return joined, np.frombuffer(ends, np.int32)[part]
    return joined, np.frombuffer(ends, np.int64)[part]
