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

from bpeline.tokenizer_core.corpus.file_kinds import RECORD_END, compression_of, typed
from bpeline.tokenizer_core.corpus.row_fields import (
    advised_field,
    id_as_json,
    whole_number,
    without_text,
)
from bpeline.tokenizer_core.errors import UnreadableSource

_AT_ONCE = 1 << 20  # bytes of documents in a block
_LARGEST_RECORD = 256 << 20  # characters
_MOST_PARTS = 5_000_000  # of a record: Python takes 70 bytes for each `[]` of three
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_UTF8 = b"\xfe"  # stands for the end mark, and for half a surrogate pair: never UTF-8 either
_BETWEEN = " \t\r\n"


def document_blocks(
    blocks: Iterable[bytes],
    path: str,
    format: str,
    field: str,
    id_field: str = "",
    row_ids: deque[bytes] | None = None,
) -> Iterator[bytes]:
    """The documents of a file, each with `RECORD_END` behind it, about a megabyte together.

    Bytes that are not UTF-8 stay what they are, for whoever knows the policy for them.

    Args:
        blocks: the file's bytes, decompressed.
        path, format, field: which file, ``csv``, ``tsv`` or ``json``, and the column or member.
        id_field: the column or member that names the document; empty: none.
        row_ids: takes what it holds, as JSON, before the documents are given.

    Raises:
        UnreadableSource: no such field, or a file that is not well-formed.
    """
    rows = _csv_rows if format in _DELIMITERS else _json_rows
    waiting, size = [], 0
    for record in rows(blocks, path, format, field, id_field):
        document = _bytes_of(record[field])
        waiting.append(document)
        if id_field and row_ids is not None:
            row_ids.append(id_as_json(record.get(id_field)) or b"null")
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
    blocks: Iterable[bytes], path: str, format: str, field: str, id_field: str
) -> Iterator[dict[str, str]]:
    if csv.field_size_limit() < _LARGEST_RECORD:
        csv.field_size_limit(_LARGEST_RECORD)  # of this process; the usual one is 128 KiB
    stream = io.BufferedReader(_Stream(blocks), _AT_ONCE)
    lines = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
    row_lines: list[str] = []
    delimiter = _DELIMITERS[format]
    rows = csv.reader(_noted(lines, row_lines), delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
        if header.count(field) != 1:
            has = "no column" if field not in header else "several columns"
            raise UnreadableSource(
                f"{path} has {has} {field!r}, but {_shown(header)}",
                f"a first line with the names of columns, one of them {field!r}",
                _header_advice(path, format, header, field, next(rows, [])),
            )
        wanted = {field} | ({id_field} if header.count(id_field) == 1 else set())
        places = [(name, header.index(name)) for name in wanted]
        row_lines.clear()
        for row in rows:
            if len(row) == len(header):
                yield {name: row[place] for name, place in places}
            elif row:  # no empty line
                begin = rows.line_num - len(row_lines) + 1
                what = f"{len(row)} cells in the row that begins at line {begin:,}"
                _refuse(path, f"has {what}, and {len(header)} columns")
            row_lines.clear()
    except csv.Error as error:
        begin = rows.line_num - len(row_lines) + 1
        line = begin + _opening_line("".join(row_lines), delimiter)
        _refuse(path, f"is not well-formed at line {line:,}, where a cell begins: {error}")


def _noted(lines: Iterable[str], noted: list[str]) -> Iterator[str]:
    """The lines, each noted as long as the row that it belongs to is not complete."""
    for line in lines:
        noted.append(line)
        yield line


def _opening_line(row: str, delimiter: str) -> int:
    """In which line of a row, from 0 on, a cell begins whose quotes are wrong."""
    cell = re.compile(rf'"(?:[^"]|"")*+"(?=[{delimiter}\r\n]|\Z)|(?!")[^{delimiter}\r\n]*+')
    at = 0
    while at < len(row) and (found := cell.match(row, at)):
        at = found.end() + 1
    return len(re.findall(r"\r\n?|\n", row[:at]))


def _shown(header: list[str]) -> str:
    return ", ".join(map(repr, header[:20]))[:1000] or "none"


def _header_advice(path: str, format: str, header: list[str], field: str, row: list[str]) -> str:
    """What to type where the first line of a table has not one column of a name."""
    delimiter, compression = _DELIMITERS[format], compression_of(path)
    if len(header) == 1:
        for other in ";\t|,":
            if other in header[0]:
                write = f"csv.writer(sys.stdout, delimiter={delimiter!r})"
                read = f"csv.reader(sys.stdin, delimiter={other!r})"
                program = f'python3 -c "import csv, sys; {write}.writerows({read})"'
                return typed(f"{{read}} | {program} > {{new}}", path, compression)
    names, rows = list(header), "{read} | tail -n +2"
    if field in header:
        for number in range(header.count(field), 1, -1):
            names[len(names) - 1 - names[::-1].index(field)] = f"{field}_{number}"
    elif _is_of_values(header):
        longest = max(range(len(header)), key=lambda place: len(header[place]))
        names, rows = [f"column_{place + 1}" for place in range(len(header))], "{read}"
        names[longest] = field
    else:
        texts = dict(zip(header, row, strict=False)) or dict.fromkeys(header)
        return advised_field(field, texts) or typed("{read} | head -n 3", path, compression)
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(names)
    named = shlex.quote(line.getvalue()).replace("{", "{{").replace("}", "}}")
    return typed(f"(printf '%s\\n' {named}; {rows}) > {{new}}", path, compression)


def _is_of_values(header: list[str]) -> bool:
    """Whether a first line holds values, and no names of columns."""
    return len(set(header)) < len(header) or any(
        not name.strip() or len(name.split()) > 3 or re.fullmatch(r"[-+\d.,:eE/ ]+", name)
        for name in header
    )


def _refuse(path: str, what: str) -> NoReturn:
    raise UnreadableSource(
        f"{path} {what}",
        "CSV or TSV with the names of columns in its first line, and cells with line ends, quotes "
        'or delimiters between double quotes: "say ""a, b"""',
        f"mend it, or write it anew as .jsonl or .parquet: {path}",
    )


# ---- JSON -----------------------------------------------------------------------------------


def _json_rows(
    blocks: Iterable[bytes], path: str, format: str, field: str, id_field: str
) -> Iterator[dict[str, Any]]:
    """Of an array of objects; or of objects one after the other, which are often called .json."""
    decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
    parse = json.JSONDecoder(parse_int=whole_number).raw_decode
    source = iter(blocks)
    text, at, is_over, number = "", 0, False, 0
    is_array: bool | None = None
    before = "["  # what the array has before this place: "[", a record, or ","

    def refuse(what: str, advice: str = "") -> NoReturn:
        look = typed("{read} | python3 -m json.tool", path, compression_of(path))
        raise UnreadableSource(
            f"record {number:,} of {path} (the first is 0) {what}",
            f'one array of objects with the document in the field {field!r}: [{{"{field}": …}}, …]',
            advice or f"{look}, which shows where it is not JSON; .jsonl has one on each line",
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
        while at < len(text) and text[at] in _BETWEEN:
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
        if is_array and text[at] == "," and before == "a record":
            at, before = at + 1, ","
            continue
        if is_array and text[at] == "]" and before != ",":
            at += 1
            while text[at:].strip() == "" and not is_over:
                at = len(text)
                more()
            if text[at:].strip():
                refuse("follows after the end of the array")
            return
        if text[at] == "]" and is_array:
            refuse("is missing: a comma stands before the end of the array")
        if text[at] != "{":
            refuse("is not an object")
        if is_array and before == "a record":
            refuse("has no comma before it")
        try:
            record, end = parse(text, at)
        except (ValueError, RecursionError) as error:
            if not is_over and isinstance(error, ValueError):
                more()
                continue
            refuse(f"is not JSON: {error}")
        if end - at > _MOST_PARTS and sum(map(text[at:end].count, ",[{")) > _MOST_PARTS:
            refuse(f"may have more than {_MOST_PARTS:,} members and elements")
        if not isinstance(record.get(field), str):
            refuse(without_text(record, field), advised_field(field, record))
        yield record
        at, number, before = end, number + 1, "a record"
