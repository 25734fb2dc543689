"""Find the files of a corpus from the paths, globs and URLs of its sources."""

from __future__ import annotations

import difflib
import errno
import functools
import glob
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bpeline.tokenizer_core.corpus import file_kinds
from bpeline.tokenizer_core.corpus.file_kinds import (
    ACCEPTED,
    HEAD_BYTES,
    Compression,
    Format,
    SkippedFiles,
    Skipping,
)
from bpeline.tokenizer_core.corpus.first_look import content_of, other_content
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource, UnreadableSource
from bpeline.tokenizer_core.remote_files import RemoteFile, find_remote_files, read_range
from bpeline.tokenizer_core.urls import is_url, local_name

_STANDARD_INPUT = "-"
_READABLE = 0o444  # by all users: no need to check permissions


@dataclass(frozen=True, slots=True)
class Source:
    """A named path, glob or URL of a corpus, with its weight.

    Attributes:
        pattern: a file, a directory or a glob (``**`` crosses directories), or a URL of these.
        name: label in reports; empty means the pattern.
        weight: factor on its counts.
        language, domain: labels for slicing metrics.
        include: globs of file names, such as ``*.rst``, to read as text besides the usual types
            where directories and globs are searched; with a ``/``, of paths.
        of_counts: whether its Parquet files hold words and counts instead of texts.
    """

    pattern: str
    name: str = ""
    weight: float = 1.0
    language: str | None = None
    domain: str | None = None
    include: tuple[str, ...] = ()
    of_counts: bool = False

    @property
    def label(self) -> str:
        return self.name or self.pattern


class FileState(NamedTuple):
    """The properties of a file that are compared to detect changes.

    A program can reset the size and the time of the last content change (``mtime``), but not the
    time of the last change of any kind (``ctime``) or the ``inode``.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file as it was found; reading it later fails if it has changed.

    Attributes:
        path: absolute, as found (a symbolic link keeps its own name); or a URL.
        source: the label of the first source that named it.
        format: ``text``; ``jsonl``: a JSON object on each line; a format of records; or
            ``counts``: a Parquet file of words and counts.
        size: bytes on disk.
        mtime_ns, ctime_ns, inode: from ``stat``. For a URL, ``inode`` is a fingerprint of what the
            store reports (usually an ETag), and the others are 0.
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
        """Whether it is in an object store; local files have absolute paths."""
        return not self.path.startswith("/")

    @property
    def is_streamed(self) -> bool:
        """Whether it is read from its beginning, with positions in its content."""
        return self.compression is not None or self.is_of_records

    @property
    def is_of_records(self) -> bool:
        """Whether its content is records, each followed by `RECORD_END`."""
        return self.format not in ("text", "jsonl")

    @property
    def has_parts(self) -> bool:
        """Whether parts of it can be read although it is streamed."""
        return self.format in ("parquet", "counts") and not self.is_remote

    @property
    def was_text_once(self) -> bool:
        """Whether earlier releases read it as text, so their counts do not apply."""
        name = file_kinds.plain_name(self.path)
        by_content = file_kinds.format_of(name) is None and self.format != "text"
        return by_content or name.endswith((".ndjson", ".jsonlines"))

    @property
    def state(self) -> FileState:
        return FileState(self.size, self.mtime_ns, self.ctime_ns, self.inode)


AnyPath = str | bytes | os.PathLike[str] | Source


def sources_of(paths: AnyPath | Iterable[AnyPath]) -> list[Source]:
    """Return sources for paths, globs and sources, or for a single one of them."""
    if isinstance(paths, str | bytes | os.PathLike | Source):
        paths = [paths]
    items = list(paths) if isinstance(paths, Iterable) else [paths]
    for item in items:
        if not isinstance(item, str | bytes | os.PathLike | Source):
            raise InvalidOption(
                f"{item!r} is not a path",
                "expected paths, globs and URLs",
                'count_words("corpus.txt")',
            )
    return [path if isinstance(path, Source) else Source(os.fsdecode(path)) for path in items]


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a corpus, and the files that are not read.

    ``shared`` maps the label of a source and that of an earlier one to the number of files that
    both name; they belong to the earlier one.
    """

    files: tuple[SourceFile, ...]
    skipped: SkippedFiles
    shared: Mapping[tuple[str, str], int] = field(default_factory=dict)


