"""Files become token ids that are kept in memory, or only counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import SourceFile
from bpeline.tokenizer_core.kernels.memory.pages import reserved
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.shards.file_encoding import (
    AnyPiece,
    EncodedPiece,
    FileEncoding,
    encode_in_order,
    whole_files,
)
from bpeline.tokenizer_core.shards.shard_job import OpenShard

Pieces = Generator[AnyPiece, None, None]
Take = Callable[[Any, EncodedPiece], None]

_AHEAD = 4  # pieces per thread that are taken before it is their turn


def encode_in_turn(
    encoding: FileEncoding,
    pieces: Pieces,
    threads: int | None,
    take: Take,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Encode pieces by the thread that asks and others, and hand them over in their order.

    Args:
        encoding: how.
        pieces: what is encoded; closed in the end.
        threads: how many; by default one per available processor.
        take: called for each piece in order, by one thread at a time; the ids it is given are
            written again when it returns.
        on_progress: called by the thread that asks with how many more bytes of the files (on disk)
            are done.

    Raises:
        InvalidOption: less than one thread.
        UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read. Of several errors it is
            that of the first piece; pieces before it were handed over.
    """
    others = thread_count(threads) - 1
    work = _Work(encoding, pieces, take, _AHEAD * (others + 1))

    def tell() -> None:
        if on_progress is not None and (spent := work.spent_since()):
            on_progress(spent)

    with ThreadPoolExecutor(max(others, 1), thread_name_prefix="encode") as pool:
        try:
            running = [pool.submit(work.until_done) for _ in range(others)]
            while work.do_one():
                tell()
            for one in running:
                one.result()
        finally:
            work.stop()
    work.raise_first_error()
    tell()


class _Work:
    """Pieces that are taken by threads and handed over in order.

    The thread whose piece is next hands it over, without a lock: no other thread may. Then it hands
    over the pieces after it that others left as copies.
    """

    def __init__(self, encoding: FileEncoding, pieces: Pieces, take: Take, ahead: int) -> None:
        self._encoding = encoding
        self._pieces = pieces
        self._take = take
        self._ahead = ahead
        self._choosing = threading.Lock()  # may take long: where a file is decompressed
        self._changed = threading.Condition()  # guards what follows
        self._taken = 0  # pieces
        self._turn = 0  # the number of the next one to be handed over
        self._left: dict[int, tuple[AnyPiece, EncodedPiece]] = {}  # encoded before their turn
        self._errors: dict[int, BaseException] = {}  # by the number of the piece
        self._stopped = False
        self._spent = 0

    def until_done(self) -> None:
        while self.do_one():
            pass

    def do_one(self) -> bool:
        """Encode the next piece; False: there is none, or it is of no use any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken - self._turn < self._ahead or self._stopped)
        number = -1
        try:
            with self._choosing:
                number = self._taken
                piece = None if self._stopped else next(self._pieces, None)
                if self._stopped:  # by a second interruption, which did not wait for this
                    self._pieces.close()
                    return False
                if piece is None:
                    return False
                self._taken += 1
            with self._encoding.encoded(piece) as encoded:
                if self._is_turn_of(number):
                    self._take(piece, encoded)
                    self._hand_over_what_follows(piece)
                    return True
                kept = encoded.copied(self._encoding.dtype)
            self._leave(number, piece, kept)
        except BaseException as error:
            with self._changed:
                self._errors[number] = error
            self.stop()
            return False
        return True

    def stop(self) -> None:
        """Let no thread begin with another piece, and close them as soon as none takes one.

        A pool does not wait for a thread of its own that began when the caller was interrupted, nor
        for any when the caller is interrupted while it waits.
        """
        self._stopped = True
        with self._changed:
            self._changed.notify_all()
        with self._choosing:  # a generator that a thread is in cannot be closed by another
            self._pieces.close()

    def spent_since(self) -> int:
        """Bytes of the pieces handed over since the last call."""
        with self._changed:
            spent, self._spent = self._spent, 0
        return spent

    def raise_first_error(self) -> None:
        if self._errors:
            raise self._errors[min(self._errors)]

    def _is_turn_of(self, number: int) -> bool:
        with self._changed:
            return number == self._turn

    def _leave(self, number: int, piece: AnyPiece, kept: EncodedPiece) -> None:
        """Leave a piece to whoever hands over the one before; or hand it over, if that is done."""
        with self._changed:
            if number != self._turn:
                self._left[number] = piece, kept
                return
        self._take(piece, kept)
        self._hand_over_what_follows(piece)

    def _hand_over_what_follows(self, done: AnyPiece) -> None:
        while True:
            with self._changed:
                self._turn += 1
                self._spent += done.spent
                following = self._left.pop(self._turn, None)
                self._changed.notify_all()
            if following is None:
                return
            self._take(*following)
            done = following[0]


class DocumentIds(Sequence[NDArray[Any]]):
    """The ids of documents, one array for each; all of them lie in one.

    Attributes:
        ids: uint16 or uint32 ``[n]``: documents in the order in which they were read.
        edges: int64 ``[documents + 1]``: where documents begin in ``ids``, and the end.
    """

    def __init__(self, ids: NDArray[Any], edges: NDArray[np.int64]) -> None:
        self.ids = ids
        self.edges = edges

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.edges) - 1

    def __getitem__(self, number: Any) -> Any:
        """The ids of one document ``[n]``, without a copy; of a slice, a list of them."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        begin = range(len(self))[number]
        return self.ids[self.edges[begin] : self.edges[begin + 1]]


