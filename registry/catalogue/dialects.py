"""How a transaction begins on SQLite and on PostgreSQL, so that the catalogue need not know.

Speaks to connections it is given; which database there is, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpeline.registry.catalogue.database_errors import LOCK_SECONDS

_BUSY_MILLISECONDS = LOCK_SECONDS * 1000
# Writers of a catalogue take turns. Any number, as long as it stays.
TURN_TO_WRITE = 0x6270656C696E65
TURN_TO_MOVE = TURN_TO_WRITE + 1
# A server that has vanished is noticed within a minute; libpq's own defaults take hours.
_PATIENT_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "bpeline",
}


def connection_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """What libpq is told beside the settings that a URL gives."""
    return {name: value for name, value in _PATIENT_CONNECTION.items() if name not in given}


def prepare_sqlite(connection: Any, _record: Any) -> None:
    """Set up a new connection to a file."""
    connection.isolation_level = None  # transactions begin below, not in the driver
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    # No write-ahead log: the SQLite that many Pythons carry can corrupt it when it is reset
    # (mended in 3.51.3), and this catalogue writes a few rows a minute.
    cursor.execute("PRAGMA journal_mode=DELETE")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def begin_sqlite(connection: Any) -> None:
    """Begin a transaction on a file."""
    # A transaction that will write takes its lock at once: one that begins by reading could not
    # be made to wait later, only refused.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def begin_postgresql(connection: Any) -> None:
    """Begin a transaction on a server: the driver has said BEGIN, a writer waits for its turn."""
    # What BEGIN IMMEDIATE is there: one writer at a time, the others wait. READ COMMITTED, so that
    # every statement behind the lock sees what the writer before has left. SERIALIZABLE would also
    # be right, but has writers that meet do their work again and again.
    if not connection.get_execution_options().get("reading", False):
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = {_BUSY_MILLISECONDS}; "
            f"SELECT pg_advisory_xact_lock({TURN_TO_WRITE})"
        )


def try_to_move(connection: Any) -> bool:
    """Take a server's turn to move aliases, which ends with this transaction; False if taken."""
    query = f"SELECT pg_try_advisory_xact_lock({TURN_TO_MOVE})"
    return bool(connection.exec_driver_sql(query).scalar())
