"""``words.duckdb`` written as a whole: what an earlier file holds, and what is added to it.

Nobody knows the file while it is written; `registry.querying.words_database` gives it its name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.closed_duckdb import (
    READ_SINCE,
    connect,
    library,
    raise_if_interrupted,
    settle,
)
from bpeline.registry.loading import ResolvedVersion, load_version
from bpeline.registry.querying import part_rows
from bpeline.registry.querying.contents import Contents, Part, Row
from bpeline.registry.querying.layout import COMMENTS, FORMAT, LAYOUT, PART_TABLES
from bpeline.registry.querying.words_file import held_in, log_of, quoted, settings
from bpeline.registry.word_counts import WordCountStore, reader_of
from bpeline.registry.workspace import damaged
from bpeline.tokenizer_core.errors import DiskFull, StorageError
from bpeline.tokenizer_core.evaluation import MadeTokens

if TYPE_CHECKING:
    from bpeline.registry.versions import ListedVersion
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.tokenizer import Tokenizer

# A word that is no UTF-8, which only foreign counts hold, is told by its bytes: \xE2\x80.
_WORD = "coalesce(try(decode(word)), word::VARCHAR)"
_INSERTS = {
    "token_rows": "id, bytes, try(decode(bytes)), special = 1, nullif(rank, -1), "
    "CASE WHEN rank >= 0 THEN [left_id, right_id] END",
    "merge_rows": "rank, left_id, right_id, id",
    "word_rows": f"{_WORD}, count, first_position",
    "split_rows": f"{_WORD}, count, len(ids), ids",
    "use_rows": "id, count, made, words",
    "slice_rows": "id, count",
}


def make(
    contents: Contents,
    needed: set[Part],
    earlier: Path,
    path: Path,
    spill: Path,
    on_adding: Callable[[str], None],
) -> None:
    """Write a whole file.

    Args:
        contents: what there is.
        needed: what it shall hold.
        earlier: a file whose parts it shall hold too, as far as they are parts of versions; or
            where none is.
        path: where it is written; nothing is there.
        spill: a directory for DuckDB.
        on_adding: told what is added, before it is computed.

    Raises:
        CorruptFile: word counts or files of a version are damaged.
        DiskFull: no space left.
        StorageError: DuckDB cannot finish.
    """
    names = contents.names()
    wanted = {(one.part.kind, one.part.key) for one in names}
    # Found out before anything is written: what is asked while it is written may be newer.
    versions, runs = contents.fingerprint, contents.fingerprint_of_runs
    held = held_in(earlier, spill)
    keep = held is not None and held.parts.keys() <= wanted
    if keep:
        shutil.copyfile(earlier, path)
    with _writing(path, spill) as connection:
        numbers: dict[tuple[str, str], int] = {}
        if held is not None and keep:
            numbers.update(held.parts)
        else:
            connection.execute(LAYOUT)
            for table, comment in COMMENTS.items():
                connection.execute(f"COMMENT ON TABLE {table} IS '{comment}'")
            if held is not None:
                still = {part: at for part, at in held.parts.items() if part in wanted}
                _take_over(connection, earlier, still)
                numbers.update(still)
        _add_parts(connection, contents, needed, numbers, on_adding)
        for table in ("versions", "sources", "chunks", "runs"):
            connection.execute(f"DELETE FROM {table}")
            _fill(connection, table, getattr(contents, table)())
        connection.execute("DELETE FROM stored.names")
        found = [
            (one.kind, one.name, one.source, numbers[one.part.kind, one.part.key])
            for one in names
            if (one.part.kind, one.part.key) in numbers
        ]
        columns = ("kind", "name", "of_source", "part")
        _fill(connection, "stored.names", [dict(zip(columns, row, strict=True)) for row in found])
        connection.execute("DELETE FROM stored.state")
        connection.execute("INSERT INTO stored.state VALUES (?, ?, ?)", [FORMAT, versions, runs])


@contextmanager
def _writing(path: Path, spill: Path) -> Iterator[Any]:
    """A connection that writes a file which nobody else knows; it is whole when this ends."""
    duckdb = library()
    try:
        # With files: it reads the file that was there before.
        connection = connect(path, {**settings(spill), **READ_SINCE}, files=True)
        try:
            settle(connection)
            yield connection
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
    except duckdb.Error as error:
        raise_if_interrupted(error)
        reason = str(error).splitlines()[0]
        if "No space left" in reason or "max_temp_directory_size" in reason:
            raise DiskFull(
                f"no space left while making {path.name}: {reason}",
                "what is stored elsewhere in the workspace is untouched",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"DuckDB could not make {path.name}: {reason}",
            "what is stored elsewhere in the workspace is untouched",
            "run the same command again; if it happens again, report it",
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise
    if log_of(path).exists():
        raise StorageError(
            f"DuckDB left {log_of(path).name} behind",
            "a finished file has no write-ahead log",
            "run the same command again",
        )


def _take_over(connection: Any, earlier: Path, parts: dict[tuple[str, str], int]) -> None:
    """Copy some parts of an earlier file, with their numbers."""
    connection.execute(f"ATTACH {quoted(earlier)} AS earlier (READ_ONLY)")
    for (kind, key), part in sorted(parts.items(), key=lambda one: one[1]):
        connection.execute("INSERT INTO stored.parts VALUES (?, ?, ?)", [part, kind, key])
        for table in PART_TABLES[kind]:
            connection.execute(
                f"INSERT INTO stored.{table} SELECT * FROM earlier.stored.{table} "
                f"WHERE part = {part:d}"
            )
    connection.execute("DETACH earlier")


def _add_parts(
    connection: Any,
    contents: Contents,
    needed: set[Part],
    numbers: dict[tuple[str, str], int],
    on_adding: Callable[[str], None],
) -> None:
    """Add what is needed and not there yet."""
    missing = [one for one in needed if (one.kind, one.key) not in numbers]
    sources = _Sources(contents)
    for part in sorted(missing, key=lambda one: (one.digest, one.table, one.kind)):
        on_adding(sources.described(part))
        number = max(numbers.values(), default=0) + 1
        for table, batches in sources.rows_of(part).items():
            _insert(connection, table, number, batches)
        row = [number, part.kind, part.key]
        connection.execute("INSERT INTO stored.parts VALUES (?, ?, ?)", row)
        numbers[part.kind, part.key] = number


class _Sources:
    """Tokenizers and words while parts are made of them; one of each is in memory at a time."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._store = WordCountStore(contents.registry.workspace)
        self._tokenizer: tuple[str, Tokenizer] | None = None
        self._words: tuple[str, WordCounts] | None = None

    def described(self, part: Part) -> str:
        """What a part is, for people."""
        version = self._version_of(part.digest).reference if part.digest else ""
        if part.kind == "tokens":
            return f"tokens and merges of {version}"
        words = f"{len(self._words_of(part.table)):,} words"
        kinds = {"words": words, "splits": f"splits of {words} by {version}"}
        return kinds.get(part.kind, f"tokens of {version} in {words} of a source")

    def rows_of(self, part: Part) -> dict[str, Sequence[Any] | Iterator[Any]]:
        """Table → the batches of a part."""
        if part.kind == "tokens":
            tokenizer = self._tokenizer_of(part.digest)
            return {
                "token_rows": [part_rows.token_rows(tokenizer)],
                "merge_rows": [part_rows.merge_rows(tokenizer)],
            }
        words = self._words_of(part.table)
        if part.kind == "words":
            return {"word_rows": [part_rows.word_rows(words)]}
        tokenizer = self._tokenizer_of(part.digest)
        if part.kind == "slice":
            return {"slice_rows": [part_rows.slice_rows(tokenizer, words)]}
        made = MadeTokens.of(tokenizer, words)
        return {
            "split_rows": part_rows.split_rows(words, made),
            "use_rows": [part_rows.use_rows(tokenizer, words, made)],
        }

    def _tokenizer_of(self, digest: str) -> Tokenizer:
        if self._tokenizer is None or self._tokenizer[0] != digest:
            version = self._version_of(digest)
            found = ResolvedVersion(version.name, version.number, digest, version.mlflow_run_id)
            self._tokenizer = digest, load_version(self._contents.registry, found)
        return self._tokenizer[1]

    def _version_of(self, digest: str) -> ListedVersion:
        return self._contents.by_digest[digest]

    def _words_of(self, key: str) -> WordCounts:
        if self._words is None or self._words[0] != key:
            handle = self._store.table(key)
            if handle is None:
                raise damaged(self._store.workspace.table(key))
            self._words = key, self._store.open_table(handle)
        return self._words[1]


def _insert(connection: Any, table: str, part: int, batches: Sequence[Any] | Iterator[Any]) -> None:
    connection.register("rows", reader_of(iter(batches)))
    connection.execute(f"INSERT INTO stored.{table} SELECT {part:d}, {_INSERTS[table]} FROM rows")
    connection.unregister("rows")


def _fill(connection: Any, table: str, rows: list[Row]) -> None:
    """Insert rows of JSON values; what a row leaves out is NULL."""
    kinds = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}
    nested = {name for name, kind in kinds.items() if kind == "JSON" or kind[-1] in "])"}
    structure = {name: "JSON" if name in nested else "VARCHAR" for name in kinds}
    columns = ", ".join(f"row.{name}::{kind}" for name, kind in kinds.items())
    # A path that is no UTF-8 has surrogates in it, which no JSON has.
    text = json.dumps(rows, ensure_ascii=False).encode(errors="backslashreplace").decode()
    connection.execute(
        f"INSERT INTO {table} SELECT {columns} FROM "
        f"(SELECT unnest(from_json(?, '[{json.dumps(structure)}]')) AS row)",
        [text],
    )
