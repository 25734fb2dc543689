"""Recognise files by name and first bytes; list the files that are skipped."""

from __future__ import annotations

import codecs
import fnmatch
import json
import os
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from bpeline.tokenizer_core.errors import UnreadableSource

# All but `text` and `jsonl` are read as records that each end with `RECORD_END`: documents or, for
# `counts`, words with their counts (see `given_counts`).
Format = Literal["text", "jsonl", "parquet", "arrow", "csv", "tsv", "json", "counts"]
Compression = Literal["gz", "zst", "bz2", "xz"]

RECORD_END = b"\xff"  # never in UTF-8
COUNT_BEGIN = b"\xfe"  # never in UTF-8; between a word and its count
COUNT_DIGITS = 19  # of each count, zero-padded; enough for an int64
TEXT_SUFFIXES = (".txt", ".text", ".md", ".py")
_JSON_LINES = (".jsonl", ".ndjson", ".jsonlines")  # and .jl, unless it is Julia
_FORMATS: dict[str, Format] = {
    **dict.fromkeys(TEXT_SUFFIXES, "text"),
    **dict.fromkeys(_JSON_LINES, "jsonl"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
}
# Some of these extensions have other uses (.ts is video), so the first bytes decide. Left out are
# markup, styles and settings (.html, .css, .xml, .yaml) and output of build tools (.s, .d).
_SOURCE_CODE = """
    .asm .bash .c .cc .clj .cljc .cljs .cpp .cs .cu .cuh .cxx .dart .el .erl .ex .exs .f .f90 .f95
    .fish .fs .fsi .fsx .go .groovy .h .hh .hpp .hrl .hs .hxx .java .jl .js .jsx .kt .kts .lhs .lisp
    .lua .m .mjs .ml .mli .mm .nim .pas .php .pl .pm .proto .ps1 .pxd .pyi .pyx .r .rb .rkt .rs
    .scala .scm .sh .sol .sql .sv .swift .tcl .ts .tsx .v .vb .vhd .vhdl .zig .zsh
"""
SOURCE_CODE = tuple(_SOURCE_CODE.split())
_DATA_SUFFIXES = (*_JSON_LINES, ".parquet", ".arrow", ".feather")
# Not .csv, .tsv and .json: next to a corpus these are usually metadata.
_ALWAYS_TAKEN = frozenset((*TEXT_SUFFIXES, *SOURCE_CODE))
SEARCHED_FOR = f"{' '.join((*TEXT_SUFFIXES, *_DATA_SUFFIXES))} and source code (.c .js .rs …)"
# The `datasets` library writes metadata and locks next to its Arrow files, and caches results of
# `map` and `filter`, which would be read twice.
_ABOUT_DATASETS = re.compile(
    r"dataset_info\.json|dataset_dict\.json|state\.json|.*_(?:info|builder)\.lock"
)
DERIVED = "cache-*.arrow"
_DERIVED = re.compile(r"cache-[0-9a-f]{16}.*\.arrow")
# Splits as the Hub and `datasets` name them: a directory `test`, `test.jsonl`,
# `test-00000-of-00004.parquet`, `json-test.arrow`.
_SPLITS = "train|training|test|testing|validation|valid|val|dev|eval"
_OF_A_SPLIT = re.compile(
    rf"(?:.*/)?(?:({_SPLITS})/[^/]*|(?:[^/]*-)?({_SPLITS})(?:-\d{{5}}-of-\d{{5}})?(?:\.[^/]*)?)"
)
_COMPRESSED_WITHIN = ("parquet", "arrow")
_COMPRESSIONS: dict[str, Compression] = {
    ".gz": "gz", ".zst": "zst", ".bz2": "bz2", ".xz": "xz",
}  # fmt: skip
_READERS: dict[Compression | None, str] = {
    None: "cat", "gz": "gzip -dc", "zst": "zstd -dc", "bz2": "bzip2 -dc", "xz": "xz -dc",
}  # fmt: skip
# Extensions that cannot be read, and what to do instead.
_REFUSED = {
    ".zip": "unzip -p {} | zstd > corpus.txt.zst",
    ".tar": "unpack it and name the directory instead",
    ".tgz": "unpack it and name the directory instead",
    ".orc": "write its text column as Parquet, or as JSON lines (.jsonl)",
}
LFS_POINTER, ANNEX_POINTER, TAR = "a Git LFS pointer", "a git-annex pointer", "a tar archive"
ACCEPTED = (
    "text, .jsonl, .csv, .tsv and .json files, all also as .gz, .zst, .bz2 or .xz, .parquet and "
    ".arrow files, directories of "
    + SEARCHED_FOR
    + ", globs such as 'data/**/*.txt', and URLs of these such as s3://bucket/data/*.txt"
)
HEAD_BYTES = 4096  # of each file, checked to recognise text

# Byte order marks of encodings that `iconv` converts, longer ones first.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# First bytes of binary files, some of which have no zero byte.
_MARKS_OF_OTHERS = {
    b"version https://git-lfs.github.com/spec/": LFS_POINTER,
    b"/annex/objects/": ANNEX_POINTER,
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"%PDF-": "PDF",
    b"%!PS": "PostScript",
    b"{\\rtf": "RTF",
    b"\x89PNG": "PNG",
    b"GIF8": "GIF",
    b"\xff\xd8\xff": "JPEG",
    b"\x7fELF": "a program",
    b"SQLite format 3": "SQLite",
}
_FIRST_BYTES = tuple({**_ENCODINGS, **_MARKS_OF_OTHERS})
# A text may begin with these, too: the following bytes decide.
_WORDS = ("bzip2", "Parquet", "Arrow", "GIF", "SQLite")
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"})
_MOST_HIGH_BYTES = 16  # distinct high bytes of UTF-16 in alphabetic text

_MOST_DIGITS = 640  # Python converts so many with any setting
_SHOWN = 20  # names of fields in a message
# Usual names of text columns.
_USUAL = ("text", "content", "contents", "body", "document", "article", "sentence")

OF_BPELINE = "of bpeline"
# Directories are recognised by the content of one of these files.
_MARKS = {
    "manifest.json": (re.compile(rb'"format": ?"bpeline"'), f"tokenizer {OF_BPELINE}"),
    "workspace.json": (re.compile(rb'"kind": ?"bpeline workspace"'), f"workspace {OF_BPELINE}"),
}
_SHARD = re.compile(r"(shard-\d{5,}-[0-9a-f]{12})\..+")
_RECORD = re.compile(rb'"name": ?"shard-\d{5,}-[0-9a-f]{12}", ?"key": ?"')
_CERTIFICATE = re.compile(rb'"certificate": ?\d+,\s*"format": ?"')
_CERTIFIED = ".certificate.json"

_MOST_KINDS = 8


def plain_name(name: str) -> str:
    """Return the name in lower case, without the extension of a compression."""
    lower = name.lower()
    stem, suffix = os.path.splitext(lower)
    return stem if suffix in _COMPRESSIONS else lower


def _suffix_of(name: str) -> str:
    """Return the extension in lower case, three times as fast as `os.path.splitext`."""
    stem, dot, suffix = name[name.rfind("/") + 1 :].rpartition(".")
    return dot + suffix.lower() if stem.lstrip(".") else ""


def _plain_suffix_of(name: str) -> str:
    suffix = _suffix_of(name)
    return _suffix_of(name[: -len(suffix)]) if suffix in _COMPRESSIONS else suffix


def format_of(name: str) -> Format | None:
    """Return the format that a file name implies, or None."""
    return _FORMATS.get(_plain_suffix_of(name))


def compression_of(name: str) -> Compression | None:
    """Return the compression that a file name implies, or None."""
    return _COMPRESSIONS.get(_suffix_of(name))


def typed(command: str, path: str, compression: Compression | None) -> str:
    """Format a shell command about a file, as a next step to type.

    Args:
        command: ``{path}`` stands for the file, ``{read}`` for a command that prints its text,
            ``{utf8}`` and ``{new}`` for new files next to it with the same extension.
        compression: of the content, whatever the name says.
    """
    is_here = "://" not in path
    path = path if is_here else os.path.basename(path)
    stem, suffix = os.path.splitext(path)
    if suffix.lower() in _COMPRESSIONS:
        stem, suffix = os.path.splitext(stem)
    new = {way: shlex.quote(f"{stem}.{way}{suffix}") for way in ("utf8", "new")}
    quoted = shlex.quote(path)
    command = command.format(path=quoted, read=f"{_READERS[compression]} {quoted}", **new)
    return f"type `{command}`" if is_here else f"fetch the file, then type `{command}`"


def is_taken_from_directories(name: str, include: Sequence[str]) -> bool:
    """Whether a file is read: a usual type, or one that `is_included`."""
    suffix = _plain_suffix_of(name)
    if suffix in _ALWAYS_TAKEN:
        return True
    if is_refused(name):
        return False
    usual = suffix in _DATA_SUFFIXES and not is_derived(name)
    return usual or is_included(name, include)


def is_source_code(name: str) -> bool:
    """Whether the name is that of source code; for .jl, the content decides."""
    suffix = _plain_suffix_of(name)
    return suffix in SOURCE_CODE and suffix != ".jl"


def is_about_datasets(name: str) -> bool:
    """Whether the name is that of metadata of the `datasets` library."""
    return _ABOUT_DATASETS.fullmatch(os.path.basename(name)) is not None


def is_derived(name: str) -> bool:
    """Whether the name is that of a result that the `datasets` library caches."""
    return name.endswith(".arrow") and _DERIVED.fullmatch(os.path.basename(name)) is not None


def is_included(name: str, include: Sequence[str]) -> bool:
    """Whether a glob matches the file by its name or, with a ``/``, by its path."""
    return any(
        fnmatch.fnmatchcase(name if "/" in glob else os.path.basename(name), glob)
        for glob in include
    )


def is_refused(name: str) -> bool:
    return refusal_of(name) is not None


def refusal_of(path: str) -> tuple[str, str] | None:
    """Return why a file of this name cannot be read and what to do, or None."""
    suffix = _plain_suffix_of(path)
    if suffix in _REFUSED:
        return f"{suffix} files are not read", _REFUSED[suffix].format(path)
    if _FORMATS.get(suffix) in _COMPRESSED_WITHIN and (compression := compression_of(path)):
        return f"{suffix} files are not read as .{compression}", f"unpack it: {path}"
    return None


def names_its_extension(glob: str) -> bool:
    """Whether a glob has a fixed extension, as ``*.log`` has and ``*`` has not."""
    suffix = os.path.splitext(os.path.basename(glob))[1]
    return len(suffix) > 1 and not set(suffix) & set("*?[")


def split_of(path: str) -> str:
    """Return the split that a path names, such as ``train``; empty for none.

    Example:
        >>> split_of("news/test-00000-of-00004.parquet"), split_of("news/latest.parquet")
        ('test', '')
    """
    match = _OF_A_SPLIT.fullmatch(path.lower())
    return "" if match is None else match[1] or match[2]


def shown_kind(name: str) -> str:
    """Return the label of a skipped file: its extension, without a compression's."""
    if is_derived(name):
        return f"{DERIVED} (of the datasets library)"
    suffix = os.path.splitext(plain_name(os.path.basename(name)))[1]
    whole = os.path.splitext(os.path.basename(name).lower())[1]
    return suffix or whole or "without an extension"


def other_than_text(head: bytes, *, named: bool = False) -> str:
    """Return what a file is, such as ``PNG`` or ``binary``; empty for UTF-8 text.

    ``head`` has `HEAD_BYTES` or more, or the whole file. If the file is ``named`` as text, UTF-8
    with zero bytes is text, too.
    """
    if head.startswith(_FIRST_BYTES):
        for mark, kind in (_ENCODINGS | _MARKS_OF_OTHERS).items():
            if head.startswith(mark) and not (named and kind in _WORDS and is_utf8(head)):
                return kind
    if b"\0" not in head:
        return ""
    if _is_tar(head):
        return TAR
    if encoding := _wide_encoding(head[: HEAD_BYTES - HEAD_BYTES % 4]):
        return encoding
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if named and is_utf8(head.replace(b"\0", b" ")):
        return ""
    return "binary" if not named or controls * 3 > len(head) else ""


def is_encoding(kind: str) -> bool:
    """Whether a result of `other_than_text` is text in another encoding."""
    return kind.startswith("UTF-")


def is_utf8(head: bytes) -> bool:
    """Whether a file with these first bytes may be UTF-8 text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _is_tar(head: bytes) -> bool:
    """Whether the bytes begin with a tar header whose checksum is right."""
    checksum = head[148:156].strip(b" \0")
    if len(head) < 512 or not re.fullmatch(rb"[0-7]+", checksum):
        return False
    return sum(head[:148]) + 8 * ord(" ") + sum(head[156:512]) == int(checksum, 8)


def _wide_encoding(head: bytes) -> str:
    """Detect UTF-16 or UTF-32 without a byte order mark; empty if it is unclear."""
    for encoding, width, place in (
        ("UTF-32LE", 4, 3), ("UTF-32BE", 4, 0), ("UTF-16LE", 2, 1), ("UTF-16BE", 2, 0),
    ):  # fmt: skip
        high, low = head[place::width], head[width - 1 - place :: width]
        if len(head) % width or high.count(0) < 4 or 0 in low or len({*high}) > _MOST_HIGH_BYTES:
            continue
        with suppress(UnicodeDecodeError):
            text = {*codecs.getincrementaldecoder(encoding)().decode(head)} - {*"\t\n\v\f\r"}
            if not any(unicodedata.category(character) in ("Cc", "Cn", "Co") for character in text):
                return encoding
    return ""


def id_as_json(value: object) -> bytes:
    """Serialise an id that is text or a number; empty for other types."""
    return json.dumps(value).encode("ascii") if isinstance(value, str | int | float) else b""


def likely_field(field: str, texts: Mapping[str, object]) -> str:
    """Guess which field was meant by one that does not exist; empty if it is unclear.

    ``texts`` has the names of the fields, with the value in a row if it is known.
    """
    others = [name for name in texts if name != field]
    alike = [name for name in others if name.strip().casefold() == field.strip().casefold()]
    seen = [name for name in others if isinstance(texts[name], str)]
    longest = sorted(seen, key=lambda name: -len(str(texts[name])))
    usual = [name for name in others if name.casefold() in _USUAL]
    return next(iter(alike or longest or usual or others[: len(others) == 1]), "")


def advised_field(field: str, texts: Mapping[str, object]) -> str:
    """Return the option to type for a missing field; empty if it is unclear."""
    name = likely_field(field, texts)
    return f"type `--text-field {shlex.quote(name)}`" if name else ""


def without_text(record: Mapping[str, Any], field: str) -> str:
    """Describe an object that has no text in a field, and list its fields."""
    if record.get(field) is not None:
        return f"has something other than text in the field {field!r}"
    has = [repr(name) for name, value in record.items() if value is not None]
    return f"has no field {field!r}, but {', '.join(has[:_SHOWN]) or 'none'}"


def whole_number(digits: str) -> int | Decimal:
    """Parse a JSON integer; as a Decimal if it is too long for `int`."""
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def own_files(names: Collection[str], head: Callable[[str], bytes]) -> dict[str, str]:
    """Find what bpeline wrote in a directory, by the content of manifests and records.

    Args:
        head: returns the first bytes of a file.

    Returns:
        Name → what it is; the name "" stands for the whole directory.
    """
    for name, (says, kind) in _MARKS.items():
        if name in names and says.search(head(name)):
            return {"": kind}
    shards = {name: f"{match[1]}.json" for name in names if (match := _SHARD.fullmatch(name))}
    complete = {
        record for record in {*shards.values()} if record in names and _RECORD.search(head(record))
    }
    own = {
        name: f"token shards {OF_BPELINE}" for name, record in shards.items() if record in complete
    }
    for name in names:
        if name.endswith(_CERTIFIED) and _CERTIFICATE.search(head(name)):
            own[name.removesuffix(_CERTIFIED)] = f"export {OF_BPELINE}"
    return own


def tells_of_own_files(path: str) -> bool:
    """Whether a file of this name may describe what bpeline wrote next to it."""
    name = path.rpartition("/")[2]
    return name.endswith(".json") and (
        name in _MARKS or name.endswith(_CERTIFIED) or bool(_SHARD.fullmatch(name))
    )


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """Files below directories, or matched by globs, that are not read.

    Attributes:
        kinds: extension, or another reason → number of files.
        hidden: names that begin with a dot, left out on purpose.
        about_datasets: metadata of the `datasets` library, left out on purpose.
        example: a file of the most frequent kind.
    """

    kinds: Mapping[str, int] = field(default_factory=dict)
    hidden: int = 0
    about_datasets: int = 0
    example: str = ""

    @property
    def number(self) -> int:
        """Number of files that are not read, without those left out on purpose."""
        return sum(self.kinds.values())

    @property
    def remark(self) -> str:
        """One line such as ``skipped 3 files: 3 .png``; empty if nothing was skipped."""
        parts = [self._listed] if self.number else []
        if self.about_datasets:
            parts.append(_several(self.about_datasets, "description", " of datasets"))
        if self.hidden:
            parts.append(_several(self.hidden, "hidden name"))
        if not parts:
            return ""
        *others, last = parts
        return f"skipped {', '.join(others)}, and {last}" if others else f"skipped {last}"

    @property
    def _listed(self) -> str:
        ordered = sorted(self.kinds.items(), key=lambda one: (-one[1], one[0]))
        shown = [f"{number:,} {kind}" for kind, number in ordered[:_MOST_KINDS]]
        rest = ordered[_MOST_KINDS:]
        if rest:
            shown.append(f"{sum(number for _, number in rest):,} of {len(rest):,} other kinds")
        return f"{self.number:,} file{'s' * (self.number != 1)}: {', '.join(shown)}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "files": self.number,
            "kinds": dict(self.kinds),
            "hidden": self.hidden,
            "about_datasets": self.about_datasets,
        }

    def refuse(self) -> None:
        """Raise `UnreadableSource` if a file is skipped, for ``--strict``."""
        if self.number:
            raise UnreadableSource(
                f"{self._listed} would not be read, such as {self.example}",
                "with --strict every file must be read, except hidden ones and metadata of "
                f"datasets; expected {ACCEPTED}",
                "leave out --strict, name the files to read, or read more types as text with "
                "--include '*.rst'",
            )


def _several(number: int, what: str, of: str = "") -> str:
    return f"{number:,} {what}{'s' * (number != 1)}{of}"


class Skipping:
    """Collects skipped files while sources are searched, each file once."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._hidden: set[str] = set()

    def skip(self, path: str, kind: str) -> None:
        self._kinds[path] = kind

    def hide(self, path: str) -> None:
        self._hidden.add(path)

    def add(self, others: Skipping) -> None:
        self._kinds |= others._kinds
        self._hidden |= others._hidden

    def summary(self, taken: set[str]) -> SkippedFiles:
        """Summarise what was skipped, without files that another source reads."""
        if self._kinds:
            taken = taken | {os.path.realpath(path) for path in taken if os.path.islink(path)}
        left = {path: kind for path, kind in self._kinds.items() if path not in taken}
        about = {path for path in left if is_about_datasets(path)}
        left = {path: kind for path, kind in left.items() if path not in about}
        kinds = Counter(left.values())
        most = max(kinds, key=lambda kind: (kinds[kind], kind), default="")
        example = min((path for path, kind in left.items() if kind == most), default="")
        return SkippedFiles(dict(kinds), len(self._hidden - taken), len(about), example)
