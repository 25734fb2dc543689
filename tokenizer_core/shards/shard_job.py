"""Encode files to token shards, in bounded memory, resumed where it stopped.

One thread plans pieces and writes shards in order; others read and encode pieces ahead of it.
Small files share a shard. A file larger than a shard is divided among shards of its own, each of
which ends at the first separator (or line, for JSON lines) at or after a multiple of the shard
size. A text file without a separator is one document and is never divided.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import parse_json, read_bounded
from bpeline.tokenizer_core.corpus import (
    ReadOptions,
    SmallFiles,
    SourceFile,
)
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer, MissingSource
from bpeline.tokenizer_core.shards.file_encoding import (
    AnyPiece,
    EncodedPiece,
    FileCutter,
    FileEncoding,
    document_cuts,
    encode_in_order,
)
from bpeline.tokenizer_core.shards.shard_formats import ShardFormat, ShardWriter
from bpeline.tokenizer_core.shards.shard_places import (
    FileRecord,
    ShardPlace,
    ShardRecord,
    read_manifest,
)
from bpeline.tokenizer_core.shards.token_shards import (
    INDEX_SUFFIXES,
    INDEX_VERSION,
    SOURCES_BYTES,
    SOURCES_SUFFIX,
    IndexWriter,
    TokenShards,
)

_COMPRESSED_STEP = 2 << 20  # bytes of text in memory while shards are only counted
_GROWTH = 4  # estimated size of a compressed file's text, relative to its size on disk

_MOST_READ = 256  # removed shards whose files are listed; in a store each takes a request

SHARD_BYTES = 256 << 20
# File, spans and ids of its next documents: see `IndexWriter.add`, `RowWriter.name`.
PlaceDocuments = Callable[[SourceFile, NDArray[np.int64], Sequence[bytes]], None]


def plan_shards(
    files: Sequence[SourceFile], reading: ReadOptions, shard_bytes: int
) -> Iterator[tuple[list[SourceFile], bool]]:
    """Yield runs of files in order, and whether it is one file to divide."""
    run: list[SourceFile] = []
    size = 0
    for file in files:
        room = file.size * (_GROWTH if file.is_streamed else 1)
        divided = room > shard_bytes and document_cuts(reading, file).possible
        if run and (divided or size + room > shard_bytes):
            yield run, False
            run, size = [], 0
        if divided:
            yield [file], True
        else:
            run.append(file)
            size += room
    if run:
        yield run, False


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Shards of a job that can be written separately.

    Attributes:
        number: of the first shard.
        divided: whether the shards are parts of one file.
        begin, end: bytes of the divided file's text, where shards end; None is its end.
    """

    number: int
    files: tuple[SourceFile, ...]
    divided: bool
    begin: int = 0
    end: int | None = None


def plan_parts(
    files: Sequence[SourceFile], reading: ReadOptions, shard_bytes: int
) -> Iterator[ShardPart]:
    """Yield the parts of a job: a shard each, or all shards of a compressed file.

    Reads little of a plain file. A compressed file is read from its beginning twice, to count its
    shards and to encode it.
    """
    number = 0
    for run, divided in plan_shards(files, reading, shard_bytes):
        if not divided:
            yield ShardPart(number, tuple(run), False)
            number += 1
            continue
        (file,) = run
        ends = shard_ends(file, reading, shard_bytes)
        if file.is_streamed:
            yield ShardPart(number, (file,), True)
        else:
            for place, (begin, end) in enumerate(pairwise([0, *ends])):
                yield ShardPart(number + place, (file,), True, begin, end)
        number += len(ends)


def shard_ends(file: SourceFile, reading: ReadOptions, shard_bytes: int) -> list[int]:
    """Return where the shards of a divided file end, in bytes of its text."""
    step = _COMPRESSED_STEP if file.is_streamed else shard_bytes
    ends = []
    with closing(FileCutter(file, reading, step)) as cutter:
        while not cutter.is_at_end:
            for _ in cutter.pieces(cutter.next_target(shard_bytes)):
                pass
            ends.append(cutter.position)
    return ends


