"""Encode files to token ids in memory, or only count them."""

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

_AHEAD = 4  # pieces per thread to encode ahead of their turn


def encode_in_turn(
    encoding: FileEncoding,
    pieces: Pieces,
    threads: int | None,
    take: Take,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Encode pieces in the calling thread and others, delivered in order.

    Args:
        pieces: closed at the end.
        take: called for each piece in order, by one thread at a time; the ids are valid until it
            returns.
        on_progress: called in the calling thread with how many more bytes on disk are done.

    Raises:
        UnreadableSource, InvalidUtf8, CorpusChanged: of the first piece that failed; all pieces
            before it were handed over.
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
            for future in running:
                future.result()
        finally:
            work.stop()
    work.raise_first_error()
    tell()


class _Work:
    """Pieces that threads take, and that are handed over in order.

    The thread with the next piece hands it over, without a lock: no other thread may. Then it hands
    over the pieces after it that other threads left as copies.
    """

    def __init__(self, encoding: FileEncoding, pieces: Pieces, take: Take, ahead: int) -> None:
        self._encoding = encoding
        self._pieces = pieces
        self._take = take
        self._ahead = ahead
        self._choosing = threading.Lock()  # may be held long, while a file is decompressed
        self._changed = threading.Condition()  # guards the fields below
        self._taken = 0  # number of pieces
        self._turn = 0  # number of the next piece to hand over
        self._left: dict[int, tuple[AnyPiece, EncodedPiece]] = {}  # encoded before their turn
        self._errors: dict[int, BaseException] = {}  # by the number of the piece
        self._stopped = False
        self._spent = 0

    def until_done(self) -> None:
        while self.do_one():
            pass

    def do_one(self) -> bool:
        """Encode the next piece; False if there is none, or work was stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken - self._turn < self._ahead or self._stopped)
        number = -1
        try:
            with self._choosing:
                number = self._taken
                piece = None if self._stopped else next(self._pieces, None)
                if self._stopped:  # by a second interruption that did not wait
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
        """Begin no more pieces, and close them as soon as no thread takes one.

        Needed because an interrupted pool does not wait for its threads.
        """
        self._stopped = True
        with self._changed:
            self._changed.notify_all()
        with self._choosing:  # a generator cannot be closed while another thread runs it
            self._pieces.close()

    def spent_since(self) -> int:
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
        """Leave a piece to the thread with the one before; hand it over if it is next."""
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
    """The ids of documents, a view for each document of one array.

    Attributes:
        ids: uint16 or uint32 ``[n]``: documents in the order in which they were read.
        edges: int64 ``[documents + 1]``: where documents begin in ``ids``, and the end.
    """

    def __init__(self, ids: NDArray[Any], edges: NDArray[np.int64]) -> None:
        self.ids = ids
        self.edges = edges

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.edges) - 1

    def __getitem__(self, number: Any) -> Any:
        """Return the ids of one document ``[n]``, or a list of these for a slice."""
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        begin = range(len(self))[number]
        return self.ids[self.edges[begin] : self.edges[begin + 1]]


@dataclass(frozen=True, slots=True)
class FileCount:
    """Counts of a file: ids (with end-of-text ids), documents, bytes of their text."""

    path: str
    tokens: int
    documents: int
    bytes: int

    @property
    def bytes_per_token(self) -> float | None:
        """None if there is no token."""
        return self.bytes / self.tokens if self.tokens else None


def gather_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> DocumentIds:
    """Encode files on all processors and keep the ids in memory.

    ``on_progress`` is called with how many more bytes of the files (on disk) are done.
    """
    # NumPy copies without the interpreter lock; a bytearray would hold it.
    dtype = np.dtype(encoding.dtype)
    gathered = reserved(sum(file.size for file in files), dtype)
    edges, size = bytearray(8), 0

    def add(ids: NDArray[Any], ends: NDArray[np.int64]) -> None:
        nonlocal gathered, size
        new_size = size + len(ids)
        if new_size > len(gathered):  # files were compressed
            larger = reserved(2 * new_size, dtype)
            larger[:size] = gathered[:size]
            gathered = larger
        gathered[size:new_size] = ids
        edges.extend(ends.view(np.uint8).data)
        size = new_size

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
    """Count files one after the other, in bounded memory; arguments as `gather_files`."""
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