def find_source_files(sources: Sequence[Source]) -> list[SourceFile]:
    """`search_sources` without the report of skipped files."""
    return list(search_sources(sources).files)


def search_sources(sources: Sequence[Source]) -> FoundFiles:
    """Find the files of a corpus, in the order of sources, sorted by path within each.

    A named file is read by its extension; without a known one it is text, unless its first bytes
    are not. Directories are searched for .txt .text .md .py, source code (`SOURCE_CODE`) and .jsonl
    (each also compressed), .parquet .arrow .feather and `Source.include`; links to directories are
    not followed. Globs without an extension (``data/*``) match the same files, and files without an
    extension. Source code, included files and files without an extension must begin like text.
    Other files and hidden names are skipped and counted. A file with several names (hard links,
    symbolic links, overlapping globs) is read once, for the first source that names it.

    Raises:
        InvalidOption: no source, or one with an empty pattern.
        MissingSource: a source that matches nothing; the message suggests similar names.
        UnreadableSource: a pipe, device or socket, a named file that is not text, or a file that
            this user may not read.
    """
    skipping = Skipping()
    files, shared = _searched(sources, skipping)
    return FoundFiles(files, skipping.summary({file.path for file in files}), shared)


def search_each(
    searches: Iterable[Sequence[Source]],
) -> tuple[list[tuple[SourceFile, ...]], SkippedFiles]:
    """Run several searches, so that a file may be in more than one of them.

    Returns the files of each search, and the skipped files that no search reads.
    """
    skipping = Skipping()
    found = [_searched(sources, skipping)[0] for sources in searches]
    return found, skipping.summary({file.path for files in found for file in files})


def _searched(
    sources: Sequence[Source], skipping: Skipping
) -> tuple[tuple[SourceFile, ...], dict[tuple[str, str], int]]:
    if not sources or not all(source.pattern for source in sources):
        raise InvalidOption(
            "the name of a source is empty" if sources else "no source was given",
            f"expected at least one source: {ACCEPTED}",
            "name a file",
        )
    files: dict[tuple[int | str, int], SourceFile] = {}
    shared: dict[tuple[str, str], set[tuple[int | str, int]]] = {}

    def take(key: tuple[int | str, int], file: SourceFile) -> None:
        owner = files.setdefault(key, file).source
        if owner != file.source:
            shared.setdefault((file.source, owner), set()).add(key)

    for source in sources:
        pattern = source.pattern
        if "://" in pattern:  # a URL, or a local file with such a name
            pattern = local_name(pattern)
            if is_url(pattern):
                for file in _remote_files(source, skipping):
                    take((file.path, 0), file)
                continue
        skipped = Skipping()
        try:
            paths = sorted(set(_paths_of(pattern, source.include, skipped)))
        except (_PathTooLongError, RecursionError) as error:  # glob and, before 3.12, walk recurse
            is_directory = os.path.isdir(pattern)
            top = pattern if is_directory else os.path.dirname(pattern.partition("*")[0]) or "."
            raise UnreadableSource(
                f"{pattern} cannot be searched: its directories are nested too deeply",
                "expected paths of at most 4,096 bytes and fewer than 900 nested directories",
                f"type `find {shlex.quote(top)} -mindepth 15 -maxdepth 15` to see where",
            ) from error
        if not paths:
            raise _missing(pattern, skipped.summary(set()))
        for path, format in paths:
            status = _status_of_text(path)
            file = _source_file(path, format, source, *FileState.of(status))
            take((status.st_dev, status.st_ino), file)
        skipping.add(skipped)
    return tuple(files.values()), {both: len(keys) for both, keys in shared.items()}