@dataclass(frozen=True, slots=True)
class EarlierShards:
    """Shards with a manifest; ``records`` has the valid ones."""

    place: ShardPlace
    tokenizer: str
    packed: bool
    records: tuple[ShardRecord, ...]

    @classmethod
    def at(cls, place: ShardPlace) -> EarlierShards | None:
        """Return the shards at a place; None without a manifest."""
        try:
            manifest = read_manifest(place)
        except MissingSource:
            return None
        shards = manifest.get("shards")
        records = map(ShardRecord.of, shards if isinstance(shards, list) else [])
        return cls(
            place,
            str(manifest["tokenizer"]),
            "packed" in manifest,
            tuple(record for record in records if record is not None),
        )

    def require_the_same(self, tokenizer: str, named: Set[str]) -> None:
        """Raise `InvalidOption` if a job would replace other tokens than its own."""
        place = self.place.location
        if self.tokenizer != tokenizer:
            raise InvalidOption(
                f"{place} holds the tokens of another tokenizer, {self.tokenizer[:12]}",
                f"expected an empty directory, or tokens of this tokenizer, {tokenizer[:12]}",
                "choose another directory",
            )
        if self.packed:
            raise InvalidOption(
                f"{place} holds packed sequences",
                "expected an empty directory, or the documents of the same files",
                "choose another directory",
            )
        other = ""
        for path in self._paths(self.records):
            if path is None or path in named:
                return
            other = path
        if other:
            raise InvalidOption(
                f"{place} holds only tokens of other files, such as {other}",
                "expected an empty directory, or tokens of at least one of these files",
                "choose another directory, name all files, or remove this directory",
            )

    def say_what_is_gone(self, records: Iterable[ShardRecord], named: Set[str]) -> None:
        """Warn of files whose tokens are in none of the new ``records``."""
        names = {record.name for record in records}
        removed = [record for record in self.records if record.name not in names]
        paths = {path for path in self._paths(removed[:_MOST_READ]) if path is not None}
        paths -= named
        if paths:
            first = ", ".join(sorted(paths)[:3])
            warnings.warn(
                f"tokens of files no longer named are removed from {self.place.location}: "
                f"{first}{' and others' if len(paths) > 3 else ''}",
                stacklevel=2,
            )

    def _paths(self, records: Sequence[ShardRecord]) -> Iterator[str | None]:
        """Yield the paths of the files in shards; None where they are unknown."""
        for record in records:
            names = [file.name for file in record.files if file.name.endswith(SOURCES_SUFFIX)]
            if not names:  # a format version without an index
                yield None
            for name in names:
                try:
                    lines = read_bounded(self.place.path(name), SOURCES_BYTES).splitlines()
                    paths = [str(parse_json(line)["path"]) for line in lines]
                except (MissingSource, InvalidTokenizer, ValueError, KeyError, TypeError):
                    yield None
                else:
                    yield from paths
                self.place.forget(name)


