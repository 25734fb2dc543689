"""Turn the bytes of a chunk, or texts from a program, into documents."""

from __future__ import annotations

import codecs
import json
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.file_kinds import (
    RECORD_END,
    advised_field,
    id_as_json,
    likely_field,
    typed,
    whole_number,
    without_text,
)
from bpeline.tokenizer_core.corpus.first_look import likely_encoding
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.source_bytes import open_source
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.corpus.text_records import MOST_PARTS, ScannedLines
from bpeline.tokenizer_core.errors import CorpusError, InvalidOption, InvalidUtf8, UnreadableSource
from bpeline.tokenizer_core.pipeline import Normalizer
from bpeline.tokenizer_core.text import Text, invalid_utf8_at, utf8_of
from bpeline.tokenizer_core.vocabulary import find_special_tokens

_REPLACEMENT = "\ufffd"
_BYTE_ORDER_MARK = "\ufeff"
_BLOCK = 1 << 20

BATCH_BYTES = 1 << 20  # of text in a batch; a longer text is a batch of its own

_LOOKED_INTO = 16  # files, evenly spread
_BEGINNING = 1 << 20  # bytes of each
_MANY = 10  # occurrences; fewer may be text about such tokens

# The spellings of control tokens in public tokenizers: `<|endoftext|>`, `<s>`, `</s>`, `<pad>`,
# `<unk>`, `<mask>`, `<bos>`, `<eos>`, `[INST]`, `[/INST]`, `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]`,
# `[UNK]`, `<start_of_turn>`, `<end_of_turn>`.
_SPECIAL_LOOKING = re.compile(
    rb"<\|[A-Za-z0-9_.:-]{1,40}\|>|</?s>|<(?:pad|unk|mask|bos|eos|start_of_turn|end_of_turn)>"
    rb"|\[/?INST\]|\[(?:CLS|SEP|PAD|MASK|UNK)\]"
)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkText:
    """The text of a chunk, divided into documents.

    Attributes:
        text: valid UTF-8. Plain text as it is; the documents of records are joined by line feeds.
        documents: int64 ``[n, 2]``, ascending spans of ``text``, without a byte order mark. Plain
            text is one document here; special tokens divide it when it is counted.
        anchors: int64 ``[m, 2]``: byte ``anchors[i, 0]`` of ``text`` is byte ``anchors[i, 1]`` of
            the chunk, and so on byte by byte up to the next anchor.
        replaced: number of invalid UTF-8 sequences that were replaced.
        rows: int64 ``[n, 2]``: the span in the chunk of each document's JSON line or record; None
            for plain text.
        row_ids: ids of rows as ASCII JSON, empty for none; no item at all if not requested.
        across: bytes to leave out at both ends, because evaluation passages cross them.
    """

    text: Text
    documents: NDArray[np.int64]
    anchors: NDArray[np.int64]
    replaced: int = 0
    rows: NDArray[np.int64] | None = None
    row_ids: tuple[bytes, ...] = ()
    across: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, text: Text) -> ChunkText:
        return cls(text, np.array([[0, text.size]], np.int64), np.zeros((1, 2), np.int64))


