"""Read rows as documents: JSON lines, CSV, TSV, JSON arrays and word counts.

A row of word counts is the word in UTF-8, `COUNT_BEGIN`, its count in `COUNT_DIGITS` decimal
digits, `RECORD_END`.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.file_kinds import (
    COUNT_BEGIN,
    COUNT_DIGITS,
    RECORD_END,
    advised_field,
    compression_of,
    id_as_json,
    typed,
    whole_number,
    without_text,
)
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.errors import UnreadableSource
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.json_lines import scan_json_lines
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text, invalid_utf8_at
from bpeline.tokenizer_core.vocabulary import find_special_tokens, shown

_AT_ONCE = 1 << 20  # bytes of documents in a block
_LARGEST_RECORD = 256 << 20  # characters
MOST_PARTS = 5_000_000  # of a record; Python needs about 70 bytes for each
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_UTF8 = b"\xfe"  # replaces the end mark and lone surrogates; not UTF-8 either
_BETWEEN = " \t\r\n"

_BYTES_PER_LINE = 64  # initial guess
_COLUMNS = 6
# JSON values that `json.dumps` would write unchanged.
_AS_IT_IS = re.compile(rb'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]*')

_TAIL = len(COUNT_BEGIN) + COUNT_DIGITS + len(RECORD_END)


def document_blocks(
    blocks: Iterable[bytes],
    path: str,
    format: str,
    field: str,
    id_field: str = "",
    row_ids: deque[bytes] | None = None,
) -> Iterator[bytes]:
    """Yield the documents of a file, each followed by `RECORD_END`, in blocks of 1 MB.

    Invalid UTF-8 is kept: the policy for it is applied later.

    Args:
        format: ``csv``, ``tsv`` or ``json``.
        field, id_field: the columns or members with documents and ids; empty for no ids.
        row_ids: receives the ids, as JSON, before the documents are yielded.
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
    except UnicodeEncodeError:  # a lone surrogate, escaped in JSON
        document = _NOT_UTF8.join(map(str.encode, _SURROGATE.split(text)))
    return document.replace(RECORD_END, _NOT_UTF8) if RECORD_END in document else document


class _Stream(io.RawIOBase):
    """Presents blocks as a file that `csv` can read."""

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
        csv.field_size_limit(_LARGEST_RECORD)  # for the whole process; the default is 128 KiB
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
                f"expected a header line with one column {field!r}",
                _header_advice(path, format, header, field, next(rows, [])),
            )
        wanted = {field} | ({id_field} if header.count(id_field) == 1 else set())
        places = [(name, header.index(name)) for name in wanted]
        row_lines.clear()
        for row in rows:
            if len(row) == len(header):
                yield {name: row[place] for name, place in places}
            elif row:  # skips empty lines
                begin = rows.line_num - len(row_lines) + 1
                what = f"{len(row)} cells in the row that begins at line {begin:,}"
                _refuse(path, f"has {what}, but {len(header)} columns")
            row_lines.clear()
    except csv.Error as error:
        begin = rows.line_num - len(row_lines) + 1
        line = begin + _opening_line("".join(row_lines), delimiter)
        _refuse(path, f"is not well-formed at line {line:,}, where a cell begins: {error}")


def _noted(lines: Iterable[str], noted: list[str]) -> Iterator[str]:
    """Yield the lines; keep those of the current row in ``noted``."""
    for line in lines:
        noted.append(line)
        yield line


def _opening_line(row: str, delimiter: str) -> int:
    """Return the line of a row, from 0, where a cell with wrong quotes begins."""
    cell = re.compile(rf'"(?:[^"]|"")*+"(?=[{delimiter}\r\n]|\Z)|(?!")[^{delimiter}\r\n]*+')
    at = 0
    while at < len(row) and (match := cell.match(row, at)):
        at = match.end() + 1
    return len(re.findall(r"\r\n?|\n", row[:at]))


def _shown(header: list[str]) -> str:
    return ", ".join(map(repr, header[:20]))[:1000] or "none"


def _header_advice(path: str, format: str, header: list[str], field: str, row: list[str]) -> str:
    """Return what to type if a table does not have exactly one column of a name."""
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
    """Whether a first line holds values instead of column names."""
    return len(set(header)) < len(header) or any(
        not name.strip() or len(name.split()) > 3 or re.fullmatch(r"[-+\d.,:eE/ ]+", name)
        for name in header
    )


def _refuse(path: str, what: str) -> NoReturn:
    raise UnreadableSource(
        f"{path} {what}",
        "expected CSV or TSV with a header line, and double quotes around cells with line ends, "
        'quotes or delimiters: "say ""a, b"""',
        f"fix it, or write it as .jsonl or .parquet: {path}",
    )


