"""Decode one column of Parquet and Arrow files, in a worker process with limits.

Crafted files have made decoders write out of bounds, and metadata does not bound the size: a
file of 299 bytes can decode to a gigabyte. Only bytes and texts are sent back.
"""

from __future__ import annotations

import json
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from bpeline.tokenizer_core import worker_processes
from bpeline.tokenizer_core.corpus.file_kinds import (
    COUNT_BEGIN,
    COUNT_DIGITS,
    RECORD_END,
    advised_field,
)
from bpeline.tokenizer_core.worker_processes import FAILED

DATA, END, IDS = 1, 2, 3  # message kinds
MOST_AT_ONCE = 1 << 20  # bytes of text in one message, unless a single row has more

_MOST_ROWS = 4096
_MOST_COUNT = (1 << 63) - 1
_BUFFER = 1 << 20  # bytes read at a time
_THRIFT_LIMITS = {"thrift_string_size_limit": 256 << 20, "thrift_container_size_limit": 16 << 20}
_ANOTHER = b"\xfe"  # replaces the end mark within a document; UTF-8 has neither
_TO_ANOTHER = bytes.maketrans(RECORD_END, _ANOTHER)


class ColumnRefused(Exception):
    """Three parts of an error message: what failed, what was expected, what to do."""


def serve(descriptor: int) -> None:
    """Answer requests until there are no more.

    A request is (path, state, format, begin, end, field, id field or "", CPU seconds for each
    message, bytes of memory on top of what the process has). For ``counts`` the field is the
    pair of columns of words and counts. The answer is messages of kind `DATA`, whose documents
    (or words with counts) each end with `RECORD_END`, then one message of another kind. Messages
    of kind `IDS` come before their documents, with a line of JSON for each row.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    worker_processes.serve(descriptor, partial(_answer, _Opened()))


def _answer(
    opened: _Opened, request: Any, _: Any, allow_memory: Callable[[int], None]
) -> Iterator[tuple[Any, ...]]:
    *arguments, seconds, memory = request
    allow_memory(memory)
    worker_processes.allow_seconds(seconds)
    try:
        for kind, spent, content in opened.messages(*arguments):
            yield kind, spent, content, RECORD_END if kind == DATA else b"\n"
            worker_processes.allow_seconds(seconds)
    except ColumnRefused as refusal:
        yield FAILED, 0, json.dumps(refusal.args).encode()
    except MemoryError:
        raise
    except Exception as error:
        message = f"cannot be decoded: {error}".split("\n")[0][:1000]
        yield FAILED, 0, json.dumps([message, "", ""]).encode()
    else:
        yield END, 0


class _Opened:
    """The Parquet file read last, so that its footer is decoded once for all parts."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._file: Any = None
        self._places: list[int] = []
        self._rows: list[int] = []  # before each row group

    def messages(
        self, path: str, state: Any, format: str, begin: int, end: int, field: Any, id_field: str
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield (kind, bytes on disk done, content) for the row groups in [begin, end)."""
        if format == "arrow":
            with pa.OSFile(path) as raw:
                yield from _arrow_messages(raw, field, id_field)
            return
        key = path, *state
        if self._key != key:
            self._key, self._places = (), []
            self._file = None  # free its memory before the next file is opened
            self._file = pq.ParquetFile(
                pa.OSFile(path),
                memory_map=False,
                pre_buffer=False,
                buffer_size=_BUFFER,
                page_checksum_verification=True,
                **_THRIFT_LIMITS,
            )
            self._places = _places_of(self._file.metadata, state[0])
            groups = range(self._file.metadata.num_row_groups)
            numbers = [self._file.metadata.row_group(i).num_rows for i in groups]
            self._rows = [*accumulate(numbers, initial=0)]
            if min(numbers, default=0) < 0 or self._rows[-1] != self._file.metadata.num_rows:
                _refuse_rows(self._rows[-1], self._file.metadata.num_rows)
            self._key = key
        fields = field if format == "counts" else [field]
        if format == "counts":
            _check_counts(self._file.schema_arrow, *fields)
        else:
            _check_column(self._file.schema_arrow, field)
        id_field = _id_column(self._file.schema_arrow, id_field)
        last = len(self._places) - 1
        here = (bisect_left(self._places, place, 0, last) for place in (begin, end))
        for groups, size in self._together(*here):
            yield from self._messages_of_groups(groups, size, fields, id_field)

    def _together(self, begin: int, end: int) -> Iterator[tuple[range, int]]:
        """Yield runs of row groups to decode at once (some have ten rows), and their size."""
        while begin < end:
            size, next_ = 0, begin
            while next_ < end:
                more = max(self._file.metadata.row_group(next_).total_byte_size, 0)
                rows = self._rows[next_ + 1] - self._rows[begin]
                if next_ > begin and (rows > _MOST_ROWS or size + more > MOST_AT_ONCE):
                    break
                size += more
                next_ += 1
            yield range(begin, next_), size
            begin = next_

    def _messages_of_groups(
        self, groups: range, size: int, fields: list[str], id_field: str
    ) -> Iterator[tuple[int, int, Any]]:
        decoded = list(dict.fromkeys([*fields, id_field] if id_field else fields))
        for field in decoded:
            _refuse_brotli(self._file.metadata, groups, field)
        first, place, next_ = (
            self._rows[groups.start], self._places[groups.start], self._places[groups.stop],
        )  # fmt: skip
        number = self._rows[groups.stop] - first
        # An estimate: the metadata may be wrong, so `_MOST_ROWS` is the limit.
        each = max(size, 1) // max(number, 1)
        rows = max(1, min(_MOST_ROWS, MOST_AT_ONCE // max(each, 1)))
        done = 0
        for batch in self._file.iter_batches(
            batch_size=rows, row_groups=[*groups], columns=decoded, use_threads=False
        ):
            done += len(batch)
            spent = place + (next_ - place) * min(done, number) // max(number, 1)
            row = first + done - len(batch)
            column = batch[fields[0]] if len(fields) == 1 else _counts_of(batch, fields, row)
            if id_field:
                yield IDS, spent, _ids_of(batch, id_field, row)
            for text in _texts_of(column, row):
                yield DATA, spent, text
        if done != number:
            _refuse_rows(done, number)


def _refuse_rows(found: int, said: int) -> NoReturn:
    """Raise for a damaged footer, with which the reader may drop rows silently."""
    raise ColumnRefused(
        f"has {found:,} rows, but its metadata say {said:,}",
        "expected a complete Parquet file",
        "write the file again from its source",
    )


def _refuse_brotli(metadata: Any, groups: range, field: str) -> None:
    # By index, as the reader selects columns.
    columns = [
        i
        for i in range(metadata.num_columns)
        if metadata.schema.column(i).path.split(".", 1)[0] == field.split(".", 1)[0]
    ]
    if any(
        metadata.row_group(group).column(i).compression == "BROTLI"
        for group in groups
        for i in columns
    ):
        raise ColumnRefused(
            "is compressed by Brotli, whose decompressor has written out of bounds "
            "(CVE-2026-111497)",
            "expected Parquet with zstd, snappy, gzip, LZ4 or no compression",
            "write the file again with zstd, on an isolated machine",
        )


def _places_of(metadata: Any, size: int) -> list[int]:
    """Return where each row group begins on disk, ascending, and where the last ends."""
    places: list[int] = []
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(0)
        begin = column.data_page_offset
        if column.has_dictionary_page:
            begin = min(begin, column.dictionary_page_offset or begin)
        places.append(max(places[-1] if places else 0, min(max(begin, 0), size - 1)))
    return [*places, size]


def _arrow_messages(raw: Any, field: str, id_field: str) -> Iterator[tuple[int, int, Any]]:
    size = raw.size()
    begin = raw.read(6)
    raw.seek(0)
    row = 0
    if begin == b"ARROW1":
        options, id_field = _arrow_options(pa.ipc.open_file(raw).schema, field, id_field)
        reader = pa.ipc.open_file(raw, options=options)
        number = reader.num_record_batches
        batches = ((size * (i + 1) // number, reader.get_batch(i)) for i in range(number))
    else:
        options, id_field = _arrow_options(pa.ipc.open_stream(raw).schema, field, id_field)
        raw.seek(0)
        reader = pa.ipc.open_stream(raw, options=options)
        batches = ((min(raw.tell(), size), batch) for batch in reader)
    for spent, batch in batches:
        if id_field:
            yield IDS, spent, _ids_of(batch, id_field, row)
        for text in _texts_of(batch[field], row):
            yield DATA, spent, text
        row += len(batch)


def _arrow_options(schema: Any, field: str, id_field: str) -> tuple[Any, str]:
    column, id_field = _check_column(schema, field), _id_column(schema, id_field)
    wanted = {column, *([schema.get_field_index(id_field)] if id_field else [])}
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=sorted(wanted))
    return options, id_field


def _id_column(schema: Any, id_field: str) -> str:
    """Return the id column; empty if there is none, or several of that name."""
    return id_field if list(schema.names).count(id_field) == 1 else ""


def _ids_of(batch: Any, name: str, row: int) -> bytes:
    """Return the id of each row as JSON, separated by line feeds."""
    column = batch[name]
    try:
        ids = column.to_pylist()
    except (ValueError, OverflowError) as error:  # text that is not UTF-8, times beyond Python's
        raise ColumnRefused(
            f"has an id in the column {name!r} that cannot be stored, in one of the rows "
            f"{row:,} to {row + len(column) - 1:,}: {error}"[:1000],
            "expected UTF-8 text, numbers, or times from the year 1 to 9999",
            "type `--id-field ''` to encode without ids",
        ) from error
    return "\n".join(json.dumps(id, default=_told) for id in ids).encode("ascii")


def _told(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _check_column(schema: Any, field: str) -> int:
    """Return the index of the text column; raise `ColumnRefused` if it is unusable."""
    texts = [column.name for column in schema if _is_text(column.type)]
    shown = ", ".join(repr(name) for name in texts[:20]) or "none"
    names = list(schema.names)
    others = [name for name in texts if names.count(name) == 1]
    if names.count(field) > 1:
        advice = "give each column a unique name: `Table.rename_columns` of pyarrow"
    elif others:
        named = f"name the column, for example `--text-field {shlex.quote(others[-1])}`"
        advice = advised_field(field, dict.fromkeys(others)) or named
    else:
        advice = "write its text as a column of strings"
    expected = f"expected a column of text; this file has {shown}"
    matches = [i for i, name in enumerate(schema.names) if name == field]
    if len(matches) != 1:
        number = "no" if not matches else len(matches)
        raise ColumnRefused(
            f"has {number} column{'s' * (len(matches) > 1)} {field!r}", expected, advice
        )
    if not _is_text(schema.field(matches[0]).type):
        what = str(schema.field(matches[0]).type)[:100]
        raise ColumnRefused(f"has {what}, not text, in the column {field!r}", expected, advice)
    return matches[0]


def _check_counts(schema: Any, word: str, count: str) -> None:
    """Raise `ColumnRefused` unless there is a column of words and one of integers."""
    shown = (
        ", ".join(f"{column.name!r} ({str(column.type)[:40]})" for column in [*schema][:20])
        or "none"
    )
    expected = f"expected a column of words and one of whole numbers; this file has {shown}"
    for field, is_right, what in (
        (word, _is_text, "words"), (count, pa.types.is_integer, "whole numbers"),
    ):  # fmt: skip
        matches = [column for column in schema if column.name == field]
        if len(matches) != 1:
            number = "no" if not matches else len(matches)
            raise ColumnRefused(
                f"has {number} column{'s' * (len(matches) > 1)} {field!r}",
                expected,
                "name the columns: `--count-columns WORD,COUNT`",
            )
        if not is_right(matches[0].type):
            raise ColumnRefused(
                f"has {str(matches[0].type)[:100]}, not {what}, in the column {field!r}",
                expected,
                "name the columns: `--count-columns WORD,COUNT`, or cast them: CAST(n AS BIGINT)",
            )


def _counts_of(batch: Any, fields: list[str], row: int) -> Any:
    """Return each word followed by its count, as `given_counts` reads them."""
    words, counts = (batch.column(field) for field in fields)
    if isinstance(words, pa.DictionaryArray):
        words = words.dictionary_decode()
    words = words.cast(pa.large_binary())
    large = None
    if counts.type == pa.uint64():
        large = pc.greater(counts, pa.scalar(_MOST_COUNT, pa.uint64()))
    for field, wrong, what in (
        (fields[0], words.is_null(), "no word"),
        (fields[0], pc.equal(pc.binary_length(words), 0), "an empty word"),
        (fields[1], counts.is_null(), "no count"),
        (fields[1], pc.less(counts, pa.scalar(1, counts.type)), "a count below 1"),
        (fields[1], large, "a count beyond 2⁶³ − 1"),
    ):
        if wrong is not None and pc.any(wrong).as_py():
            place = row + int(
                np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))[0]
            )
            raise ColumnRefused(
                f"has {what} in row {place:,} (the first is 0) of the column {field!r}",
                "expected a word and a count from 1 to 2⁶³ − 1 in each row",
                "leave out such rows: WHERE word != '' AND count > 0",
            )
    content = words.buffers()[2]
    ends = np.frombuffer(words.buffers()[1], np.int64)[words.offset : words.offset + len(words) + 1]
    here = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]] if len(words) else np.empty(0)
    if bool((here >= COUNT_BEGIN[0]).any()):
        raise ColumnRefused(
            f"has words that are not UTF-8 in the column {fields[0]!r}",
            "expected words in UTF-8",
            "leave out such rows, or write words as strings",
        )
    digits = pc.ascii_lpad(counts.cast(pa.int64()).cast(pa.string()), COUNT_DIGITS, "0")
    begin = pa.scalar(COUNT_BEGIN, pa.large_binary())
    return pc.binary_join_element_wise(words, digits.cast(pa.large_binary()), begin)


def _is_text(type_: Any) -> bool:
    types = pa.types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    return any(
        ask(type_)
        for ask in (
            types.is_string, types.is_large_string, types.is_string_view,
            types.is_binary, types.is_large_binary, types.is_binary_view,
        )
    )  # fmt: skip


def _texts_of(column: Any, row: int) -> Iterator[Any]:
    """Yield documents joined by `RECORD_END`, about `MOST_AT_ONCE` bytes at a time."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if column.null_count:
        null = row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ColumnRefused(
            f"has no text in row {null:,} (the first is 0)",
            "expected text in each row; it may be empty",
            "leave out rows without text when you write the file",
        )
    column = column.cast(pa.large_binary())
    ends = np.cumsum(pc.binary_length(column).to_numpy(zero_copy_only=False))
    begin = sent = 0
    while begin < len(ends):
        end = max(int(np.searchsorted(ends, sent + MOST_AT_ONCE, "right")), begin + 1)
        sent = int(ends[end - 1])
        together = pa.ListArray.from_arrays(
            pa.array([0, end - begin], pa.int32()), column[begin:end]
        )
        joined = pc.binary_join(together, pa.scalar(RECORD_END, pa.large_binary()))
        text = joined[0].as_buffer()
        marks = np.count_nonzero(np.frombuffer(text, np.uint8) == RECORD_END[0])
        if marks != end - begin - 1:
            documents = column[begin:end].to_pylist()
            text = RECORD_END.join(document.translate(_TO_ANOTHER) for document in documents)
        yield text
        begin = end