def read_documents(
    raw: Text,
    file: SourceFile,
    begin: int,
    reading: ReadOptions,
    id_field: str = "",
    row_ids: Sequence[bytes] = (),
) -> ChunkText:
    """Return the documents in the bytes of a chunk.

    Args:
        begin: where the chunk is in the file.
        id_field: the field of rows and JSON lines with the document's id; empty for none.
        row_ids: the ids of a file of records, see `SourceBytes.row_ids`.

    Raises:
        InvalidUtf8: with the policy ``strict``.
        UnreadableSource: a line without the text field, or a file of word counts.
    """
    if file.format == "counts":
        raise UnreadableSource(
            f"{file.path} holds word counts, not documents",
            "expected a file of text",
            "name the files that the words were counted in",
        )
    if file.is_of_records:
        raw, ends = _with_line_feeds(raw)
    invalid = invalid_utf8_at(raw)
    if invalid >= 0 and reading.invalid_utf8 == "strict":
        _refuse_utf8(file, begin, raw.bytes(), invalid)
    if file.format == "jsonl":
        valid = raw.size if invalid < 0 else invalid
        read = _read_json_lines(raw, valid, file, begin, reading, id_field)
    elif file.is_of_records:
        read = ChunkText.of(raw) if invalid < 0 else _replace_invalid(raw, reading)
        read = _divided(read, ends)
        if row_ids:
            read = _with_ids(read, file, row_ids)
    else:
        read = ChunkText.of(raw) if invalid < 0 else _replace_invalid(raw, reading)
        if begin == 0 and raw.bytes(0, len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            read = _without_mark(read)
    return in_form(read, reading.text_form) if reading.text_form else read


def text_within(raw: bytes, reading: ReadOptions) -> bytes:
    """Read part of a text file as `read_documents` does, except at its ends."""
    if reading.invalid_utf8 == "strict" and not reading.text_form:
        return raw
    errors = "ignore" if reading.invalid_utf8 == "ignore" else "replace"
    read = ChunkText.of(Text.of(raw.decode(errors=errors).encode()))
    return (in_form(read, reading.text_form) if reading.text_form else read).text.bytes()


def _without_mark(read: ChunkText) -> ChunkText:
    documents = read.documents.copy()
    documents[0, 0] = len(codecs.BOM_UTF8)
    return replace(read, documents=documents)


def in_form(given: ChunkText, form: str) -> ChunkText:
    """Convert documents to a Unicode form; anchors then hold for their beginnings.

    No pre-token crosses the end of a chunk, so the first character of a chunk never combines with
    the one before.
    """
    normalizer = Normalizer.of_description({"type": form})
    assert normalizer is not None
    spans = given.documents.tolist()
    before = [given.text.bytes(begin, end) for begin, end in spans]
    pieces = [normalizer.content(document) for document in before]
    if pieces == before:
        return given
    ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)) + 1) - 1
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    firsts = given.documents[:, 0]
    anchor = given.anchors[np.searchsorted(given.anchors[:, 0], firsts, side="right") - 1]
    origins = anchor[:, 1] + firsts - anchor[:, 0]
    text = Text.of(b"\n".join(pieces))
    places = np.stack((begins, ends), axis=1), np.stack((begins, origins), axis=1)
    return replace(given, text=text, documents=places[0], anchors=places[1])


_replaced = threading.local()


def _note_and_replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    _replaced.ranges.append((error.start, error.end))
    return _replaced.by, error.end


# Python's decoder delimits invalid sequences (the WHATWG's maximal subparts); this handler records
# where each one is, in one pass over the bytes.
codecs.register_error("bpeline.note-and-replace", _note_and_replace)


def _replace_invalid(raw: Text, reading: ReadOptions) -> ChunkText:
    """Replace each invalid sequence by U+FFFD, or drop it."""
    _replaced.ranges, _replaced.by = [], "" if reading.invalid_utf8 == "ignore" else _REPLACEMENT
    content = raw.bytes().decode("utf-8", "bpeline.note-and-replace").encode()
    ranges = np.array(_replaced.ranges, np.int64)
    _replaced.ranges = []
    begins, ends = ranges[:, 0], ranges[:, 1]
    # How much longer the text is than the chunk, up to the end of each sequence.
    growth = np.cumsum(len(_replaced.by.encode()) - (ends - begins))
    before = np.concatenate((np.zeros(1, np.int64), growth[:-1]))
    anchors = np.zeros((1 + 2 * len(ranges), 2), np.int64)
    anchors[1::2] = np.stack((begins + before, begins), axis=1)
    anchors[2::2] = np.stack((ends + growth, ends), axis=1)
    text = Text.of(content)
    return ChunkText(text, np.array([[0, text.size]], np.int64), anchors, len(ranges))


def _refuse_utf8(file: SourceFile, begin: int, content: bytes, at: int) -> NoReturn:
    encoding, what = likely_encoding(content, at)
    within = "" if file.compression is None else " of its decompressed text"
    replaced = 'add `--invalid-utf8 replace` (invalid_utf8="replace" in Python) to read U+FFFD'
    convert = f"{{read}} | iconv -f {encoding} -t UTF-8 > {{utf8}}"
    is_convertible = encoding not in ("", "UTF-8") and file.format not in ("parquet", "arrow")
    raise InvalidUtf8(
        f"{file.path} is not UTF-8 at byte {begin + at}{within}: {what}",
        "expected UTF-8",
        typed(convert, file.path, file.compression) + f", or {replaced}"
        if is_convertible
        else replaced,
    )


