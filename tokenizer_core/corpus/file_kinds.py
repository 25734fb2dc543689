"""What names say: of a file its format, of a field that it holds text or an id; what is skipped."""

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

# Text; JSON lines; files of records, whose bytes are documents with `RECORD_END` behind each; and
# word counts of other programs, whose bytes are words with their counts: see `given_counts`.
Format = Literal["text", "jsonl", "parquet", "arrow", "csv", "tsv", "json", "counts"]
Compression = Literal["gz", "zst", "bz2", "xz"]

RECORD_END = b"\xff"  # a byte that UTF-8 never has
COUNT_BEGIN = b"\xfe"  # another one: stands between a word and its count
COUNT_DIGITS = 19  # of each, with zeros before it: what an int64 needs
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
# Programs as people write them. Other things have some of these names, too (.ts is video), so they
# are no formats: how a file begins decides. Not markup, styles and settings (.html, .css, .xml,
# .yaml), nor what compilers and build tools write (.s, .d).
_SOURCE_CODE = """
    .asm .bash .c .cc .clj .cljc .cljs .cpp .cs .cu .cuh .cxx .dart .el .erl .ex .exs .f .f90 .f95
    .fish .fs .fsi .fsx .go .groovy .h .hh .hpp .hrl .hs .hxx .java .jl .js .jsx .kt .kts .lhs .lisp
    .lua .m .mjs .ml .mli .mm .nim .pas .php .pl .pm .proto .ps1 .pxd .pyi .pyx .r .rb .rkt .rs
    .scala .scm .sh .sol .sql .sv .swift .tcl .ts .tsx .v .vb .vhd .vhdl .zig .zsh
"""
SOURCE_CODE = tuple(_SOURCE_CODE.split())
_DATA_SUFFIXES = (*_JSON_LINES, ".parquet", ".arrow", ".feather")
# Not .csv, .tsv and .json: beside a corpus these are settings and tables about it, as a rule.
_ALWAYS_TAKEN = frozenset((*TEXT_SUFFIXES, *SOURCE_CODE))
SEARCHED_FOR = f"{' '.join((*TEXT_SUFFIXES, *_DATA_SUFFIXES))} and source code (.c .js .rs …)"
# What `datasets` writes beside its Arrow files: descriptions and locks, and copies of what is there
# that `map` and `filter` made, which would be read twice.
_ABOUT_DATASETS = re.compile(
    r"dataset_info\.json|dataset_dict\.json|state\.json|.*_(?:info|builder)\.lock"
)
DERIVED = "cache-*.arrow"
_DERIVED = re.compile(r"cache-[0-9a-f]{16}.*\.arrow")
# Files of a part of a data set, as the Hub and `datasets` name them: a directory of its name,
# `test.jsonl`, `test-00000-of-00004.parquet`, `json-test.arrow`.
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
# Names that cannot be text, and what to do about them.
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
HEAD_BYTES = 4096  # of every file, looked at to tell text from other things

# Byte order marks of what `iconv` converts; the longer one first.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# What begins so is no text even where no byte is zero.
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
# Words with which a text may begin: other bytes behind them decide.
_WORDS = ("bzip2", "Parquet", "Arrow", "GIF", "SQLite")
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"})
_MOST_HIGH_BYTES = 16  # different ones of UTF-16, in a text of an alphabet

_MOST_DIGITS = 640  # which Python converts whatever its environment says
_SHOWN = 20  # names of fields in a message
# Names that columns of text often have.
_USUAL = ("text", "content", "contents", "body", "document", "article", "sentence")

OF_BPELINE = "of bpeline"
# How a directory is known: by a file in it, and what that says.
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
    """The name in lower case, without the suffix of a compression."""
    lower = name.lower()
    stem, suffix = os.path.splitext(lower)
    return stem if suffix in _COMPRESSIONS else lower


