"""What a stream without a name holds, by how it begins: standard input, mostly; opens nothing."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import Any

from bpeline.tokenizer_core.corpus.compressed_members import (
    COMPRESSIONS,
    DAMAGED,
    decompressed,
)
from bpeline.tokenizer_core.corpus.file_kinds import other_than_text
from bpeline.tokenizer_core.errors import UnreadableSource

HEAD = 1 << 20  # bytes that are looked at; bzip2 gives nothing before 900 kB of its text
_COMPRESSED = {kind.name: extension for extension, kind in COMPRESSIONS.items()}
_ARROW_STREAM = b"\xff\xff\xff\xff"  # before each message, and the first is a schema
_SEPARATED = {",": ".csv", "\t": ".tsv"}
_ACCEPTED = (
    "text, JSON lines, JSON, or CSV and TSV with a line that names the columns, all also "
    "compressed (gz, zst, bz2, xz); Parquet; Arrow"
)


def extension_for(head: bytes, text_field: str | None) -> str:
    """The extension under which a file that begins so is read as what it is.

    Records are known by their first: a JSON object, or a line of names of columns. Where none
    of that is seen it is text.

    Args:
        head: the first `HEAD` bytes, or all there are.
        text_field: the member or column that holds documents; None: any object is a record, and
            tables are known by a column `text`.

    Returns:
        ``.txt``, ``.jsonl``, ``.json``, ``.csv`` or ``.tsv``, each perhaps with ``.gz``, ``.zst``,
        ``.bz2`` or ``.xz`` behind it; ``.parquet`` or ``.arrow``.

    Raises:
        UnreadableSource: it begins as something else than a corpus, or as JSON objects that have
            no such member.

    Example:
        >>> extension_for(b'{"id": 1, "text": "one"}\\n{"id": 2, "text": "two"}\\n', "text")
        '.jsonl'
    """
    kind = other_than_text(head)
    if kind in _COMPRESSED:
        within = _decompressed(head, _COMPRESSED[kind])
        inner = other_than_text(within)
        if inner:
            raise _not_a_corpus(f"{inner} within {kind}", "unpack it first")
        return f"{_extension_of_text(within, text_field)}.{_COMPRESSED[kind]}"
    if kind == "Parquet":
        return ".parquet"
    if kind == "Arrow" or head.startswith(_ARROW_STREAM):
        return ".arrow"
    if kind:
        raise _not_a_corpus(kind, "convert it to one of these")
    return _extension_of_text(head, text_field)


def _extension_of_text(head: bytes, text_field: str | None) -> str:
    text = head.removeprefix(codecs.BOM_UTF8).decode(errors="replace").lstrip()
    line = text.partition("\n")[0]
    if text.startswith("{"):
        return _extension_of_objects(text, line, text_field)
    if text.startswith("[") and text[1:].lstrip().startswith("{"):
        record = _first_value(text[1:].lstrip())
        if isinstance(record, dict):
            _refuse_without(record, text_field)
        # Nothing at all: an object longer than what is seen of it.
        return ".txt" if record is None and len(head) < HEAD else ".json"
    for separator, extension in _SEPARATED.items():
        columns = _columns(line, separator)
        if len(columns) > 1 and (text_field or "text") in columns:
            return extension
    return ".txt"


def _columns(line: str, separator: str) -> list[str]:
    """The names in the first line of a table; none where it cannot be one."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a carriage return within, or more text than any name has
        return []


def _extension_of_objects(text: str, line: str, text_field: str | None) -> str:
    record, extension = _first_value(line), ".jsonl"
    if record is None:
        record, extension = _first_value(text), ".json"
    if record is None:
        # What is longer than what is seen of it is no complete JSON here.
        if len(line.encode()) > HEAD // 2:
            return ".jsonl"
        begun = len(text.encode()) > HEAD // 2 and text[1:].lstrip().startswith('"')
        return ".json" if begun else ".txt"
    _refuse_without(record, text_field)
    return extension


def _first_value(text: str) -> Any:
    """The JSON value that a text begins with; None where it does not."""
    try:
        return json.JSONDecoder(parse_int=str).raw_decode(text)[0]  # of any number of digits
    except (ValueError, RecursionError):
        return None


def _refuse_without(record: Mapping[str, Any], text_field: str | None) -> None:
    if text_field is None or text_field in record:
        return
    members = ", ".join(repr(name) for name in islice(record, 8)) or "none"
    raise UnreadableSource(
        f"standard input begins with a JSON object that has no member {text_field!r}",
        f"JSON with a document in each object; the members here: {members}",
        "say which one it is with --text-field; JSON that is to be read as text comes in a file "
        "named .txt",
    )


def _decompressed(head: bytes, extension: str) -> bytes:
    """What the beginning of compressed bytes says, `HEAD` bytes of it at most or a little more.

    Up to where it is damaged, which whoever reads the file is told.
    """
    said = bytearray()
    with suppress(*DAMAGED):
        for block in decompressed(BytesIO(head).read, COMPRESSIONS[extension]):
            said += block
            if len(said) >= HEAD:
                break
    return bytes(said)


def _not_a_corpus(kind: str, next_step: str) -> UnreadableSource:
    return UnreadableSource(f"standard input begins as {kind} does", _ACCEPTED, next_step)
