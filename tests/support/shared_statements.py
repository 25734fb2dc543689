"""SQL compiled once for all SQLite databases of a process, of which tests open some hundreds.

SQLAlchemy keeps what it compiled for each database apart; knows no table and no statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_STATEMENTS = 5_000


@contextmanager
def compiled_once() -> Iterator[None]:
    """Let every SQLite database that is opened from now on take what another one compiled."""
    from sqlalchemy.dialects.sqlite.base import SQLiteDialect
    from sqlalchemy.engine import Engine
    from sqlalchemy.util import LRUCache

    compiled: LRUCache[Any, Any] = LRUCache(MOST_STATEMENTS)
    begin = Engine.__init__
    equality, hashing = SQLiteDialect.__eq__, SQLiteDialect.__hash__

    def begun(self: Engine, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        if isinstance(self.dialect, SQLiteDialect):
            self._compiled_cache = compiled

    Engine.__init__ = begun  # type: ignore[method-assign]
    # A compiled statement is found by its dialect too: that of SQLite is always the same.
    SQLiteDialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign, assignment]
    SQLiteDialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Engine.__init__ = begin  # type: ignore[method-assign]
        SQLiteDialect.__eq__, SQLiteDialect.__hash__ = equality, hashing  # type: ignore[method-assign]