def _suffix_of(name: str) -> str:
    """`os.path.splitext` for the extension alone, in lower case, in a third of the time."""
    stem, dot, suffix = name[name.rfind("/") + 1 :].rpartition(".")
    return dot + suffix.lower() if stem.lstrip(".") else ""


def _plain_suffix_of(name: str) -> str:
    """The extension of the `plain_name`."""
    suffix = _suffix_of(name)
    return _suffix_of(name[: -len(suffix)]) if suffix in _COMPRESSIONS else suffix


def format_of(name: str) -> Format | None:
    """What a file of this name holds; None where the name does not say."""
    return _FORMATS.get(_plain_suffix_of(name))


def compression_of(name: str) -> Compression | None:
    """How a file of this name is compressed, if it is."""
    return _COMPRESSIONS.get(_suffix_of(name))


def typed(command: str, path: str, compression: Compression | None) -> str:
    """A command about a file that can be typed as it stands, as a next step.

    Args:
        compression: what the file is compressed by, whatever its name says.
        command: ``{path} stands for the file, ``{read}`` for what writes its text to a pipe,
            ``{utf8}`` and ``{new}`` for new files of the same extension beside it.
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
    """Whether a file found below a directory is read: a usual kind, or one that was asked for.

    Args:
        name: its path below the directory.
        include: globs of names, or of paths below the directory where they hold a ``/``.
    """
    suffix = _plain_suffix_of(name)
    if suffix in _ALWAYS_TAKEN:
        return True
    if is_refused(name):
        return False
    usual = suffix in _DATA_SUFFIXES and not is_derived(name)
    return usual or is_included(name, include)


def is_source_code(name: str) -> bool:
    """Whether a file of this name is a program; .jl is Julia or JSON lines, as it begins."""
    suffix = _plain_suffix_of(name)
    return suffix in SOURCE_CODE and suffix != ".jl"


def is_about_datasets(name: str) -> bool:
    """Whether `datasets` keeps in a file of this name what it knows of the Arrow files there."""
    return _ABOUT_DATASETS.fullmatch(os.path.basename(name)) is not None


def is_derived(name: str) -> bool:
    """Whether a file of this name is a result that `datasets` keeps beside what it was made of."""
    return name.endswith(".arrow") and _DERIVED.fullmatch(os.path.basename(name)) is not None


def is_included(name: str, include: Sequence[str]) -> bool:
    """Whether one of these globs means a file, by its name or, with a ``/``, its path."""
    return any(
        fnmatch.fnmatchcase(name if "/" in glob else os.path.basename(name), glob)
        for glob in include
    )


def is_refused(name: str) -> bool:
    """Whether a file of this name cannot be read as anything."""
    return refusal_of(name) is not None


def refusal_of(path: str) -> tuple[str, str] | None:
    """Why a file of this name cannot be read, and what to do; None where it can."""
    suffix = _plain_suffix_of(path)
    if suffix in _REFUSED:
        return f"{suffix} files are not read", _REFUSED[suffix].format(path)
    if _FORMATS.get(suffix) in _COMPRESSED_WITHIN and (compression := compression_of(path)):
        return f"{suffix} files are not read as .{compression}", f"unpack it: {path}"
    return None


def names_its_extension(glob: str) -> bool:
    """Whether a glob says which extension its files have, as ``*.log`` does and ``*`` does not."""
    suffix = os.path.splitext(os.path.basename(glob))[1]
    return len(suffix) > 1 and not set(suffix) & set("*?[")


def split_of(path: str) -> str:
    """The part of a data set that a file of this path holds, ``train`` or ``test``; empty: none.

    Example:
        >>> split_of("news/test-00000-of-00004.parquet"), split_of("news/latest.parquet")
        ('test', '')
    """
    found = _OF_A_SPLIT.fullmatch(path.lower())
    return "" if found is None else found[1] or found[2]


def shown_kind(name: str) -> str:
    """What a skipped file is listed under: its extension, without that of a compression."""
    if is_derived(name):
        return f"{DERIVED} (of the datasets library)"
    suffix = os.path.splitext(plain_name(os.path.basename(name)))[1]
    whole = os.path.splitext(os.path.basename(name).lower())[1]
    return suffix or whole or "without an extension"


def other_than_text(head: bytes, *, named: bool = False) -> str:
    """What a file is that begins so, if it is not UTF-8 text: ``PNG``, ``binary``; else empty.

    Args:
        head: its first `HEAD_BYTES`, or more, or all there are.
        named: whether its name says that it is text; then UTF-8 is text, zero bytes included.
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
    """Whether what `other_than_text` found is text in another encoding."""
    return kind.startswith("UTF-")


