"""CSV, TSV and JSON files become documents as they are read; never a whole file in memory."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from bpeline.tokenizer_core.corpus.file_kinds import RECORD_END
from bpeline.tokenizer_core.corpus.row_fields import RowFields
from bpeline.tokenizer_core.errors import UnreadableSource

_AT_ONCE = 1 << 20  # bytes of documents in a block
_LARGEST_RECORD = 256 << 20  # characters
_MOST_PARTS = 5_000_000  # of a record: Python takes 70 bytes for each `[]` of three
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_UTF8 = b"\xfe"  # stands for the end mark, and for half a surrogate pair: never UTF-8 either
_BETWEEN = " \t\r\n,"


def document_blocks(
    blocks: Iterable[bytes],
    path: str,
    format: str,
    field: str,
    carried: RowFields | None = None,
    values: deque[bytes] | None = None,
) -> Iterator[bytes]:
    """The documents of a file, each with `RECORD_END` behind it, about a megabyte together.

    Bytes that are not UTF-8 stay what they are, for whoever knows the policy for them.

    Args:
        blocks: the file's bytes, decompressed.
        path, format, field: which file, ``csv``, ``tsv`` or ``json``, and the column or member.
        carried: what is asked of rows beside their documents.
        values: takes it, as `RowFields.values_of` gives it, before the documents are given.

    Raises:
        UnreadableSource: no such field, or a file that is not well-formed.
    """
    rows = _csv_rows if format in _DELIMITERS else _json_rows
    waiting, size = [], 0
    for record in rows(blocks, path, format, field, carried or RowFields()):
        document = _bytes_of(record[field])
        waiting.append(document)
        if carried and values is not None:
            values.append(carried.values_of(record))
        size += len(document)
        if size >= _AT_ONCE:
            yield RECORD_END.join([*waiting, b""])
            waiting, size = [], 0
    if waiting:
        yield RECORD_END.join([*waiting, b""])


def _bytes_of(text: str) -> bytes:
    try:
        document = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, escaped in JSON
        document = _NOT_UTF8.join(map(str.encode, _SURROGATE.split(text)))
    return document.replace(RECORD_END, _NOT_UTF8) if RECORD_END in document else document


# ---- CSV ------------------------------------------------------------------------------------


class _Stream(io.RawIOBase):
    """Blocks as a file that `csv` can read lines of."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = bytes(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _csv_rows(
    blocks: Iterable[bytes], path: str, format: str, field: str, carried: RowFields
) -> Iterator[dict[str, str]]:
    if csv.field_size_limit() < _LARGEST_RECORD:
        csv.field_size_limit(_LARGEST_RECORD)  # of this process; the usual one is 128 KiB
    stream = io.BufferedReader(_Stream(blocks), _AT_ONCE)
    lines = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
    rows = csv.reader(lines, delimiter=_DELIMITERS[format], strict=True)
    try:
        header = next(rows, [])
        for name in (field, *carried.columns):
            if header.count(name) != 1:
                shown = ", ".join(map(repr, header[:20]))[:1000] or "none"
                has = "no column" if name not in header else "several columns"
                advice = (
                    f"type `--text-field {shlex.quote(header[0])}`"
                    if header
                    else f"head -n 1 {shlex.quote(path)}"
                )
                raise UnreadableSource(
                    f"{path} has {has} {name!r}",
                    f"a first line with the names of columns, one of them {name!r}; it has {shown}",
                    advice if name == field else f"leave {name} out of --columns",
                )
        wanted = {field, *carried.columns}
        if header.count(carried.id) == 1:
            wanted.add(carried.id)
        places = [(name, header.index(name)) for name in wanted]
        for row in rows:
            if len(row) != len(header):
                if not row:  # an empty line
                    continue
                _refuse(
                    path,
                    f"has {len(row)} cells in the row that ends at line {rows.line_num}, and "
                    f"{len(header)} columns",
                )
            yield {name: row[place] for name, place in places}
    except csv.Error as error:
        _refuse(path, f"is not well-formed at line {rows.line_num}: {error}")


def _refuse(path: str, what: str) -> NoReturn:
    raise UnreadableSource(
        f"{path} {what}",
        "CSV or TSV with the names of columns in its first line, and cells with line ends, quotes "
        'or delimiters between double quotes: "say ""a, b"""',
        f"mend it, or write it anew as .jsonl or .parquet: {path}",
    )


# ---- JSON -----------------------------------------------------------------------------------


def _json_rows(
    blocks: Iterable[bytes], path: str, format: str, field: str, carried: RowFields
) -> Iterator[dict[str, Any]]:
    """Of an array of objects; or of objects one after the other, which are often called .json."""
    decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
    parse = json.JSONDecoder().raw_decode
    source = iter(blocks)
    text, at, is_over, number = "", 0, False, 0
    is_array: bool | None = None

    def refuse(what: str) -> NoReturn:
        raise UnreadableSource(
            f"record {number:,} of {path} (the first is 0) {what}",
            f'one array of objects with the document in the field {field!r}: [{{"{field}": …}}, …]',
            f"python3 -m json.tool {path} shows where it is not JSON; .jsonl has one on each line",
        )

    def more() -> None:
        nonlocal text, at, is_over
        wanted = max(_AT_ONCE, len(text) - at)  # twice as much each time: linear altogether
        pieces, size = [text[at:]], 0
        while size < wanted and not is_over:
            block = next(source, None)
            is_over = block is None
            piece = decode(bytes(block or b""), is_over)
            pieces.append(piece)
            size += len(piece)
        text, at = "".join(pieces), 0
        if len(text) > _LARGEST_RECORD + 2 * wanted:
            refuse(f"has more than {_LARGEST_RECORD:,} characters, or is not JSON")

    while True:
        while at < len(text) and text[at] in (_BETWEEN if is_array else _BETWEEN[:-1]):
            at += 1
        if at == len(text):
            if not is_over:
                more()
                continue
            if is_array:
                refuse("is missing: the array has no end")
            return
        if is_array is None:
            is_array = text[at] == "["
            at += is_array
            continue
        if is_array and text[at] == "]":
            at += 1
            while text[at:].strip() == "" and not is_over:
                at = len(text)
                more()
            if text[at:].strip():
                refuse("follows after the end of the array")
            return
        if text[at] != "{":
            refuse("is not an object")
        try:
            record, end = parse(text, at)
        except (ValueError, RecursionError) as error:
            if not is_over and isinstance(error, ValueError):
                more()
                continue
            refuse(f"is not JSON: {error}")
        if end - at > _MOST_PARTS and sum(map(text[at:end].count, ",[{")) > _MOST_PARTS:
            refuse(f"may have more than {_MOST_PARTS:,} members and elements")
        document = record.get(field)
        if not isinstance(document, str):
            found = "has no" if document is None else "has something other than text in the"
            refuse(f"{found} field {field!r}")
        yield record
        at, number = end, number + 1
