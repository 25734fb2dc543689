"""Which text goes into which shard, and in which pieces it is encoded; encodes and writes nothing.

Small files are whole in a shard together with others. A file larger than a shard is divided among
shards of its own, each ending where a document ends: at the first separator (or line, for JSON
lines) at or after the next multiple of the shard's size. A text file without a separator is one
document and so is never divided.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bpeline.tokenizer_core.corpus import (
    RECORD_END,
    ChunkText,
    Reading,
    SmallFiles,
    SourceFile,
    filled_up_to,
    first_cut,
    open_source,
    read_alike_together,
    read_documents,
)
from bpeline.tokenizer_core.splitting import Cuts
from bpeline.tokenizer_core.text import Text

_COMPRESSED_STEP = 2 << 20  # bytes of text in memory while shards are only counted
_GROWTH = 4  # what text of a compressed file is reckoned to be of its size on disk


@dataclass(frozen=True, slots=True)
class Piece:
    """What one thread encodes at a time.

    Attributes:
        file: where it stands.
        begin, end: bytes of the file's text; both are legal cuts.
        spent: bytes on disk that it stands for.
        unpacked: its bytes, when the file is compressed and they are known already.
        row_ids: what names its documents, see `SourceBytes.row_ids`.
        ends_file: whether the file's last document ends with it.
    """

    file: SourceFile
    begin: int
    end: int
    spent: int
    unpacked: Text | None = None
    ends_file: bool = False
    row_ids: Sequence[bytes] = ()

    def read(self, reading: Reading, id_field: str) -> ChunkText:
        """Its documents; arguments and errors as `read_documents`."""
        raw = self.unpacked
        if raw is None:
            with closing(open_source(self.file, 0)) as source:
                raw = source.take(self.begin, self.end)
        return read_documents(raw, self.file, self.begin, reading, id_field, self.row_ids)


AnyPiece: TypeAlias = Piece | SmallFiles


def plan_shards(
    files: Sequence[SourceFile], reading: Reading, shard_bytes: int
) -> Iterator[tuple[list[SourceFile], bool]]:
    """Runs of files in order, and whether it is one file that is to be divided."""
    run: list[SourceFile] = []
    size = 0
    for file in files:
        room = file.size * (_GROWTH if file.is_streamed else 1)
        divided = room > shard_bytes and _document_cuts(reading, file).possible
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
    """Some shards of a job that may be written by themselves.

    Attributes:
        number: of the first of them.
        files: which they are made of; exactly one when it is divided.
        divided: whether shards are parts of that file.
        begin, end: bytes of the divided file's text; both are where shards end. None is its end.
    """

    number: int
    files: tuple[SourceFile, ...]
    divided: bool
    begin: int = 0
    end: int | None = None


def plan_parts(
    files: Sequence[SourceFile], reading: Reading, shard_bytes: int
) -> Iterator[ShardPart]:
    """The parts of a job: a shard each, but all shards of a compressed file together.

    Of a plain file little is read. A compressed one is read to its end to know how many shards it
    makes, and again by whoever encodes it, who must begin at its beginning.
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
            for place, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
                yield ShardPart(number + place, (file,), True, begin, end)
        number += len(ends)


def shard_ends(file: SourceFile, reading: Reading, shard_bytes: int) -> list[int]:
    """Where the shards of a divided file end, in bytes of its text."""
    step = _COMPRESSED_STEP if file.is_streamed else shard_bytes
    ends = []
    with closing(FileCutter(file, reading, step)) as cutter:
        while not cutter.is_at_end:
            for _ in cutter.pieces(cutter.next_target(shard_bytes)):
                pass
            ends.append(cutter.position)
    return ends


def whole_files(
    files: Iterable[SourceFile], reading: Reading, piece_bytes: int, id_field: str
) -> Generator[Piece, None, None]:
    """The pieces of files, the last of which ends each; an empty file has one as well."""
    for file in files:
        if not file.is_streamed and file.size <= piece_bytes:
            yield Piece(file, 0, file.size, file.size, ends_file=True)
            continue
        with closing(FileCutter(file, reading, piece_bytes, id_field)) as cutter:
            yield from cutter.pieces(None)


def with_small_together(
    files: Iterable[SourceFile], reading: Reading, piece_bytes: int, id_field: str
) -> Generator[AnyPiece, None, None]:
    """The same, where `SmallFiles` stand for several files in a row of one piece each.

    They are read here, by who asks for what is next: one at a time.
    """
    if not read_alike_together(reading):
        yield from whole_files(files, reading, piece_bytes, id_field)
        return
    for small, run in itertools.groupby(files, SmallFiles.may_hold):
        if small:
            for together in filled_up_to(piece_bytes, run):
                yield SmallFiles.read(together, reading)
        else:
            yield from whole_files(run, reading, piece_bytes, id_field)


class FileCutter:
    """Cuts one file from its beginning to its end."""

    def __init__(
        self,
        file: SourceFile,
        reading: Reading,
        piece_bytes: int,
        id_field: str = "",
    ) -> None:
        self._file, self._id_field = file, id_field
        self._cuts = reading.quick_cuts(file.format)
        self._document_cuts = _document_cuts(reading, file)
        self._piece_bytes = piece_bytes
        self._source = open_source(file, self._cuts.behind, reading.text_field, id_field=id_field)
        self._spent = 0
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        return self._source.reach(self.position + 1) == self.position

    def next_target(self, shard_bytes: int) -> int:
        """Where the shard that begins here ends at the earliest."""
        return (self.position // shard_bytes + 1) * shard_bytes

    def pieces(self, target: int | None) -> Iterator[Piece]:
        """Pieces from here up to the first document end at or after ``target``, or of the file."""
        end = None
        while self.position != end:
            step = (self.position // self._piece_bytes + 1) * self._piece_bytes
            cut = first_cut(self._source, self._cuts, step)
            if end is None and target is not None and cut >= target:
                # Piece by piece: a compressed file without a separator would be in memory whole.
                found = first_cut(self._source, self._document_cuts, target, cut)
                end, target = (None, cut + 1) if found < 0 else (found, target)
            cut = cut if end is None else min(cut, end)
            begin, spent, self.position = self.position, self._spent, cut
            plain = not self._file.is_streamed
            unpacked = None if plain else self._source.take(begin, cut)
            row_ids = self._ids_of(unpacked)
            self._spent = self._source.spent(cut)
            last = self.is_at_end
            yield Piece(self._file, begin, cut, self._spent - spent, unpacked, last, row_ids)
            if last:
                return

    def skip(self, end: int) -> int:
        """Go on at ``end``; bytes on disk that were passed."""
        while self.position < end and self._file.is_streamed:
            step = min(self._source.reach(self.position + self._piece_bytes), end)
            if step == self.position:  # the file ends before
                break
            self._ids_of(self._source.take(self.position, step))
            self.position = step
        spent, self.position = self._spent, end
        self._spent = self._source.spent(end)
        return self._spent - spent

    def _ids_of(self, taken: Text | None) -> Sequence[bytes]:
        """What names the documents that were taken."""
        if taken is None or not self._id_field or not self._file.is_of_records:
            return ()
        rows = np.count_nonzero(taken.data[: taken.size] == RECORD_END[0])
        return self._source.row_ids(int(rows))

    def close(self) -> None:
        self._source.close()


def _document_cuts(reading: Reading, file: SourceFile) -> Cuts:
    """Where documents of a file end, and nowhere else."""
    if file.format != "text":
        return reading.cuts(file.format)
    return Cuts(special_tokens=reading.special_bytes)