def is_utf8(head: bytes) -> bool:
    """Whether a file that begins so may be UTF-8 text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _is_tar(head: bytes) -> bool:
    """Whether it begins with the header of a tar archive, whose bytes add up to what it says."""
    said = head[148:156].strip(b" \0")
    if len(head) < 512 or not re.fullmatch(rb"[0-7]+", said):
        return False
    return sum(head[:148]) + 8 * ord(" ") + sum(head[156:512]) == int(said, 8)


def _wide_encoding(head: bytes) -> str:
    """UTF-16 or UTF-32 without a byte order mark; empty: it is neither, or cannot be told."""
    for encoding, width, place in (
        ("UTF-32LE", 4, 3), ("UTF-32BE", 4, 0), ("UTF-16LE", 2, 1), ("UTF-16BE", 2, 0),
    ):  # fmt: skip
        high, low = head[place::width], head[width - 1 - place :: width]
        if len(head) % width or high.count(0) < 4 or 0 in low or len({*high}) > _MOST_HIGH_BYTES:
            continue
        with suppress(UnicodeDecodeError):
            text = {*codecs.getincrementaldecoder(encoding)().decode(head)} - {*"\t\n\v\f\r"}
            if not any(unicodedata.category(one) in ("Cc", "Cn", "Co") for one in text):
                return encoding
    return ""


def id_as_json(value: object) -> bytes:
    """A text or number; nothing for what names no document, such as a list."""
    return json.dumps(value).encode("ascii") if isinstance(value, str | int | float) else b""


def likely_field(field: str, texts: Mapping[str, object]) -> str:
    """The field that was meant by one that is not there; empty where that cannot be told.

    Args:
        texts: names of fields, with the text that a row has there, if that is known.
    """
    others = [name for name in texts if name != field]
    alike = [name for name in others if name.strip().casefold() == field.strip().casefold()]
    seen = [name for name in others if isinstance(texts[name], str)]
    longest = sorted(seen, key=lambda name: -len(str(texts[name])))
    usual = [name for name in others if name.casefold() in _USUAL]
    return next(iter(alike or longest or usual or others[: len(others) == 1]), "")


def advised_field(field: str, texts: Mapping[str, object]) -> str:
    """What to type where a field is not there; empty where that cannot be told; see above."""
    name = likely_field(field, texts)
    return f"type `--text-field {shlex.quote(name)}`" if name else ""


def without_text(record: Mapping[str, Any], field: str) -> str:
    """What is wrong with an object that has no text in a field, and which fields it has."""
    if record.get(field) is not None:
        return f"has something other than text in the field {field!r}"
    has = [repr(name) for name, value in record.items() if value is not None]
    return f"has no field {field!r}, but {', '.join(has[:_SHOWN]) or 'none'}"


def whole_number(digits: str) -> int | Decimal:
    """A number of JSON: Python makes an int of so many digits and no more."""
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def own_files(names: Collection[str], head: Callable[[str], bytes]) -> dict[str, str]:
    """What bpeline wrote in a directory, known by what its manifests and records say.

    Args:
        names: what lies in the directory.
        head: gives the first bytes of one of these.

    Returns:
        Name → what it is; the name "" stands for the whole directory.
    """
    for name, (says, kind) in _MARKS.items():
        if name in names and says.search(head(name)):
            return {"": kind}
    shards = {name: f"{match[1]}.json" for name in names if (match := _SHARD.fullmatch(name))}
    complete = {one for one in {*shards.values()} if one in names and _RECORD.search(head(one))}
    own = {name: f"token shards {OF_BPELINE}" for name, one in shards.items() if one in complete}
    for name in names:
        if name.endswith(_CERTIFIED) and _CERTIFICATE.search(head(name)):
            own[name.removesuffix(_CERTIFIED)] = f"export {OF_BPELINE}"
    return own


def tells_of_own_files(path: str) -> bool:
    """Whether a file of this name may say what bpeline wrote beside it."""
    name = path.rpartition("/")[2]
    return name.endswith(".json") and (
        name in _MARKS or name.endswith(_CERTIFIED) or bool(_SHARD.fullmatch(name))
    )


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """The files below directories, or matched by globs, that are not read.

    Attributes:
        kinds: extension, or what else is the reason → how many files.
        hidden: names that begin with a dot: left out on purpose, as globs do.
        about_datasets: descriptions that the library `datasets` keeps beside its files; likewise.
        example: one of the files, of the most frequent kind.
    """

    kinds: Mapping[str, int] = field(default_factory=dict)
    hidden: int = 0
    about_datasets: int = 0
    example: str = ""

    @property
    def number(self) -> int:
        """How many files are not read, beside those that are left out on purpose."""
        return sum(self.kinds.values())

    @property
    def remark(self) -> str:
        """One line for people, empty where nothing was skipped: ``skipped 3 files: 3 .png``."""
        found = [self._listed] if self.number else []
        if self.about_datasets:
            found.append(_several(self.about_datasets, "description", " of datasets"))
        if self.hidden:
            found.append(_several(self.hidden, "hidden name"))
        if not found:
            return ""
        *others, last = found
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
        """JSON values."""
        return {
            "files": self.number,
            "kinds": dict(self.kinds),
            "hidden": self.hidden,
            "about_datasets": self.about_datasets,
        }

    def refuse(self) -> None:
        """What ``--strict`` asks for."""
        if self.number:
            raise UnreadableSource(
                f"{self._listed} would not be read, such as {self.example}",
                "with --strict every file must be read, apart from hidden ones and descriptions of "
                f"datasets; accepted are {ACCEPTED}",
                "leave --strict out; or name the files that are meant; or read more kinds as text "
                "with --include '*.rst'",
            )


def _several(number: int, what: str, of: str = "") -> str:
    return f"{number:,} {what}{'s' * (number != 1)}{of}"


class Skipping:
    """Counts what is skipped while sources are searched; each file once, whoever meets it."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._hidden: set[str] = set()

    def skip(self, path: str, kind: str) -> None:
        """A file that is not read, and why."""
        self._kinds[path] = kind

    def hide(self, path: str) -> None:
        """A file or directory that is left out because of its name."""
        self._hidden.add(path)

    def add(self, others: Skipping) -> None:
        """What another search has skipped."""
        self._kinds |= others._kinds
        self._hidden |= others._hidden

    def summary(self, taken: set[str]) -> SkippedFiles:
        """What was skipped, apart from what another source took, perhaps by a link to it."""
        if self._kinds:
            taken = taken | {os.path.realpath(path) for path in taken if os.path.islink(path)}
        left = {path: kind for path, kind in self._kinds.items() if path not in taken}
        about = {path for path in left if is_about_datasets(path)}
        left = {path: kind for path, kind in left.items() if path not in about}
        kinds = Counter(left.values())
        most = max(kinds, key=lambda kind: (kinds[kind], kind), default="")
        example = min((path for path, kind in left.items() if kind == most), default="")
        return SkippedFiles(dict(kinds), len(self._hidden - taken), len(about), example)