@dataclass(frozen=True, slots=True)
class FileCount:
    """What one file holds: ids (end-of-text ids too), documents, and bytes of their text."""

    path: str
    tokens: int
    documents: int
    bytes: int

    @property
    def bytes_per_token(self) -> float | None:
        """None where there is no token."""
        return self.bytes / self.tokens if self.tokens else None


def gather_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> DocumentIds:
    """Encode files on all processors and keep the ids.

    Args:
        encoding, files: what is encoded.
        threads: how many; by default one per available processor.
        on_progress: called with how many more bytes of the files (on disk) are done.
    """
    # NumPy copies while other threads go on; a bytearray would keep them waiting.
    dtype = np.dtype(encoding.dtype)
    gathered = reserved(sum(file.size for file in files), dtype)
    edges, size = bytearray(8), 0

    def add(ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        nonlocal gathered, size
        behind = size + len(ids)
        if behind > len(gathered):  # of compressed files
            larger = reserved(2 * behind, dtype)
            larger[:size] = gathered[:size]
            gathered = larger
        gathered[size:behind] = ids
        edges.extend(ends.view(np.uint8).data)
        size = behind

    piece_bytes = encoding.piece_of(sum(file.size for file in files), threads)
    shard = OpenShard(add, encoding)
    encode_in_turn(encoding, encoding.pieces(files, piece_bytes), threads, shard.add, on_progress)
    shard.close_document()
    return DocumentIds(gathered[:size], np.frombuffer(edges, np.int64))


def count_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[FileCount]:
    """Count files one after the other, in bounded memory; arguments and errors of `gather_files`.

    When a file cannot be read, the counts of the files before it have been given.
    """
    counted = OpenShard(_let_go, encoding)
    pieces = whole_files(files, encoding.reading, encoding.piece_bytes, encoding.id_field)
    with closing(encode_in_order(encoding, pieces, threads)) as encoded:
        for piece, ids in encoded:
            if on_progress is not None:
                on_progress(piece.spent)
            counted.add(piece, ids)
            if piece.ends_file:
                yield FileCount(piece.file.path, counted.tokens, counted.documents, counted.size)
                counted = OpenShard(_let_go, encoding)


def _let_go(ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
    pass
