"""Recognise the content, compression and encoding of a file by its first bytes."""

from __future__ import annotations

import bz2
import codecs
import csv
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any, Protocol

from bpeline.tokenizer_core.corpus import file_kinds
from bpeline.tokenizer_core.errors import CorpusError, InvalidUtf8, UnreadableSource

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
_BLOCK = 1 << 20  # decompressed bytes at a time, if the library has a limit
_XZ_MEMORY = 512 << 20  # `xz -9` needs 65 MiB
_GZIP_ONLY = 31  # wbits of zlib for the gzip format

HEAD = 1 << 20  # bytes to check; bzip2 gives nothing before 900 kB of text
_COMPRESSED: dict[str, file_kinds.Compression] = {
    "gzip": "gz",
    "Zstandard": "zst",
    "bzip2": "bz2",
    "xz": "xz",
}
_ARROW_STREAM = b"\xff\xff\xff\xff"  # begins each message
_SEPARATED = {",": ".csv", "\t": ".tsv"}
_FEW = 8  # bytes; a file no longer than this may be a truncated header that looks like text
_LONGEST_HEADER = 1 << 16  # bytes
_ACCEPTED = (
    "expected text, JSON lines, JSON, or CSV and TSV with a header line, plain or compressed (gz, "
    "zst, bz2, xz); Parquet; Arrow"
)
_FORMATS: dict[str, file_kinds.Format] = {
    ".txt": "text", ".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv",
}  # fmt: skip
_NAMED: dict[file_kinds.Format | file_kinds.Compression, str] = {
    "text": "text", "jsonl": "JSON lines", "json": "JSON", "csv": "CSV", "tsv": "TSV",
    "parquet": "Parquet", "counts": "Parquet", "arrow": "Arrow",
    "gz": "gzip", "zst": "Zstandard", "bz2": "bzip2", "xz": "xz",
}  # fmt: skip
_EXTENSIONS = {"Parquet": ".parquet", "Arrow": ".arrow"} | {
    kind: f".{extension}" for kind, extension in _COMPRESSED.items()
}
# Commands for `typed`, for files whose content contradicts their name.
_ADVICE = {
    file_kinds.LFS_POINTER: "git lfs pull",
    file_kinds.ANNEX_POINTER: "git annex get {path}",
    file_kinds.TAR: "mkdir {path}.d && tar -xf {path} -C {path}.d",
    "zip": "unzip {path} -d {path}.d",
    "text": "{read} > {path}.txt",
} | {kind: f"{{read}} > {{path}}{extension}" for kind, extension in _EXTENSIONS.items()}

_SAMPLE = 1 << 16  # bytes
_FEW_CHARACTERS = 20  # non-ASCII characters; fewer are weaker evidence
_SHOWN = 24
_CHINESE = "的一是不了在人有我他中大上到"
_ALONE = r"(?<![^\0-\x7f])"  # not after another non-ASCII character
# Encodings by their name in Python and `iconv`: frequent non-ASCII characters of texts in them, and
# the minimum share of these among all non-ASCII characters in a typical text.
_FREQUENT = {
    "CP1252": (f"{_ALONE}[à-öø-ÿß‘’“”–—…«»€°]", 0.7),
    "CP1250": (f"{_ALONE}[áâăäąćčçďđéęëěíîľłńňóôőöŕřśšşßťţúůűüýźžż„”–—…]", 0.7),
    "CP1251": ("[а-яё]", 0.7),
    "KOI8-R": ("[а-яё]", 0.7),
    "CP1253": ("[ά-ώ]", 0.7),
    "CP932": ("[ぁ-ー、。]", 0.3),
    "EUC-JP": ("[ぁ-ー、。]", 0.3),
    "CP949": ("[가-힣]", 0.7),
    "GB18030": (f"[{_CHINESE}这来国个说们]", 0.1),
    "BIG5": (f"[{_CHINESE}這來國個說們]", 0.1),
}