@dataclass(frozen=True, slots=True)
class _Begin:
    """The following pieces belong to this shard."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class ShardJob:
    """Files to encode into a directory.

    Attributes:
        encoding: its dtype is replaced by the choice of the format.
        shard_bytes: bytes of files in a shard; documents stay whole.
        on_progress: called with bytes on disk that are done.
    """

    encoding: FileEncoding
    files: Sequence[SourceFile]
    place: ShardPlace
    format: ShardFormat
    shard_bytes: int = SHARD_BYTES
    on_shard: Callable[[ShardRecord], None] | None = None
    on_progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        if self.encoding.id_count:
            chosen = self.format.dtype(self.encoding.id_count)
            object.__setattr__(self, "encoding", replace(self.encoding, dtype=chosen))

    def run(self, threads: int | None) -> TokenShards:
        """Write all shards that do not exist yet, then the manifest.

        Finished shards stay if an error is raised.

        Raises:
            InvalidOption: the directory holds tokens of another tokenizer, or only of other files.
            WorkspaceLocked: another process writes there.
            UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read.
        """
        piece_bytes = self.encoding.piece_of(sum(file.size for file in self.files), threads)
        return self._publish(lambda: self._write(self._steps(piece_bytes), threads))

    def run_by_parts(
        self, write: Callable[[Sequence[ShardPart]], list[list[ShardRecord]]]
    ) -> TokenShards:
        """`run` with a function that writes the parts, for example on other machines.

        ``write`` calls `write_part` of an equal job with every part and returns the results in
        order.
        """

        def written() -> list[ShardRecord]:
            parts = list(plan_parts(self.files, self.encoding.reading, self.shard_bytes))
            records = [record for part in write(parts) for record in part]
            if self.on_shard is not None:
                for record in records:
                    self.on_shard(record)
            return records

        return self._publish(written)

    def write_part(self, part: ShardPart, threads: int | None) -> list[ShardRecord]:
        """Write the shards of one part that do not exist yet; raises as `run`.

        Processes may write different parts of a job at the same time.
        """
        piece_bytes = self.encoding.piece_of(sum(file.size for file in part.files), threads)
        return self._write(self._part(part, piece_bytes), threads)

    def _publish(self, written: Callable[[], list[ShardRecord]]) -> TokenShards:
        """Lock the directory, have all shards written, then write the manifest."""
        if self.shard_bytes < 1:
            raise InvalidOption(
                f"shard_bytes is {self.shard_bytes}", "expected 1 or more", "leave out shard_bytes"
            )
        earlier, named = EarlierShards.at(self.place), {file.path for file in self.files}
        if earlier is not None:
            earlier.require_the_same(self.encoding.digest, named)
        with self.place.alone():
            about = {
                "tokenizer": self.encoding.digest,
                "shard_format": self.format.name,
                "document_index": INDEX_VERSION,
                "dtype": self.encoding.dtype,
                "id_count": self.encoding.id_count,
                "special_tokens": dict(self.encoding.special_tokens),
                **self.encoding.settings,
                "files": len(self.files),
                "shard_bytes": self.shard_bytes,
            }
            records = written()
            if earlier is not None:
                earlier.say_what_is_gone(records, named)
            self.place.publish_manifest(about, records)
        return TokenShards(self.place.location, self.format)

    def _write(self, steps: Iterator[Any], threads: int | None) -> list[ShardRecord]:
        with closing(encode_in_order(self.encoding, steps, threads)) as encoded:
            return list(self._written(encoded))

    def _steps(self, piece_bytes: int) -> Iterator[Any]:
        """Yield what is to be done, in order.

        For a new shard: `_Begin`, its pieces, and the byte of the divided file where it ends (0 for
        whole files). For an existing shard: its record and the bytes on disk it stands for.
        """
        number = 0
        for files, divided in plan_shards(self.files, self.encoding.reading, self.shard_bytes):
            number = yield from self._part(ShardPart(number, tuple(files), divided), piece_bytes)

    def _part(self, part: ShardPart, piece_bytes: int) -> Generator[Any, None, int]:
        """Yield the steps of one part; return the number of the next shard."""
        reading = self.encoding.reading
        number = part.number
        if not part.divided:
            key = self.encoding.key(part.files, self.format.name)
            existing = self.place.finished(_name(number, key), key)
            if existing is not None:
                yield existing, sum(file.size for file in part.files)
            else:
                yield _Begin(_name(number, key), key)
                yield from self.encoding.pieces(part.files, piece_bytes)
                yield 0
            return number + 1
        id_field = self.encoding.id_field
        with closing(FileCutter(part.files[0], reading, piece_bytes, id_field)) as cutter:
            if part.begin:
                cutter.skip(part.begin)
            while not cutter.is_at_end and (part.end is None or cutter.position < part.end):
                key = self.encoding.key(
                    part.files, self.format.name, cutter.position, self.shard_bytes
                )
                existing = self.place.finished(_name(number, key), key)
                if existing is not None and existing.end > cutter.position:
                    yield existing, cutter.skip(existing.end)
                else:
                    yield _Begin(_name(number, key), key)
                    yield from cutter.pieces(cutter.next_target(self.shard_bytes))
                    yield cutter.position
                number += 1
        return number

    def _written(self, steps: Iterator[Any]) -> Iterator[ShardRecord]:
        """Carry out steps; yield the record of each shard when its files are published.

        A separate thread publishes, which waits for the disk, while the next shard is written.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="publish") as publishing:
            last: Future[ShardRecord] | None = None
            for step in steps:
                if isinstance(step, _Begin):
                    publish = self._write_shard(step, steps)
                else:
                    record, spent = step
                    publish = partial(_as_it_is, record)
                    self._say(spent)
                # Before the wait: this shard is published even if the one before fails.
                before, last = last, publishing.submit(publish)
                if before is not None:
                    yield self._told(before.result())
            if last is not None:
                yield self._told(last.result())

    def _told(self, record: ShardRecord) -> ShardRecord:
        if self.on_shard is not None:
            self.on_shard(record)
        return record

    def _write_shard(self, begin: _Begin, steps: Iterator[Any]) -> Callable[[], ShardRecord]:
        """Write the files of one shard aside; return the function that publishes them."""
        suffixes = self.format.suffixes
        folder = self.place.folder
        paths = [folder / f"{begin.name}{suffix}" for suffix in (*suffixes, *INDEX_SUFFIXES)]
        with ExitStack() as publishing:
            aside = [publishing.enter_context(DURABLE.writing_aside(path)) for path in paths]
            of_ids, of_index = aside[: len(suffixes)], aside[len(suffixes) :]
            with (
                closing(IndexWriter(of_index, self.encoding.reading.text_field)) as index,
                self._writing(of_ids, index) as (writer, place),
            ):
                shard = OpenShard(writer.add, self.encoding, place)
                for step in steps:
                    if isinstance(step, int):
                        break
                    piece, encoded = step
                    shard.add(piece, encoded)
                    self._say(piece.spent)
                shard.close_document()
            unpublished = publishing.pop_all()
        counts = shard.tokens, shard.documents, shard.size

        def publish() -> ShardRecord:
            with unpublished:
                digests = [*writer.digests(of_ids), *index.digests()]
                files = tuple(
                    FileRecord(path.name, new.stat().st_size, digest)
                    for new, path, digest in zip(aside, paths, digests, strict=True)
                )
            record = ShardRecord(begin.name, begin.key, step, *counts, files)
            self.place.publish(record)
            return record

        return publish

    @contextmanager
    def _writing(
        self, paths: Sequence[Path], index: IndexWriter
    ) -> Iterator[tuple[ShardWriter, PlaceDocuments]]:
        """Yield the writer of ids, and the function that records documents."""
        dtype = self.encoding.dtype
        if self.format.write_rows is None:
            with closing(self.format.write(paths, dtype)) as writer:
                yield writer, index.add
            return
        with closing(self.format.write_rows(paths, dtype)) as of_rows:

            def place(file: SourceFile, spans: NDArray[np.int64], ids: Sequence[bytes]) -> None:
                index.add(file, spans, ids)
                of_rows.name(ids, len(spans))

            yield of_rows, place

    def _say(self, spent: int) -> None:
        if self.on_progress is not None:
            self.on_progress(spent)


