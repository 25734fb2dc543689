"""Answers of stores no longer than what was asked for, whichever library of fsspec asks.

Those libraries read an answer whole, as long as it may be, and all but a few read it by aiohttp:
there it is counted, for whoever is inside of `receiving` and for nobody else of the process. The
only file that imports aiohttp; knows no store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


class TooMuch(OSError):
    """A server sends more than it was asked for."""


@dataclass(slots=True)
class Allowance:
    """What may still come.

    Attributes:
        most: bytes in all.
        received: bytes that came.
    """

    most: int
    received: int = 0

    @property
    def exceeded(self) -> bool:
        """Whether more came."""
        return self.received > self.most

    def count(self, content: bytes) -> bytes:
        """The same content.

        Raises:
            TooMuch: it is more than may come.
        """
        self.received += len(content)
        if self.exceeded:
            raise TooMuch(f"more than {self.most:,} bytes")
        return content


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def receiving(most: int) -> Iterator[Allowance]:
    """Bound what the calls of this thread receive meanwhile, the tasks they start included."""
    _bind()
    allowance = Allowance(most)
    token = _allowance.set(allowance)
    try:
        yield allowance
    finally:
        _allowance.reset(token)


def _bind() -> None:
    """Let answers of aiohttp be counted; again changes nothing."""
    try:
        from aiohttp import ClientResponse
    except ImportError:
        return  # then no store here asks by it
    theirs = ClientResponse.start
    if getattr(theirs, "counts_ours", False):
        return

    async def start(self: Any, connection: Any) -> Any:
        begun = await theirs(self, connection)
        allowance = _allowance.get()
        if allowance is not None:
            self.content = _Counted(self.content, allowance)
        return begun

    start.counts_ours = True  # type: ignore[attr-defined]
    ClientResponse.start = start  # type: ignore[method-assign]


class _Counted:
    """The body of an answer, counted as it is read; all else is the body's own."""

    def __init__(self, body: Any, allowance: Allowance) -> None:
        self._body = body
        self._allowance = allowance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    async def read(self, size: int = -1) -> bytes:
        if size >= 0:
            return self._allowance.count(await self._body.read(size))
        parts = []
        while part := await self.readany():
            parts.append(part)
        return b"".join(parts)

    async def readany(self) -> bytes:
        return self._allowance.count(await self._body.readany())

    async def readchunk(self) -> tuple[bytes, bool]:
        part, ends = await self._body.readchunk()
        return self._allowance.count(part), ends

    async def iter_chunked(self, size: int) -> Any:
        while part := await self.read(size):
            yield part

    async def iter_any(self) -> Any:
        while part := await self.readany():
            yield part