class _Member(Protocol):
    """Decompresses one member, the output of one run of a compressor."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CompressionFormat:
    """A compression format.

    Attributes:
        member: creates the decompressor of one member; several members are read as one text.
        piece: compressed bytes to read at a time.
        padded: whether zero bytes between members are ignored, as the format's own tool does.
    """

    name: str
    member: Callable[[], _Member]
    piece: int = 1 << 16
    padded: bool = True


class _GzipMember:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=_GZIP_ONLY)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        block = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = len(block) < max_length
        return block


class _ZstandardMember:
    needs_input = True

    def __init__(self) -> None:
        import zstandard  # not needed to load a tokenizer

        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Any = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:  # ignores max_length
        try:
            return bytes(self._frame.decompress(data))
        except self._error as error:
            raise OSError(str(error)) from error


COMPRESSIONS = {
    "gz": CompressionFormat("gzip", _GzipMember),
    # 4 bytes can decompress to 128 KiB, so pieces are small.
    "zst": CompressionFormat("Zstandard", _ZstandardMember, piece=1 << 11, padded=False),
    "bz2": CompressionFormat("bzip2", bz2.BZ2Decompressor),
    "xz": CompressionFormat("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)),
}


def decompressed(read: Callable[[int], bytes], kind: CompressionFormat) -> Iterator[bytes]:
    """Decompress a stream block by block; raises one of `DAMAGED`.

    ``read(n)`` returns at most n bytes of the stream, none at its end.
    """
    compressed = read(kind.piece)
    if not compressed:
        raise EOFError(f"an empty file is not a {kind.name} file")
    while compressed:
        member = kind.member()
        while not member.eof:
            if block := member.decompress(compressed, _BLOCK):
                yield block
            compressed = b""
            if member.needs_input and not member.eof:
                compressed = read(kind.piece)
                if not compressed:
                    raise EOFError(f"the file ends inside of {kind.name} data")
        compressed = member.unused_data
        while True:
            if kind.padded:
                compressed = compressed.lstrip(b"\0")
            if compressed or not (compressed := read(kind.piece)):
                break


def refuse_other_content(
    path: str,
    reads_as: file_kinds.Format | file_kinds.Compression,
    head: bytes,
    within: file_kinds.Compression | None = None,
) -> None:
    """Raise an error if a file's first bytes contradict its name.

    ``head`` has `HEAD_BYTES` or the whole file, decompressed if ``within`` is given.

    Raises:
        InvalidUtf8: text in another encoding.
        UnreadableSource: another format.
    """
    named = _NAMED[reads_as]
    kind = file_kinds.other_than_text(head, named=True)
    if named in _EXTENSIONS:
        kind = kind or ("text" if len(head) > _FEW and file_kinds.is_utf8(head) else "binary")
        if kind == "binary":  # the reader of the format reports what is wrong
            return
    if kind not in ("", named):
        says = named if file_kinds.format_of(path) or named in _EXTENSIONS else ""
        raise other_content(path, says, kind, within)


def other_content(
    path: str, named: str, kind: str, compression: file_kinds.Compression | None = None
) -> CorpusError:
    """Return the error for a file whose name and first bytes disagree.

    Args:
        named: the format that its name implies; empty for none.
        kind: what it is, see `other_than_text`, after decompression if ``compression`` is given.
    """
    where = f" within {COMPRESSIONS[compression].name}" if compression else ""
    finding = f"looks like {kind}{where}" if kind + where != "binary" else "is binary"
    if file_kinds.is_encoding(kind):
        convert = f"{{read}} | iconv -f {kind} -t UTF-8 > {{utf8}}"
        return InvalidUtf8(
            f"{path} is not UTF-8 at byte 0: it {finding}",
            "expected text in UTF-8",
            file_kinds.typed(convert, path, compression),
        )
    claim = f"its name says {named}" if named else "its name does not say how to read it"
    advice = "name a text file, or give this file the extension of its format"
    return UnreadableSource(
        f"{path} {finding}, but {claim}",
        "expected a name that fits the content" if named else f"expected {file_kinds.ACCEPTED}",
        file_kinds.typed(_ADVICE[kind], path, compression) if kind in _ADVICE else advice,
    )


def content_of(
    name: str, include: tuple[str, ...], read: Callable[[int], bytes]
) -> tuple[file_kinds.Format, str]:
    """Return the format of a file, and what it is if it is not text.

    Reads the file only if its name does not imply a format. The content of other files is checked
    when they are opened for reading.
    """
    format = file_kinds.format_of(name)
    if format is not None:
        return format, ""
    if file_kinds.is_source_code(name) or file_kinds.is_included(name, include):
        is_compressed = file_kinds.compression_of(name) is not None
        return "text", "" if is_compressed else file_kinds.other_than_text(
            read(file_kinds.HEAD_BYTES)
        )
    return format_by_content(read(HEAD), name)


def format_by_content(head: bytes, name: str) -> tuple[file_kinds.Format, str]:
    """Detect a format by the first `HEAD` bytes; also what it is if not text."""
    within, compression, kind = _unpacked(head)
    if compression != file_kinds.compression_of(
        name
    ):  # it is opened by the compression in its name
        return "text", "" if compression is None else file_kinds.other_than_text(head)
    if kind:
        return "text", "" if file_kinds.is_encoding(kind) else kind  # refused when it is read
    return _FORMATS[_extension_of_text(within, None)], ""


def extension_for(head: bytes, text_field: str | None) -> str:
    """Return the extension that a file with these first bytes should have.

    The first record decides: a JSON object, or a line of column names. Anything else is text.

    Args:
        head: the first `HEAD` bytes, or the whole file.
        text_field: the member or column with the documents; None: any object is a record, and a
            table must have a column `text`.

    Returns:
        ``.txt``, ``.jsonl``, ``.json``, ``.csv`` or ``.tsv``, perhaps with ``.gz``, ``.zst``,
        ``.bz2`` or ``.xz`` after it; ``.parquet`` or ``.arrow``.

    Raises:
        UnreadableSource: not a format of a corpus, or JSON objects without the text field.

    Example:
        >>> extension_for(b'{"id": 1, "text": "one"}\\n{"id": 2, "text": "two"}\\n', "text")
        '.jsonl'
    """
    within, compression, kind = _unpacked(head)
    if compression is None and (kind == "Parquet" or kind == "Arrow"):
        return _EXTENSIONS[kind]
    if compression is None and head.startswith(_ARROW_STREAM):
        return ".arrow"
    if kind:
        where = f" within {COMPRESSIONS[compression].name}" if compression else ""
        convert = f": `… | iconv -f {kind} -t UTF-8 | …`" if file_kinds.is_encoding(kind) else ""
        raise UnreadableSource(
            f"standard input looks like {kind}{where}",
            _ACCEPTED,
            "unpack it first" if where and not convert else f"convert it to one of these{convert}",
        )
    return _extension_of_text(within, text_field) + (f".{compression}" if compression else "")


def _extension_of_text(head: bytes, text_field: str | None) -> str:
    is_whole = len(head) < HEAD
    head = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if not head.startswith((b"{", b"[")):
        return _extension_of_table(head[:_LONGEST_HEADER].partition(b"\n")[0], text_field)
    text = head.decode(errors="replace")
    line = text.partition("\n")[0]
    if text.startswith("{"):
        return _extension_of_objects(text, line, text_field)
    if text[1:].lstrip().startswith("{"):
        record = _first_value(text[1:].lstrip())
        if isinstance(record, dict):
            _refuse_without(record, text_field)
        # None also means that the object is longer than `HEAD`.
        return ".txt" if record is None and is_whole else ".json"
    return ".txt"


def _extension_of_table(line: bytes, text_field: str | None) -> str:
    for separator, extension in _SEPARATED.items():
        columns = _columns(line.decode(errors="replace"), separator)
        is_prose = any(name.startswith(" ") and " " in name.strip() for name in columns)
        if len(columns) > 1 and (text_field or "text") in columns and not is_prose:
            return extension
    return ".txt"


def _columns(line: str, separator: str) -> list[str]:
    """Split the first line of a table into names; empty if it is not a table."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # an embedded carriage return, or an overlong name
        return []