def _as_it_is(record: ShardRecord) -> ShardRecord:
    return record


class OpenShard:
    """Writes ids to a shard, and ends documents that come in several pieces.

    ``write`` is `ShardWriter.add` or a substitute; ``place`` records the places of documents.
    """

    def __init__(
        self,
        write: Callable[[NDArray[Any], NDArray[np.int64]], None],
        encoding: FileEncoding,
        place: PlaceDocuments | None = None,
    ) -> None:
        self.tokens = self.documents = self.size = 0
        self._write = write
        self._place = place
        self._file: SourceFile | None = None
        self._span: tuple[int, int] | None = None  # of the open document, so far
        self._begin = 0  # of the open document
        end = encoding.end_of_text
        self._end_of_text = np.array([end] if end >= 0 else [], encoding.dtype)

    def add(self, piece: AnyPiece, encoded: EncodedPiece) -> None:
        self.size += encoded.size
        if isinstance(piece, SmallFiles):
            self._add_together(piece, encoded)
            return
        self._file = piece.file
        begin, end = encoded.head_span
        self._span = (begin if self._span is None else self._span[0], end)
        self._append(encoded.head)
        if encoded.closes_head:
            self.close_document()
        if self._place is not None:
            self._place(piece.file, encoded.spans, encoded.row_ids)
        self._append(encoded.ids, encoded.ends)
        if encoded.tail_span is not None:
            self._span = encoded.tail_span
        if piece.ends_file:
            self.close_document()

    def _add_together(self, small: SmallFiles, encoded: EncodedPiece) -> None:
        if self._place is not None:
            edges = np.searchsorted(encoded.spans[:, 0], small.edges[:, 0])
            documents = pairwise([*edges.tolist(), len(encoded.spans)])
            begins = small.edges[:, 0].tolist()
            for file, begin, (first, end) in zip(small.files, begins, documents, strict=True):
                self._place(file, encoded.spans[first:end] - begin, ())
        self._append(encoded.ids, encoded.ends)

    def close_document(self) -> None:
        """End the open document, unless it is empty."""
        if self.tokens > self._begin:
            if self._place is not None:
                assert self._file is not None
                self._place(self._file, np.array([self._span], np.int64), ())
            length = len(self._end_of_text)
            self._append(self._end_of_text, np.array([length], np.int64))
        self._span = None

    def _append(self, ids: NDArray[Any], ends: NDArray[np.int64] | None = None) -> None:
        if ends is None:
            ends = np.empty(0, np.int64)
        ends = ends + self.tokens
        if len(ids) or len(ends):
            self._write(ids, ends)
        self.tokens += len(ids)
        self.documents += len(ends)
        self._begin = int(ends[-1]) if len(ends) else self._begin


def _name(number: int, key: str) -> str:
    return f"shard-{number:05d}-{key[:12]}"
