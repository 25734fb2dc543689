"""Pieces of work handed to threads in order: how files, texts and digests are counted at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeAlias, TypeVar

from bpeline.tokenizer_core.splitting import abandon_matching

P = TypeVar("P")
# Makes what one thread does with a piece and its number.
Start: TypeAlias = Callable[[], Callable[[int, P], object]]

_WAITING = 2  # pieces for each thread that may wait for it
_PATIENCE = 0.1  # seconds between two looks at whether another thread has failed


class WorkQueue:
    """Pieces that threads take in order; used for one run.

    Args:
        tell: called in the calling thread, several times a second.
    """

    def __init__(self, tell: Callable[[], None] | None = None) -> None:
        self._tell = tell
        self._ended: int | None = None  # pieces from this number on are not wanted
        self._errors: dict[int, Exception] = {}
        self._ending = threading.Lock()

    def run(
        self,
        pieces: Iterable[P],
        start: Start[P],
        threads: int,
        beside: Callable[[], None] | None = None,
    ) -> None:
        """Have all pieces done.

        Args:
            pieces: taken by the calling thread, a few before they are done.
            start: called once in each thread.
            beside: done by a further thread meanwhile.

        Raises:
            BaseException: the error of the first piece that had one; what ``pieces`` or ``tell``
                raises, or an interruption, once the pieces that are being done have ended.
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
                for one in running:
                    self._await(one)
            except BaseException:
                self._end(0)
                abandon_matching()
                raise
        if self._errors:
            raise self._errors[min(self._errors)]

    def wanted(self, number: int) -> bool:
        """Whether a piece is still wanted: none before it has failed."""
        return self._ended is None or number < self._ended

    def _hand_over(self, waiting: queue.Queue[Any], piece: Any) -> bool:
        """Put a piece where threads take them; False where one of them has failed."""
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
            # Pieces before one that failed were all taken before it.
            while self._ended is None:
                try:
                    taken = waiting.get(timeout=_PATIENCE)
                except queue.Empty:
                    continue
                if taken is None:
                    return
                try:
                    work(*taken)
                except Exception as error:
                    self._errors[taken[0]] = error
                    self._end(taken[0])
        except BaseException:
            self._end(0)
            raise

    def _end(self, number: int) -> None:
        with self._ending:
            self._ended = number if self._ended is None else min(self._ended, number)