def _extension_of_objects(text: str, line: str, text_field: str | None) -> str:
    record, extension = _first_value(line), ".jsonl"
    if record is None:
        record, extension = _first_value(text), ".json"
    if record is None:
        # A value longer than `HEAD` is incomplete here.
        if len(line.encode()) > HEAD // 2:
            return ".jsonl"
        begun = len(text.encode()) > HEAD // 2 and text[1:].lstrip().startswith('"')
        return ".json" if begun else ".txt"
    _refuse_without(record, text_field)
    return extension


def _first_value(text: str) -> Any:
    """Return the JSON value that a text begins with, or None."""
    try:
        return json.JSONDecoder(parse_int=str).raw_decode(text)[0]  # integers of any length
    except (ValueError, RecursionError):
        return None


def _refuse_without(record: Mapping[str, Any], text_field: str | None) -> None:
    if text_field is None or text_field in record:
        return
    members = ", ".join(repr(name) for name in islice(record, 8)) or "none"
    raise UnreadableSource(
        f"standard input begins with a JSON object that has no member {text_field!r}",
        f"expected JSON with a document in each object; members here: {members}",
        "select a member with --text-field; to read JSON as text, put it in a file named .txt",
    )


def _unpacked(head: bytes) -> tuple[bytes, file_kinds.Compression | None, str]:
    """Return the decompressed first bytes, the compression, and the type if not text."""
    compression = _COMPRESSED.get(kind := file_kinds.other_than_text(head))
    if compression is None:
        return head, None, kind
    content = bytearray()
    with suppress(*DAMAGED):
        for block in decompressed(BytesIO(head).read, COMPRESSIONS[compression]):
            content += block
            if len(content) >= HEAD:
                break
    return bytes(content), compression, file_kinds.other_than_text(bytes(content))