def _with_line_feeds(raw: Text) -> tuple[Text, NDArray[np.int64]]:
    """Replace the record marks by line feeds; also return where documents end."""
    data = raw.data.copy()
    (ends,) = np.nonzero(data[: raw.size] == RECORD_END[0])
    data[ends] = ord("\n")
    return Text(data, raw.size), ends.astype(np.int64)


def _divided(given: ChunkText, ends: NDArray[np.int64]) -> ChunkText:
    """Divide a text into documents that end at these bytes of the chunk."""
    anchor = given.anchors[np.searchsorted(given.anchors[:, 1], ends, side="right") - 1]
    text_ends = ends - anchor[:, 1] + anchor[:, 0]
    begins, row_begins = (
        np.concatenate((np.zeros(1, np.int64), bounds[:-1] + 1))[: len(bounds)]
        for bounds in (text_ends, ends)
    )
    return replace(
        given,
        documents=np.stack((begins, text_ends), axis=1),
        rows=np.stack((row_begins, ends), axis=1),
    )


def _with_ids(read: ChunkText, file: SourceFile, row_ids: Sequence[bytes]) -> ChunkText:
    """Attach the ids of rows, which come from an untrusted process."""
    try:
        ids = tuple(id_as_json(json.loads(id)) for id in row_ids)
    except (ValueError, RecursionError):
        ids = ()
    if len(ids) != len(read.documents):
        raise UnreadableSource(
            f"{file.path} was decoded to {len(read.documents)} documents with {len(ids)} ids",
            "expected an id or null for each row",
            "type `--id-field ''` to encode without ids",
        )
    return replace(read, row_ids=ids)


def _read_json_lines(
    raw: Text, valid: int, file: SourceFile, begin: int, reading: ReadOptions, id_field: str
) -> ChunkText:
    scanned = ScannedLines.of(raw, reading.text_field, id_field, valid, MOST_PARTS)
    lines = scanned.lines
    documents: dict[int, bytes] = {}
    ids: dict[int, bytes] = {}
    replaced = 0
    # Python's `json` reads, or refuses, the lines that the scanner left.
    for number in scanned.left.tolist():
        position, end = lines[number].tolist()
        record, invalid = _record_of(raw.bytes(position, end), file, begin + position, reading)
        documents[number], halves = _document_of(record, file, begin + position, reading)
        replaced += invalid + halves
        if id_field:
            ids[number] = id_as_json(record.get(id_field))
    text, spans = scanned.with_documents(documents)
    anchors = np.zeros((1, 2), np.int64)
    if len(spans):
        anchors = np.stack((spans[:, 0], lines[:, 0]), axis=1)
    row_ids = scanned.ids(ids) if id_field else ()
    return ChunkText(text, spans, anchors, replaced, lines, row_ids)