def _paths_of(
    pattern: str, include: tuple[str, ...], skipping: Skipping
) -> Iterator[tuple[str, Format]]:
    """Yield the absolute paths that a pattern matches, and their formats."""
    if os.path.lexists(pattern):
        absolute = os.path.abspath(pattern)
        if os.path.isdir(absolute):
            yield from _text_files_below(absolute, include, skipping, is_named=True)
        else:
            format, kind = content_of(absolute, include, _reader_of(absolute))
            if kind and not file_kinds.is_refused(absolute):
                raise other_content(absolute, "", kind)
            yield absolute, format
        return
    if not glob.has_magic(pattern):
        return
    named = file_kinds.names_its_extension(pattern)
    base = pattern
    while glob.has_magic(base):
        base = os.path.dirname(base)
    own = functools.cache(_own_files)
    for path in glob.glob(pattern, recursive=True):
        absolute = os.path.abspath(path)
        if _is_own(absolute, os.path.abspath(base), own, skipping):
            continue
        if os.path.isdir(absolute):
            yield from _text_files_below(absolute, include, skipping)
        elif _is_taken_from_glob(absolute, named, include, skipping):
            yield from _if_text(absolute, include, skipping)


def _is_own(path: str, base: str, own: Callable[[str], dict[str, str]], skipping: Skipping) -> bool:
    """Skip a file if bpeline wrote it, or a directory between it and ``base``."""
    match = "", ""
    while path not in (base, "/", ""):
        parent, name = os.path.split(path)
        if kind := own(parent).get(name):
            match = path, kind
        if parent != base and (kind := own(parent).get("")):
            match = parent, kind
        path = parent
    if match[1]:
        skipping.skip(*match)
    return bool(match[1])


def _own_files(directory: str) -> dict[str, str]:
    try:
        names = set(os.listdir(directory))
    except OSError:  # not listable, but its files may be readable
        return {}
    return file_kinds.own_files(
        names, lambda name: _reader_of(os.path.join(directory, name))(HEAD_BYTES)
    )


def _is_taken_from_glob(
    path: str, named: bool, include: tuple[str, ...], skipping: Skipping
) -> bool:
    has_extension = bool(os.path.splitext(file_kinds.plain_name(os.path.basename(path)))[1])
    is_wanted = (
        file_kinds.is_taken_from_directories(path, include)
        or named
        or file_kinds.is_included(path, include)
    )
    if not file_kinds.is_refused(path) and (is_wanted or not has_extension):
        return True
    if os.path.lexists(path) and not os.path.isfile(path):
        return True  # the caller raises an error
    skipping.skip(path, file_kinds.shown_kind(path))
    return False


def _if_text(
    path: str, include: tuple[str, ...], skipping: Skipping
) -> Iterator[tuple[str, Format]]:
    """Yield a file if its name or its first bytes show that it can be read."""
    format, kind = content_of(path, include, _reader_of(path))
    if kind:
        skipping.skip(path, f"{file_kinds.shown_kind(path)} ({kind})")
    else:
        yield path, format


def _reader_of(path: str) -> Callable[[int], bytes]:
    """Return a function that reads the first bytes of a file, or none if it fails."""

    def read(size: int) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(descriptor, size) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    return read