def likely_encoding(content: bytes, at: int) -> tuple[str, str]:
    """Guess the encoding of a text that is not UTF-8, and describe the invalid bytes.

    The encoding is ``UTF-8`` if only some bytes are damaged, and empty if none fits. ``content``
    begins at a character; ``at`` is where it is not UTF-8.
    """
    sample = content[max(0, at - _SAMPLE // 2) : at + _SAMPLE // 2]
    sample = sample[sample.find(b"\n") + 1 if at > _SAMPLE // 2 else 0 :]
    shown = f"the bytes {content[at : at + 8].hex(' ')} are"
    decoded = sample.decode(errors="replace")
    if sum(character > "\x7f" for character in decoded) > 2 * decoded.count("\ufffd"):
        return "UTF-8", f"{shown} damaged in a text that is UTF-8 elsewhere"
    likelihoods = {name: _likelihood(sample, name) for name in _FREQUENT}
    encoding = max(likelihoods, key=lambda name: likelihoods[name])
    likelihood = likelihoods[encoding]
    if likelihood < 0.5:
        return "", f"{shown} in no known encoding"
    has_many = len(sample) - len(sample.translate(None, bytes(range(128, 256)))) >= _FEW_CHARACTERS
    sure = "very likely" if has_many and likelihood >= 1 else "perhaps"
    begin = content.rfind(b"\n", max(0, at - _SHOWN), at) + 1 or max(0, at - _SHOWN)
    excerpt = content[begin : at + _SHOWN].decode(encoding, "ignore").strip().split("\n")[0]
    return encoding, f"{shown} {sure} {encoding}, which reads {excerpt!r}"


def _likelihood(sample: bytes, encoding: str) -> float:
    """Score how well a text fits an encoding; 1 if enough characters are frequent."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    frequent, share = _FREQUENT[encoding]
    others = sum(character > "\x7f" for character in text)
    return len(re.findall(frequent, text)) / (share * max(1, others))
