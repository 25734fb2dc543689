"""What a source holds by how it begins, decompressed; in which encoding text may be.

A member of compressed bytes is what one run of a compressing program wrote. Several are one text.
"""

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
_BLOCK = 1 << 20  # decompressed bytes at a time, where that can be bounded
_XZ_MEMORY = 512 << 20  # `xz -9` needs 65 MiB
_GZIP_ONLY = 31  # of zlib: a header and a check sum of gzip's

HEAD = 1 << 20  # bytes that are looked at; bzip2 gives nothing before 900 kB of its text
_COMPRESSED: dict[str, file_kinds.Compression] = {
    "gzip": "gz",
    "Zstandard": "zst",
    "bzip2": "bz2",
    "xz": "xz",
}
_ARROW_STREAM = b"\xff\xff\xff\xff"  # before each message, and the first is a schema
_SEPARATED = {",": ".csv", "\t": ".tsv"}
_FEW = 8  # bytes that tell nothing: what stands at the begin of a compressed file is shorter
_LONGEST_HEADER = 1 << 16  # bytes
_ACCEPTED = (
    "text, JSON lines, JSON, or CSV and TSV with a line that names the columns, all also "
    "compressed (gz, zst, bz2, xz); Parquet; Arrow"
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
# What to type, as `typed` takes it, about a file that is not what its name says.
_ADVICE = {
    file_kinds.LFS_POINTER: "git lfs pull",
    file_kinds.ANNEX_POINTER: "git annex get {path}",
    file_kinds.TAR: "mkdir {path}.d && tar -xf {path} -C {path}.d",
    "zip": "unzip {path} -d {path}.d",
    "text": "{read} > {path}.txt",
} | {kind: f"{{read}} > {{path}}{extension}" for kind, extension in _EXTENSIONS.items()}

_SAMPLE = 1 << 16  # bytes
_FEW_CHARACTERS = 20  # characters beyond ASCII, which tell less than more of them do
_SHOWN = 24
_CHINESE = "的一是不了在人有我他中大上到"
_ALONE = r"(?<![^\0-\x7f])"  # between letters of ASCII
# Encodings as Python and `iconv` call them; characters beyond ASCII that are frequent in texts in
# them, and the share of these that such texts have at least, as a rule.
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
    """What decompresses one member."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CompressionFormat:
    """One kind of compression.

    Attributes:
        name: as people know it.
        member: makes what decompresses one member.
        piece: compressed bytes to read at a time.
        padded: zero bytes between members are ignored, as by its own program.
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
        import zstandard  # which loading a tokenizer does without

        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Any = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:  # not bounded
        try:
            return bytes(self._frame.decompress(data))
        except self._error as error:
            raise OSError(str(error)) from error


COMPRESSIONS = {
    "gz": CompressionFormat("gzip", _GzipMember),
    # A block of 4 bytes can stand for 128 KiB.
    "zst": CompressionFormat("Zstandard", _ZstandardMember, piece=1 << 11, padded=False),
    "bz2": CompressionFormat("bzip2", bz2.BZ2Decompressor),
    "xz": CompressionFormat("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)),
}


def decompressed(read: Callable[[int], bytes], kind: CompressionFormat) -> Iterator[bytes]:
    """What a compressed stream says, block by block, up to where it is damaged.

    Args:
        read: gives at most so many bytes of the stream; none where it ends.
        kind: one of `COMPRESSIONS`.

    Raises:
        OSError, EOFError, zlib.error, lzma.LZMAError: it is damaged, or ends too early; `DAMAGED`.
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
    """Refuse a file that begins as something else than its name says.

    Args:
        head: its first `HEAD_BYTES` or all there are, decompressed where it is ``within`` one.

    Raises:
        InvalidUtf8: it is text in another encoding.
        UnreadableSource: it is something else.
    """
    named = _NAMED[reads_as]
    kind = file_kinds.other_than_text(head, named=True)
    if named in _EXTENSIONS:
        kind = kind or ("text" if len(head) > _FEW and file_kinds.is_utf8(head) else "binary")
        if kind == "binary":  # its own reader says what is wrong
            return
    if kind not in ("", named):
        says = named if file_kinds.format_of(path) or named in _EXTENSIONS else ""
        raise other_content(path, says, kind, within)


def other_content(
    path: str, named: str, kind: str, compression: file_kinds.Compression | None = None
) -> CorpusError:
    """The refusal of a file whose name and whose first bytes say different things.

    Args:
        named: what its name says; empty: nothing.
        kind: what it is, see `other_than_text`.
        compression: by which it begins so after decompression.
    """
    where = f" within {COMPRESSIONS[compression].name}" if compression else ""
    begins = f"begins as {kind}{where} does" if kind + where != "binary" else "is binary"
    if file_kinds.is_encoding(kind):
        convert = f"{{read}} | iconv -f {kind} -t UTF-8 > {{utf8}}"
        return InvalidUtf8(
            f"{path} is not UTF-8 at byte 0: it {begins}",
            "text in UTF-8",
            file_kinds.typed(convert, path, compression),
        )
    says = f"its name says {named}" if named else "its name does not say how to read it"
    advice = "name a file of text, or give this one the extension of what it is"
    return UnreadableSource(
        f"{path} {begins}, and {says}",
        "a name that says what the file holds" if named else f"accepted are {file_kinds.ACCEPTED}",
        file_kinds.typed(_ADVICE[kind], path, compression) if kind in _ADVICE else advice,
    )


def content_of(
    name: str, include: tuple[str, ...], read: Callable[[int], bytes]
) -> tuple[file_kinds.Format, str]:
    """What a file holds, and what else it is if it is no text; opened where its name does not say.

    A file whose name does say it is looked at when it is opened to be read.
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
    """What a file holds whose name does not say it, and what it is instead, if it is no text.

    Args:
        head: its first `HEAD` bytes, or all there are.
        name: for its compression.
    """
    within, compression, kind = _unpacked(head)
    if compression != file_kinds.compression_of(
        name
    ):  # without the one of its name it cannot be opened
        return "text", "" if compression is None else file_kinds.other_than_text(head)
    if kind:
        return "text", "" if file_kinds.is_encoding(kind) else kind  # refused when it is read
    return _FORMATS[_extension_of_text(within, None)], ""


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
    within, compression, kind = _unpacked(head)
    if compression is None and (kind == "Parquet" or kind == "Arrow"):
        return _EXTENSIONS[kind]
    if compression is None and head.startswith(_ARROW_STREAM):
        return ".arrow"
    if kind:
        where = f" within {COMPRESSIONS[compression].name}" if compression else ""
        convert = f": `… | iconv -f {kind} -t UTF-8 | …`" if file_kinds.is_encoding(kind) else ""
        raise UnreadableSource(
            f"standard input begins as {kind}{where} does",
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
        # Nothing at all: an object longer than what is seen of it.
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


def _unpacked(head: bytes) -> tuple[bytes, file_kinds.Compression | None, str]:
    """What the beginning of a file says after decompression, by what, and what else than text.

    `HEAD` bytes of it at most or a little more, up to where it is damaged, which is for its reader
    to say.
    """
    compression = _COMPRESSED.get(kind := file_kinds.other_than_text(head))
    if compression is None:
        return head, None, kind
    said = bytearray()
    with suppress(*DAMAGED):
        for block in decompressed(BytesIO(head).read, COMPRESSIONS[compression]):
            said += block
            if len(said) >= HEAD:
                break
    return bytes(said), compression, file_kinds.other_than_text(bytes(said))


def likely_encoding(content: bytes, at: int) -> tuple[str, str]:
    """In which encoding a text is that is not UTF-8, and what to say of it.

    Args:
        content: some of it, from the beginning of a character on.
        at: where it is not UTF-8.

    Returns:
        ``UTF-8`` where only some bytes are damaged, another name, or empty where none fits.
    """
    sample = content[max(0, at - _SAMPLE // 2) : at + _SAMPLE // 2]
    sample = sample[sample.find(b"\n") + 1 if at > _SAMPLE // 2 else 0 :]
    shown = f"the bytes {content[at : at + 8].hex(' ')} are"
    read = sample.decode(errors="replace")
    if sum(one > "\x7f" for one in read) > 2 * read.count("\ufffd"):
        return "UTF-8", f"{shown} damaged in a text that is UTF-8 elsewhere"
    likelihoods = {name: _likelihood(sample, name) for name in _FREQUENT}
    encoding = max(likelihoods, key=lambda name: likelihoods[name])
    likelihood = likelihoods[encoding]
    if likelihood < 0.5:
        return "", f"{shown} of no encoding that is known here"
    several = len(sample) - len(sample.translate(None, bytes(range(128, 256)))) >= _FEW_CHARACTERS
    sure = "very likely" if several and likelihood >= 1 else "perhaps"
    begin = content.rfind(b"\n", max(0, at - _SHOWN), at) + 1 or max(0, at - _SHOWN)
    says = content[begin : at + _SHOWN].decode(encoding, "ignore").strip().split("\n")[0]
    return encoding, f"{shown} {sure} {encoding}, in which it says {says!r}"


def _likelihood(sample: bytes, encoding: str) -> float:
    """How many characters of a text are what they should be; 1 for enough of them."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    frequent, share = _FREQUENT[encoding]
    others = sum(one > "\x7f" for one in text)
    return len(re.findall(frequent, text)) / (share * max(1, others))