def _json_rows(
    blocks: Iterable[bytes], path: str, format: str, field: str, id_field: str
) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array, or consecutive objects of a .json file."""
    decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
    parse = json.JSONDecoder(parse_int=whole_number).raw_decode
    source = iter(blocks)
    text, at, is_over, number = "", 0, False, 0
    is_array: bool | None = None
    before = "["  # the array's last token: "[", "a record" or ","

    def refuse(what: str, advice: str = "") -> NoReturn:
        look = typed("{read} | python3 -m json.tool", path, compression_of(path))
        raise UnreadableSource(
            f"record {number:,} of {path} (the first is 0) {what}",
            f'expected an array of objects with text in the field {field!r}: [{{"{field}": …}}, …]',
            advice or f"{look} to find the error; name a file with one object per line .jsonl",
        )

    def more() -> None:
        nonlocal text, at, is_over
        wanted = max(_AT_ONCE, len(text) - at)  # doubled each time, so the total work is linear
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
            refuse("is missing: a comma precedes the end of the array")
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
        if end - at > MOST_PARTS and sum(map(text[at:end].count, ",[{")) > MOST_PARTS:
            refuse(f"may have more than {MOST_PARTS:,} members and elements")
        if not isinstance(record.get(field), str):
            refuse(without_text(record, field), advised_field(field, record))
        yield record
        at, number, before = end, number + 1, "a record"


@dataclass(frozen=True, slots=True, eq=False)
class ScannedLines:
    """The lines of a chunk that are not blank, parsed by a kernel where possible.

    Attributes:
        lines: int64 ``[n, 2]``: spans in the chunk.
        left: indices of the lines that were not parsed; `json` has to read or refuse them.
    """

    raw: Text
    lines: NDArray[np.int64]
    left: NDArray[np.int64]
    _documents: Text  # of the parsed lines, joined by line feeds
    _spans: NDArray[np.int64]
    _ids: NDArray[np.int64]

    @classmethod
    def of(
        cls, raw: Text, text_field: str, id_field: str, valid: int, most_parts: int
    ) -> ScannedLines:
        """Scan a chunk that begins and ends between lines.

        Args:
            text_field, id_field: the members with the document and its id; empty for no id.
            valid: number of leading bytes that are known to be UTF-8.
            most_parts: commas and opening brackets in a line that is parsed here.
        """
        # A name that is not UTF-8 equals no key.
        text_name, id_name = (
            name.encode(errors="surrogatepass") for name in (text_field, id_field)
        )
        names = np.frombuffer(text_name + id_name or b"\0", np.uint8)
        sizes = len(text_name), len(id_name) if id_field else -1
        texts = np.empty(raw.size + PADDING, np.uint8)
        rows = np.empty((raw.size // _BYTES_PER_LINE + 1, _COLUMNS), np.int64)
        position = written = number = 0
        while position < raw.size:
            if number == len(rows):
                rows = np.concatenate((rows, np.empty_like(rows)))
            position, written, number = scan_json_lines(
                raw.data, raw.size, valid, names, *sizes, most_parts,
                position, texts, written, rows, number,
            )  # fmt: skip
        size = max(written - 1, 0)
        texts[size : size + PADDING] = 0
        rows = rows[:number]
        spans, lines, ids = (np.ascontiguousarray(rows[:, at : at + 2]) for at in (0, 2, 4))
        (left,) = np.nonzero(spans[:, 0] < 0)
        return cls(raw, lines, left, Text(texts[: size + PADDING], size), spans, ids)

    def with_documents(self, others: Mapping[int, bytes]) -> tuple[Text, NDArray[np.int64]]:
        """Join all documents with line feeds; also return their spans in the text.

        ``others`` has the documents of the lines in ``left``.
        """
        if not others:
            return self._documents, self._spans
        sizes = self._spans[:, 1] - self._spans[:, 0]
        pieces = []
        begin = 0
        for number, document in others.items():
            pieces += self._between(begin, number)
            pieces.append(document)
            sizes[number] = len(document)
            begin = number + 1
        pieces += self._between(begin, len(sizes))
        ends = np.cumsum(sizes + 1) - 1
        return Text.of(b"\n".join(pieces)), np.stack((ends - sizes, ends), axis=1)

    def ids(self, others: Mapping[int, bytes]) -> tuple[bytes, ...]:
        """Return the ids of all lines as JSON; ``others`` has those of ``left``."""
        content = self.raw.data.data
        ids = []
        for number, (begin, end) in enumerate(self._ids.tolist()):
            if number in others:
                ids.append(others[number])
                continue
            value = bytes(content[begin:end])
            if value and not _AS_IT_IS.fullmatch(value):
                value = id_as_json(json.loads(value.decode()))
            ids.append(value)
        return tuple(ids)

    def _between(self, first: int, last: int) -> list[bytes]:
        """Return the documents of consecutive lines that were all parsed."""
        if first == last:
            return []
        return [self._documents.bytes(int(self._spans[first, 0]), int(self._spans[last - 1, 1]))]


@dataclass(frozen=True, slots=True, eq=False)
class GivenCounts:
    """The rows of a chunk of word counts; each word is one pre-token.

    Attributes:
        text: contains the words; the bytes between them have no meaning.
        spans: int64 ``[n, 2]``: the span of each word in the text and in the chunk.
    """

    text: Text
    spans: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def word_bytes(self) -> NDArray[np.uint8]:
        inside = np.zeros(self.text.size + 1, np.int8)
        inside[self.spans[:, 0]] = 1
        inside[self.spans[:, 1]] -= 1
        held = np.cumsum(inside[:-1], dtype=np.int8).astype(np.bool_)
        return np.ascontiguousarray(self.text.data[: self.text.size][held])


def given_counts(
    raw: Text, file: SourceFile, pattern: SplitPattern, special_tokens: tuple[bytes, ...]
) -> GivenCounts:
    """Parse the word counts in the bytes of a chunk.

    Raises:
        UnreadableSource: a word is not UTF-8, is cut or dropped by the pattern, or contains a
            special token.
        PatternExceedsLimit, WorkerLost, SegmenterUnavailable: as `Splitter.mark`.
    """
    data = np.array(raw.data[: raw.size])
    ends = np.flatnonzero(data == RECORD_END[0]) - (_TAIL - 1)
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + _TAIL))[: len(ends)]
    tails = sliding_window_view(data, _TAIL, writeable=True)
    digits = tails[ends][:, len(COUNT_BEGIN) : -len(RECORD_END)] - ord("0")
    counts = np.zeros(len(ends), np.int64)
    for column in digits.T:
        counts = 10 * counts + column
    tails[ends] = 0
    text = Text.of(data.tobytes())
    spans = np.ascontiguousarray(np.stack((begins, ends), axis=1))
    if (invalid := invalid_utf8_at(text)) >= 0:
        word = _word_at(invalid, text, spans)
        raise _refused(file, f"the word {shown(word)} is not UTF-8", "leave out such rows")
    _refuse_cut(text, spans, file, pattern)
    special = find_special_tokens(text, 0, text.size, special_tokens)
    if len(special):
        word = _word_at(int(special[0, 0]), text, spans)
        raise _refused(
            file,
            f"the word {shown(word)} contains a special token",
            "leave out such rows, or choose other special tokens",
        )
    return GivenCounts(text, spans, counts)


def _refuse_cut(
    text: Text, spans: NDArray[np.int64], file: SourceFile, pattern: SplitPattern
) -> None:
    starts, dropped = (
        np.flatnonzero(np.unpackbits(marks.view(np.uint8), bitorder="little"))
        for marks in Splitter(pattern.within(None)).mark(text, spans)
    )
    begins = np.zeros(text.size + 1, np.bool_)
    begins[spans[:, 0]] = True
    cut = starts[~begins[starts]]
    not_whole = np.unique(np.concatenate((cut, dropped)))
    if not len(not_whole):
        return
    rows = np.unique(np.searchsorted(spans[:, 0], not_whole, "right") - 1)
    words = ", ".join(shown(_word_at(int(spans[row, 0]), text, spans)) for row in rows[:3].tolist())
    raise _refused(
        file,
        f"{len(rows):,} of {len(spans):,} words checked are not one pre-token of the "
        f"split pattern {pattern.title!r}: {words}",
        "use the pattern that the words were split with, such as `--pattern '\\S+|\\s+'`, or count "
        "the text with this one: in Python `count_words(FILES, PATTERN).to_arrow()`",
    )


def _word_at(place: int, text: Text, spans: NDArray[np.int64]) -> bytes:
    begin, end = spans[np.searchsorted(spans[:, 0], place, "right") - 1].tolist()
    return text.bytes(begin, end)


def _refused(file: SourceFile, what: str, advice: str) -> UnreadableSource:
    return UnreadableSource(
        f"{file.path}: {what}",
        "expected UTF-8 words, each one pre-token of the split pattern, without special tokens",
        advice,
    )