def _remote_files(source: Source, skipping: Skipping) -> Iterator[SourceFile]:
    local_skips = Skipping()

    def is_wanted(below: str) -> bool:
        if any(part.startswith(".") for part in below.split("/")):
            local_skips.hide(below)
            return False
        wanted = file_kinds.is_taken_from_directories(below, source.include)
        if not wanted:
            local_skips.skip(below, file_kinds.shown_kind(below))
        return wanted or file_kinds.tells_of_own_files(below)

    try:
        files = _not_own(find_remote_files(source.pattern, is_wanted), source, local_skips)
        formats = {file: _remote_format(file, source, local_skips) for file in files}
    except OSError as error:
        raise UnreadableSource(
            f"{source.pattern} cannot be read: {error.strerror or error}",
            "expected a store that responds, and credentials that may list and read files",
            "fix the URL or the credentials, or run the same command again",
        ) from error
    wanted = [(file, format) for file, format in formats.items() if format is not None]
    if not wanted:
        skipped = local_skips.summary(set()).remark
        raise MissingSource(
            f"no file matches {source.pattern}{f': {skipped}' if skipped else ''}",
            f"expected {ACCEPTED}",
            "list the files of the store, for s3:// with `aws s3 ls`",
        )
    skipping.add(local_skips)
    for file, format in wanted:
        _refuse_by_name(file.url)
        # Without a fingerprint, the file counts as changed next time.
        fingerprint = secrets.randbits(63) if file.fingerprint is None else file.fingerprint
        yield _source_file(file.url, format, source, file.size, inode=fingerprint)


def _not_own(files: list[RemoteFile], source: Source, skipping: Skipping) -> list[RemoteFile]:
    """Return the files of a store that bpeline did not write."""
    if len(files) == 1:  # named directly, or the only one
        return files
    there = {file.url: file for file in files}
    names: dict[str, list[str]] = {}
    for url in there:
        names.setdefault(os.path.dirname(url), []).append(os.path.basename(url))

    @functools.cache
    def own(directory: str) -> dict[str, str]:
        here = names.get(directory, ())
        return file_kinds.own_files(
            here, lambda name: _head_of(there[f"{directory}/{name}"], HEAD_BYTES)
        )

    left = (file for file in files if not _is_own(file.url, "", own, skipping))
    include = source.include
    return [
        remote
        for remote in left
        if not file_kinds.tells_of_own_files(remote.url)
        or file_kinds.is_included(remote.url, include)
    ]


def _head_of(file: RemoteFile, size: int) -> bytes:
    return read_range(file.url, 0, min(file.size, size)) if file.size else b""


def _remote_format(file: RemoteFile, source: Source, skipping: Skipping) -> Format | None:
    """Return the format of a file of a store; None if it is not read."""
    is_named = os.path.basename(file.url) == os.path.basename(source.pattern)
    if not is_named and glob.has_magic(source.pattern):
        named = file_kinds.names_its_extension(source.pattern)
        if not _is_taken_from_glob(file.url, named, source.include, skipping):
            return None

    format, kind = content_of(file.url, source.include, functools.partial(_head_of, file))
    if kind and is_named and not file_kinds.is_refused(file.url):
        raise other_content(file.url, "", kind)
    if kind and not is_named:
        skipping.skip(file.url, f"{file_kinds.shown_kind(file.url)} ({kind})")
        return None
    return format


def _text_files_below(
    directory: str, include: tuple[str, ...], skipping: Skipping, *, is_named: bool = False
) -> Iterator[tuple[str, Format]]:
    below = len(os.path.join(directory, ""))
    for parent, directories, names in os.walk(directory, onerror=_refuse_directory):
        walked = []
        own = _own_files(parent)
        if "" in own and not (is_named and parent == directory):
            skipping.skip(parent, own[""])
            names, directories[:] = [], []
        for name in directories:
            path = os.path.join(parent, name)
            if name.startswith("."):
                skipping.hide(path)
            elif name in own:
                skipping.skip(path, own[name])
            elif os.path.islink(path):
                skipping.skip(path, "links to directories")
            else:
                walked.append(name)
        directories[:] = walked
        for name in names:
            path = os.path.join(parent, name)
            if name.startswith("."):
                skipping.hide(path)
            elif name in own:
                skipping.skip(path, own[name])
            elif not file_kinds.is_taken_from_directories(path[below:], include):
                skipping.skip(path, file_kinds.shown_kind(path))
            else:
                yield from _if_text(path, include, skipping)


class _PathTooLongError(Exception):
    """The path of a directory is too long to open it."""


