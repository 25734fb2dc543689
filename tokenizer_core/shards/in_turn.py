"""Pieces of files become token ids, and whoever made some hands them over when it is their turn.

For ids that are only put where they belong, which no thread of its own need do: `encode_in_order`
is for those that are written. Knows no shard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.shards.file_encoding import EncodedPiece, FileEncoding
from bpeline.tokenizer_core.shards.shard_plan import AnyPiece

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
        on_progress: told how many more bytes of the files (on disk) are done, by the thread that
            asks.

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

    The thread whose piece is the next one hands it over, without a lock: nobody else may. Then it
    hands over those behind it that others left, and were copied.
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
        self._left: dict[int, tuple[AnyPiece, EncodedPiece]] = {}  # by who had no turn
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

        A pool does not wait for a thread of its own that began when who asked was interrupted, nor
        for any when who asked is interrupted while it waits.
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
