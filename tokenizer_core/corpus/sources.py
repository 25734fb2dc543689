"""Which files a corpus consists of; finds and names them, never reads their content."""

from __future__ import annotations

import difflib
import glob
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from bpeline.tokenizer_core.errors import InvalidOption, MissingSource, UnreadableSource
from bpeline.tokenizer_core.remote_files import find_remote_files
from bpeline.tokenizer_core.urls import is_url, local_name

Format = Literal["text", "jsonl"]
Compression = Literal["gz", "zst"]

TEXT_SUFFIXES = (".txt", ".text", ".md", ".py")
_TAKEN_FROM_DIRECTORIES = (*TEXT_SUFFIXES, ".jsonl")
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst"}
# Names that cannot be text, and what to do about them; all others are read as text.
_REFUSED = {
    ".bz2": "bzip2 -dc {} | zstd > corpus.txt.zst",
    ".xz": "xz -dc {} | zstd > corpus.txt.zst",
    ".zip": "unzip -p {} | zstd > corpus.txt.zst",
    ".tar": "unpack it and name the directory instead",
    ".tgz": "unpack it and name the directory instead",
    **dict.fromkeys(
        (".parquet", ".arrow", ".feather", ".orc"),
        "write its text column as JSON lines (.jsonl) first, where a file that takes over the "
        "program reading it can do no harm",
    ),
}
# Why, where that is not plain: what a reader of these does with a hostile file, others have seen.
_REASONS = {
    ".parquet": "their decompressors have written where crafted files said (CVE-2026-111497)"
}
ACCEPTED = (
    "text files, .jsonl files, both also as .gz or .zst, directories of "
    + " ".join(_TAKEN_FROM_DIRECTORIES)
    + ", globs such as 'data/**/*.txt', and URLs of these such as s3://bucket/data/*.txt"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One part of a corpus: what to read, and how much it weighs.

    Attributes:
        pattern: a file, a directory or a glob (``**`` crosses directories), or a URL of these.
        name: how reports call it; empty means the pattern itself.
        weight: factor on its counts.
        language, domain: labels by which metrics can be sliced.
    """

    pattern: str
    name: str = ""
    weight: float = 1.0
    language: str | None = None
    domain: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.pattern


class FileState(NamedTuple):
    """What tells whether a file is the same, unchanged: everything that asks compares these.

    A program can set the size and the time of the last change of the content (``mtime``) back, but
    not the time of the last change of anything (``ctime``), nor which file it is (``inode``).
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """The state of a file, or of an open one, as the system tells it."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file as it was when it was found; reading it later refuses any other state.

    Attributes:
        path: absolute, as found (a symbolic link keeps its own name); or a URL.
        source: the label of the source that named it first.
        format: ``text``, or ``jsonl``: one JSON object on each line.
        compression: None, ``gz`` or ``zst``.
        size: bytes on disk.
        mtime_ns, ctime_ns, inode: from ``stat``. For a URL the last one is a fingerprint of what
            its store tells (an ETag, as a rule), and the others are 0.
    """

    path: str
    source: str
    format: Format
    compression: Compression | None
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def is_remote(self) -> bool:
        """Whether it lies in a store; all others have absolute paths."""
        return not os.path.isabs(self.path)

    @property
    def state(self) -> FileState:
        """What a file must still be for what is known of it to hold."""
        return FileState(self.size, self.mtime_ns, self.ctime_ns, self.inode)


AnyPath = str | bytes | os.PathLike[str] | Source


def sources_of(paths: AnyPath | Iterable[AnyPath]) -> list[Source]:
    """Sources from paths, globs and sources, or from a single one of them."""
    if isinstance(paths, str | bytes | os.PathLike | Source):
        paths = [paths]
    return [path if isinstance(path, Source) else Source(os.fsdecode(path)) for path in paths]


def find_source_files(sources: Sequence[Source]) -> list[SourceFile]:
    """The files of a corpus: in the order of the sources, sorted by path within each.

    A file named explicitly or by a glob is taken whatever its extension; directories are searched
    for .txt .text .md .py .jsonl (each also .gz and .zst), leaving out hidden names and links to
    directories. Each file is taken once, for the first source that names it, also when it has
    several names (hard links, symbolic links, overlapping globs).

    Raises:
        InvalidOption: no source at all, or one without a name.
        MissingSource: a source that names nothing; the message suggests similar names.
        UnreadableSource: a pipe, device or socket, a file that cannot be text by its name, or
            one that this user may not read.
    """
    if not sources or not all(source.pattern for source in sources):
        raise InvalidOption(
            "the name of a source is empty" if sources else "no source was given",
            f"at least one; accepted are {ACCEPTED}",
            "name a file",
        )
    found: dict[tuple[int | str, int], SourceFile] = {}
    for source in sources:
        pattern = source.pattern
        if "://" in pattern:  # a URL, unless it is a file of this machine that is spelt so
            pattern = local_name(pattern)
            if is_url(pattern):
                for file in _remote_files(source):
                    found.setdefault((file.path, 0), file)
                continue
        paths = sorted(set(_paths_of(pattern)))
        if not paths:
            raise _missing(pattern)
        for path in paths:
            status = _status_of_text(path)
            file = _source_file(path, source, *FileState.of(status))
            found.setdefault((status.st_dev, status.st_ino), file)
    return list(found.values())


def _paths_of(pattern: str) -> Iterator[str]:
    """Absolute paths of the files that a pattern means; nothing when there is no such file."""
    if os.path.lexists(pattern):
        named = [pattern]
    else:
        named = glob.glob(pattern, recursive=True) if glob.has_magic(pattern) else []
    for path in named:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            yield from _text_files_below(absolute)
        else:
            yield absolute


def _remote_files(source: Source) -> Iterator[SourceFile]:
    try:
        files = find_remote_files(source.pattern, _is_text_below)
    except OSError as error:
        raise UnreadableSource(
            f"{source.pattern} cannot be read: {error.strerror or error}",
            "files that these credentials may list and read, in a store that answers",
            "mend the URL or the credentials of its store, or run the same command again",
        ) from error
    if not files:
        raise MissingSource(
            f"no file matches {source.pattern}",
            f"accepted are {ACCEPTED}",
            "look at what its store holds, for s3:// with `aws s3 ls`",
        )
    for file in files:
        _refuse_by_name(file.url)
        # Where nothing tells whether a file has changed, it counts as changed the next time.
        known = secrets.randbits(63) if file.fingerprint is None else file.fingerprint
        yield _source_file(file.url, source, file.size, inode=known)


def _is_text_below(path: str) -> bool:
    hidden = any(part.startswith(".") for part in path.split("/"))
    return not hidden and _plain_name(path).endswith(_TAKEN_FROM_DIRECTORIES)


def _text_files_below(directory: str) -> Iterator[str]:
    for parent, directories, names in os.walk(directory, onerror=_refuse_directory):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and _plain_name(name).endswith(_TAKEN_FROM_DIRECTORIES):
                yield os.path.join(parent, name)


def _refuse_directory(error: OSError) -> None:
    raise UnreadableSource(
        f"the directory {error.filename} cannot be read: {error.strerror}",
        "every directory below a source must be readable",
        f"chmod u+rx {error.filename}",
    ) from error


def _plain_name(name: str) -> str:
    """The name in lower case, without the suffix of a compression."""
    lower = name.lower()
    stem, suffix = os.path.splitext(lower)
    return stem if suffix in _COMPRESSIONS else lower


def _status_of_text(path: str) -> os.stat_result:
    try:
        status = os.stat(path)
    except OSError as error:
        raise UnreadableSource(
            f"{path} cannot be read: {error.strerror}", f"accepted are {ACCEPTED}", f"ls -l {path}"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise not_a_regular_file(path, status.st_mode)
    _refuse_by_name(path)
    if not os.access(path, os.R_OK):
        raise UnreadableSource(
            f"{path} cannot be read: permission denied",
            "files that this user may read",
            f"chmod u+r {path}",
        )
    return status


def _refuse_by_name(path: str) -> None:
    suffix = os.path.splitext(_plain_name(path))[1]
    if suffix in _REFUSED:
        why = f": {_REASONS[suffix]}" if suffix in _REASONS else ""
        raise UnreadableSource(
            f"{path} is not text: {suffix} files are not read{why}",
            f"accepted are {ACCEPTED}",
            _REFUSED[suffix].format(path),
        )


def _source_file(
    path: str, source: Source, size: int, mtime_ns: int = 0, ctime_ns: int = 0, inode: int = 0
) -> SourceFile:
    return SourceFile(
        path=path,
        source=source.label,
        format="jsonl" if _plain_name(path).endswith(".jsonl") else "text",
        compression=_COMPRESSIONS.get(os.path.splitext(path.lower())[1]),
        size=size,
        mtime_ns=mtime_ns,
        ctime_ns=ctime_ns,
        inode=inode,
    )


def not_a_regular_file(path: str, mode: int) -> UnreadableSource:
    """The refusal of what may never end or never answer."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a directory"}
    return UnreadableSource(
        f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a regular file",
        f"accepted are {ACCEPTED}",
        "write the text to a file first: a corpus is read more than once",
    )


def _missing(pattern: str) -> MissingSource:
    if os.path.isdir(pattern):
        return MissingSource(
            f"the directory {pattern} holds no text",
            f"directories are searched for {' '.join(_TAKEN_FROM_DIRECTORIES)}, also .gz and .zst",
            f"name the files themselves if they are text: '{os.path.join(pattern, '*')}'",
        )
    parent = Path(pattern).parent
    while not os.path.isdir(parent) and parent != parent.parent:
        parent = parent.parent
    try:
        names = sorted(os.listdir(parent))
    except OSError:
        names = []
    wanted = os.path.relpath(pattern, parent).split(os.sep)[0]
    close = difflib.get_close_matches(wanted, names, 1, 0.6)
    return MissingSource(
        f"no file matches {pattern}",
        f"accepted are {ACCEPTED}",
        f"did you mean {parent / close[0]}?" if close else f"ls {parent}",
    )