def _refuse_directory(error: OSError) -> None:
    if error.errno == errno.ENAMETOOLONG:
        raise _PathTooLongError from error
    path = shlex.quote(str(error.filename))
    raise UnreadableSource(
        f"the directory {error.filename} cannot be read: {error.strerror}",
        "expected every directory below a source to be readable",
        f"chmod u+rx {path}" if error.errno == errno.EACCES else f"ls -ld {path}",
    ) from error


def _status_of_text(path: str) -> os.stat_result:
    try:
        status = os.stat(path)
    except OSError as error:
        raise UnreadableSource(
            f"{path} cannot be read: {error.strerror}",
            f"expected {ACCEPTED}",
            f"ls -l {shlex.quote(path)}",
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise not_a_regular_file(path, status.st_mode)
    _refuse_by_name(path)
    if status.st_mode & _READABLE != _READABLE and not os.access(path, os.R_OK):
        raise UnreadableSource(
            f"{path} cannot be read: permission denied",
            "expected a file that you may read",
            f"chmod u+r {shlex.quote(path)}",
        )
    if not status.st_size and _reader_of(path)(1):
        raise UnreadableSource(
            f"the size of {path} is unknown until it is read, as for files in /proc",
            f"expected {ACCEPTED}",
            "write the text to a file first: a corpus is read more than once",
        )
    return status


def _refuse_by_name(path: str) -> None:
    if (refusal := file_kinds.refusal_of(path)) is not None:
        why, advice = refusal
        raise UnreadableSource(f"{path} is not text: {why}", f"expected {ACCEPTED}", advice)


def _source_file(
    path: str,
    format: Format,
    source: Source,
    size: int,
    mtime_ns: int = 0,
    ctime_ns: int = 0,
    inode: int = 0,
) -> SourceFile:
    if source.of_counts:
        if format != "parquet":
            raise UnreadableSource(
                f"{path} is not a Parquet file",
                "expected word counts as Parquet, with a column of words and one of counts",
                "write it with DuckDB's `COPY … TO 'words.parquet'`, or with WordCounts.to_arrow",
            )
        format = "counts"
    compression = file_kinds.compression_of(path)
    state = size, mtime_ns, ctime_ns, inode
    return SourceFile(path, source.label, format, compression, *state)


def not_a_regular_file(path: str, mode: int) -> UnreadableSource:
    """Return the error for a pipe, socket, device or directory."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a directory"}
    return UnreadableSource(
        f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a regular file",
        f"expected {ACCEPTED}",
        "write the text to a file first: a corpus is read more than once",
    )


def _missing(pattern: str, skipped: SkippedFiles) -> MissingSource:
    if os.path.basename(pattern) == _STANDARD_INPUT and not os.path.isdir(pattern):
        return MissingSource(
            "standard input (-) is not a source, and no file has this name",
            "expected files: a corpus is read more than once, and again when a run is resumed or a "
            "version is verified",
            "write it to a file first, `… > corpus.txt` (JSON lines: `… > corpus.jsonl`), and name "
            "corpus.txt instead of -",
        )
    if os.path.isdir(pattern) or skipped.number:
        where = f"the directory {pattern}" if os.path.isdir(pattern) else pattern
        what = f": {skipped.remark}" if skipped.remark else ""
        kind = os.path.splitext(skipped.example)[1] or ".txt"
        if max(skipped.kinds, key=skipped.kinds.__getitem__, default="").endswith(
            file_kinds.OF_BPELINE
        ):
            kind = ".txt"
        return MissingSource(
            f"{where} holds no text{what}",
            f"directories are searched for {file_kinds.SEARCHED_FOR}, also compressed",
            f"name text files by their extension: '{os.path.join(pattern, '*' + kind)}'"
            if os.path.isdir(pattern)
            else f"if they are text, name the files, or add --include '*{kind}'",
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
        f"expected {ACCEPTED}",
        f"did you mean {parent / close[0]}?" if close else f"ls {shlex.quote(str(parent))}",
    )