def _record_of(
    line: bytes, file: SourceFile, position: int, reading: ReadOptions
) -> tuple[dict[str, Any], int]:
    """Parse a JSON line; also count the U+FFFD read for invalid UTF-8."""
    characters = line.decode("utf-8", reading.invalid_utf8)
    present = line.count(_REPLACEMENT.encode())
    replaced = line.decode(errors="replace").count(_REPLACEMENT) - present
    if position == 0:
        characters = characters.removeprefix(_BYTE_ORDER_MARK)
    if _has_too_many_parts(line):
        what = f"has more than {MOST_PARTS:,} members and elements"
        _refuse_line(file, position, what, reading.text_field)
    try:
        record = json.loads(characters, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        _refuse_line(file, position, f"is not JSON: {error}", reading.text_field)
    if not isinstance(record, dict):
        _refuse_line(file, position, "is not a JSON object", reading.text_field)
    return record, replaced


def _document_of(
    record: dict[str, Any], file: SourceFile, position: int, reading: ReadOptions
) -> tuple[bytes, int]:
    """Return the document in UTF-8; also count the U+FFFD for lone surrogates."""
    field = reading.text_field
    document = record.get(field)
    if not isinstance(document, str):
        advice = advised_field(field, record)
        _refuse_line(file, position, without_text(record, field), field, advice)
    try:
        return document.encode(), 0
    except UnicodeEncodeError:
        if reading.invalid_utf8 == "strict":
            _refuse_line(file, position, "escapes a lone surrogate", reading.text_field)
    halves = document.encode("utf-16-le", "surrogatepass")
    replaced = halves.decode("utf-16-le", "replace").count(_REPLACEMENT)
    whole = halves.decode("utf-16-le", reading.invalid_utf8)
    return whole.encode(), replaced - document.count(_REPLACEMENT)


def _has_too_many_parts(line: bytes) -> bool:
    """Whether a JSON line has too many members and elements outside of strings."""
    if len(line) <= MOST_PARTS or sum(map(line.count, (b",", b"[", b"{"))) <= MOST_PARTS:
        return False
    unescaped = line.replace(rb"\\", b"").replace(rb"\"", b"")
    number, in_string = 0, False
    for at in range(0, len(unescaped), _BLOCK):
        block = np.frombuffer(unescaped, np.uint8, min(_BLOCK, len(unescaped) - at), at)
        strings = np.logical_xor.accumulate(block == ord('"')) ^ in_string
        separators = (block == ord(",")) | (block == ord("[")) | (block == ord("{"))
        number += int(np.count_nonzero(separators & ~strings))
        in_string = bool(strings[-1])
    return number > MOST_PARTS


def _refuse_line(
    file: SourceFile, position: int, what: str, field: str, advice: str = ""
) -> NoReturn:
    look = f"{{read}} | tail -c +{position + 1} | head -n 1"
    raise UnreadableSource(
        f"the line at byte {position} of {file.path} {what}",
        f'expected one JSON object per line, with text in the field {field!r}: {{"{field}": …}}',
        advice or typed(look, file.path, file.compression),
    )


def documents_between(
    text: ChunkText, special_tokens: tuple[bytes, ...]
) -> tuple[NDArray[np.int64], int]:
    """Return the non-empty spans between special tokens, and the number of these."""
    documents = text.documents
    # A line feed separates documents, so a token without one cannot cross them.
    if not special_tokens:
        return _not_empty(documents), 0
    if len(documents) <= 1 or not any(b"\n" in token for token in special_tokens):
        special = find_special_tokens(text.text, 0, text.text.size, special_tokens)
    else:
        special = np.concatenate(
            [
                find_special_tokens(text.text, begin, end, special_tokens)
                for begin, end in documents.tolist()
            ]
        )
    if not len(special):
        return _not_empty(documents), 0
    begins = np.sort(np.concatenate((documents[:, 0], special[:, 1])))
    ends = np.sort(np.concatenate((documents[:, 1], special[:, 0])))
    return _not_empty(np.stack((begins, ends), axis=1)), len(special)


def _not_empty(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(spans[spans[:, 0] < spans[:, 1]])


def without_copies(documents: NDArray[np.int64], copies: bytes) -> NDArray[np.int64]:
    """Drop the documents whose byte in ``copies`` is 1; empty ``copies`` drops none."""
    if not copies:
        return documents
    return np.ascontiguousarray(documents[np.frombuffer(copies, np.uint8) == 0])


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Consecutive texts of an iterable.

    Attributes:
        documents: in UTF-8, without empty ones.
        texts: number of texts up to the end of this batch, empty ones included.
        begin, size: bytes of all texts before, and in this batch.
    """

    documents: tuple[bytes, ...]
    texts: int
    begin: int
    size: int

    def read(self, reading: ReadOptions) -> ChunkText:
        """Join the texts into one `ChunkText`, in the Unicode form of ``reading``."""
        lengths = np.fromiter(map(len, self.documents), np.int64, len(self.documents))
        ends = np.cumsum(lengths + 1) - 1
        begins = ends - lengths
        # The line feeds between documents are not bytes of the input.
        origins = begins - np.arange(len(begins))
        spans, anchors = (np.stack((begins, column), axis=1) for column in (ends, origins))
        joined = ChunkText(Text.of(b"\n".join(self.documents)), spans, anchors)
        return in_form(joined, reading.text_form) if reading.text_form else joined


def batches_of(texts: Iterable[Any], reading: ReadOptions) -> Iterator[TextBatch]:
    """Yield texts in batches of about 1 MiB, holding one batch at a time.

    Args:
        texts: strings, UTF-8 bytes, lists or tuples of these, or mappings with any of these in
            the field ``reading.text_field``.

    Raises:
        InvalidOption: an item of another type; the message has its number.
        InvalidUtf8: invalid bytes or a lone surrogate, with the policy ``strict``.
    """
    waiting: list[bytes] = []
    number = begin = size = 0
    for document in _documents(texts, reading):
        number += 1
        if document:
            waiting.append(document)
            size += len(document)
        if size >= BATCH_BYTES:
            yield TextBatch(tuple(waiting), number, begin, size)
            waiting, begin, size = [], begin + size, 0
    if waiting:
        yield TextBatch(tuple(waiting), number, begin, size)


def _documents(texts: Iterable[Any], reading: ReadOptions) -> Iterator[bytes]:
    utf8 = {"strict": _strictly, "replace": _replacing, "ignore": _ignoring}[reading.invalid_utf8]
    for number, item in enumerate(texts):
        if isinstance(item, str | bytes):
            yield utf8(item, number)
            continue
        value = item
        if isinstance(item, Mapping):
            if reading.text_field not in item:
                meant = likely_field(reading.text_field, item) or "the name of the field"
                raise InvalidOption(
                    f"item {number} has no field {reading.text_field!r}, but "
                    f"{', '.join(map(repr, list(item)[:8])) or 'none'}",
                    "expected mappings with text in this field",
                    f"text_field={meant!r}",
                )
            value = item[reading.text_field]
        values = value if isinstance(value, list | tuple) else [value]
        for text in values:
            if not isinstance(text, str | bytes):
                raise InvalidOption(
                    f"item {number} holds {type(text).__name__}, not text",
                    "expected str, UTF-8 bytes, lists of these, or mappings with these in a field",
                    "convert it to text first",
                )
            yield utf8(text, number)


def _strictly(text: str | bytes, number: int) -> bytes:
    try:
        if isinstance(text, str):
            return str.encode(text)
        text.decode()
    except UnicodeError as error:
        raise InvalidUtf8(
            f"item {number} is not Unicode text: {error}",
            "expected strings without lone surrogates, or UTF-8 bytes",
            'pass invalid_utf8="replace" to read U+FFFD there, or convert it first',
        ) from None
    return text


def _replacing(text: str | bytes, number: int) -> bytes:
    return utf8_of(text if isinstance(text, str) else text.decode("utf-8", "replace"))


def _ignoring(text: str | bytes, number: int) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="ignore")
    return text.decode(errors="ignore").encode()


def count_special_looking(text: bytes) -> Counter[str]:
    """Count the strings that look like special tokens.

    Example:
        >>> count_special_looking(b"one<|endoftext|>two<|endoftext|>")
        Counter({'<|endoftext|>': 2})
    """
    return Counter(token.decode() for token in _SPECIAL_LOOKING.findall(text))


def without_special_looking(document: bytes) -> list[bytes]:
    """Return the non-empty pieces between strings that look like special tokens.

    Example:
        >>> without_special_looking(b"one<|endoftext|>two</s>")
        [b'one', b'two']
    """
    return [piece for piece in _SPECIAL_LOOKING.split(document) if piece]


@dataclass(frozen=True, slots=True)
class SpecialLooking:
    """Strings like special tokens, ten or more of each, at the beginning of files.

    ``files`` and ``bytes`` say how much was searched.
    """

    counts: dict[str, int]
    files: int
    bytes: int


def look_for_special(files: Sequence[SourceFile], known: Collection[str]) -> SpecialLooking:
    """Find unregistered special tokens in the first 1 MiB of up to 16 files.

    Skips files that cannot be read, for which reading them later raises. Skips files of records:
    their documents need no separator, and decoding them takes a process.
    """
    counts: Counter[str] = Counter()
    searched, size = 0, 0
    files = [file for file in files if not file.is_of_records]
    for file in files[:: -(-len(files) // _LOOKED_INTO) or 1]:
        try:
            with closing(open_source(file, 0)) as source:
                beginning = source.peek(0, _BEGINNING)
        except CorpusError:
            continue
        searched, size = searched + 1, size + len(beginning)
        counts += count_special_looking(beginning)
    frequent = {
        token: count
        for token, count in counts.most_common()
        if count >= _MANY and token not in known
    }
    return SpecialLooking(frequent, searched, size)
