"""Where MLflow looks for files after its database was moved, or copied, along with them.

Its tables name every folder from the root of the disk: after a move MLflow would write to the old
place and find nothing, and after a copy it would change, and remove, the files of the other one.
Knows the columns that hold such addresses; refuses to know what lies there.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bpeline.registry.tracking.mlflow_database import connect
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError

_ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def follow_artifacts(database: Path, artifacts: str | None) -> str:
    """Put a database's addresses right where the folder that it lies beside is another now.

    Args:
        database: a complete one.
        artifacts: where new experiments have their files; nothing is done unless that is a folder
            beside the database.

    Returns:
        What people should know of it; mostly nothing.

    Raises:
        StorageError: the addresses cannot be written; nothing was changed.
    """
    now = _folder(artifacts or "")
    if now is None or not now.is_dir() or now.parent != Path(os.path.realpath(database.parent)):
        return ""
    try:
        with closing(connect(database, "ro")) as connection:
            earlier = _earlier_places(connection, now)
        if not (earlier and DURABLE.is_changeable(database)):
            return ""
        with closing(connect(database, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for place in earlier:
                _rewrite(connection, place, now.as_uri())
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_READONLY"):
            return ""  # who cannot write here can change no file by it either
        raise StorageError(
            f"{database} was moved, and what it says of its files cannot be put right: {error}",
            "a database that this user may write, and nobody else writes meanwhile",
            "type the same command again",
        ) from error
    return f"{' and '.join(earlier)} is {now.as_uri()} now, and MLflow looks for its files there"


def _earlier_places(connection: sqlite3.Connection, now: Path) -> list[str]:
    """Where experiments say their folders are whose folders are here, the same name below it."""
    places: list[str] = []
    for name, address in connection.execute("SELECT name, artifact_location FROM experiments"):
        place = str(address).removesuffix(f"/{name}")
        folder = None if place == address or place in places else _folder(place)
        if folder is None or folder.name != now.name or not (now / str(name)).is_dir():
            continue
        if not _is_same(folder, now):  # by another path, as in a container
            places.append(place)
    return places


def _rewrite(connection: sqlite3.Connection, place: str, now: str) -> None:
    for table, column in _ADDRESSES:
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
            f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (now, len(place) + 1, place, len(place) + 1, f"{place}/"),
        )


def _folder(address: str) -> Path | None:
    """The folder of this disk that an address names; None for others."""
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" and not parts.netloc else None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:  # one is not there
        return False
