"""Hand pieces of work to threads in order, to count files, texts and digests."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeAlias, TypeVar

from bpeline.tokenizer_core.splitting import abandon_matching

P = TypeVar("P")
# Creates the function that one thread calls with the number of a piece and the piece.
Start: TypeAlias = Callable[[], Callable[[int, P], object]]

_WAITING = 2  # queued pieces per thread
_PATIENCE = 0.1  # seconds between checks for a failed thread


class WorkQueue:
    """Pieces that threads take in order, for one run; ``tell`` is called meanwhile."""

    def __init__(self, tell: Callable[[], None] | None = None) -> None:
        self._tell = tell
        self._ended: int | None = None  # pieces from this number on are dropped
        self._errors: dict[int, Exception] = {}
        self._ending = threading.Lock()

    def run(
        self,
        pieces: Iterable[P],
        start: Start[P],
        threads: int,
        beside: Callable[[], None] | None = None,
    ) -> None:
        """Process all pieces; ``beside`` is called in an additional thread.

        The calling thread consumes ``pieces``, a few ahead of the work. Raises the error of the
        first piece that failed; or what ``pieces`` or ``tell`` raises, or an interruption, after
        the current pieces have ended.
        """
        waiting: queue.Queue[tuple[int, P] | None] = queue.Queue(_WAITING * threads)
        with ThreadPoolExecutor(threads + 1, thread_name_prefix="count") as pool:
            try:
                running = [pool.submit(self._work, waiting, start) for _ in range(threads)]
                if beside is not None:
                    running.append(pool.submit(beside))
                for numbered in enumerate(pieces):
                    if not self._hand_over(waiting, numbered):
                        break
                for _ in range(threads):
                    self._hand_over(waiting, None)
                for future in running:
                    self._await(future)
            except BaseException:
                self._end(0)
                abandon_matching()
                raise
        if self._errors:
            raise self._errors[min(self._errors)]

    def wanted(self, number: int) -> bool:
        """Whether no piece before this one has failed."""
        return self._ended is None or number < self._ended

    def _hand_over(self, waiting: queue.Queue[Any], piece: Any) -> bool:
        """Put a piece in the queue; False if a thread has failed."""
        while self._ended is None:
            try:
                waiting.put(piece, timeout=_PATIENCE)
                return True
            except queue.Full:
                if self._tell is not None:
                    self._tell()
        return False

    def _await(self, running: Future[None]) -> None:
        while self._tell is not None and wait([running], _PATIENCE).not_done:
            self._tell()
        running.result()

    def _work(self, waiting: queue.Queue[tuple[int, P] | None], start: Start[P]) -> None:
        try:
            work = start()
            # All pieces before a failed one were taken before it.
            while self._ended is None:
                try:
                    numbered = waiting.get(timeout=_PATIENCE)
                except queue.Empty:
                    continue
                if numbered is None:
                    return
                try:
                    work(*numbered)
                except Exception as error:
                    self._errors[numbered[0]] = error
                    self._end(numbered[0])
        except BaseException:
            self._end(0)
            raise

    def _end(self, number: int) -> None:
        with self._ending:
            self._ended = number if self._ended is None else min(self._ended, number)
