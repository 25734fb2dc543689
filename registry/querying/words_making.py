"""Write a complete ``words.duckdb``: parts of an earlier file and new ones.

`registry.querying.answers` publishes the file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.closed_duckdb import (
    READ_SINCE,
    connect,
    library,
    log_of,
    raise_if_interrupted,
    settle,
)
from bpeline.registry.loading import ResolvedVersion, load_version
from bpeline.registry.querying.contents import Contents, Part, Row
from bpeline.registry.querying.layout import COMMENTS, FORMAT, LAYOUT, PART_TABLES
from bpeline.registry.querying.words_file import held_in, quoted, settings
from bpeline.registry.word_counts import (
    WordCountStore,
    batch_of,
    column_of_bytes,
    column_of_integers,
    reader_of,
)
from bpeline.registry.workspace import damaged
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import DiskFull, StorageError
from bpeline.tokenizer_core.evaluation import MadeTokens, token_use
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bpeline.registry.versions import ListedVersion
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.tokenizer import Tokenizer

# A word that is not UTF-8 (in imported counts only) is shown as its bytes: \xE2\x80.
_ROWS_IN_BATCH = 1 << 18
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
    """Write a new file.

    Args:
        needed: parts that it must have.
        earlier: a file whose parts are kept if versions still need them; may be missing.
        path: of the new file; must not exist.
        spill: a directory for DuckDB.
        on_adding: called with what is added, before it is computed.
    """
    names = contents.names()
    needed_keys = {(entry.part.kind, entry.part.key) for entry in names}
    # Taken before writing: data read later may be newer than the fingerprint.
    versions, runs = contents.fingerprint, contents.fingerprint_of_runs
    old = held_in(earlier, spill)
    keep = old is not None and old.parts.keys() <= needed_keys
    if keep:
        shutil.copyfile(earlier, path)
    with _writing(path, spill) as connection:
        numbers: dict[tuple[str, str], int] = {}
        if old is not None and keep:
            numbers.update(old.parts)
        else:
            connection.execute(LAYOUT)
            for table, comment in COMMENTS.items():
                connection.execute(f"COMMENT ON TABLE {table} IS '{comment}'")
            if old is not None:
                reused = {part: at for part, at in old.parts.items() if part in needed_keys}
                _take_over(connection, earlier, reused)
                numbers.update(reused)
        _add_parts(connection, contents, needed, numbers, on_adding)
        for table in ("versions", "sources", "chunks", "runs"):
            connection.execute(f"DELETE FROM {table}")
            _fill(connection, table, getattr(contents, table)())
        connection.execute("DELETE FROM stored.names")
        rows = [
            (entry.kind, entry.name, entry.source, numbers[entry.part.kind, entry.part.key])
            for entry in names
            if (entry.part.kind, entry.part.key) in numbers
        ]
        columns = ("kind", "name", "of_source", "part")
        _fill(connection, "stored.names", [dict(zip(columns, row, strict=True)) for row in rows])
        connection.execute("DELETE FROM stored.state")
        connection.execute("INSERT INTO stored.state VALUES (?, ?, ?)", [FORMAT, versions, runs])


@contextmanager
def _writing(path: Path, spill: Path) -> Iterator[Any]:
    """A connection to write a new file; the file is complete on exit."""
    duckdb = library()
    try:
        # `files=True` to read the earlier file.
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
                "the rest of the workspace is unchanged",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"DuckDB could not make {path.name}: {reason}",
            "the rest of the workspace is unchanged",
            "run the same command again; if it fails again, report it",
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise
    if log_of(path).exists():
        raise StorageError(
            f"DuckDB left {log_of(path).name} behind",
            "expected no write-ahead log of a complete file",
            "run the same command again",
        )


def _take_over(connection: Any, earlier: Path, parts: dict[tuple[str, str], int]) -> None:
    """Copy parts of an earlier file with their numbers."""
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
    missing = [entry for entry in needed if (entry.kind, entry.key) not in numbers]
    sources = _Sources(contents)
    for part in sorted(
        missing,
        key=lambda entry: (entry.digest, entry.table, entry.kind),
    ):
        on_adding(sources.described(part))
        number = max(numbers.values(), default=0) + 1
        for table, batches in sources.rows_of(part).items():
            _insert(connection, table, number, batches)
        row = [number, part.kind, part.key]
        connection.execute("INSERT INTO stored.parts VALUES (?, ?, ?)", row)
        numbers[part.kind, part.key] = number


class _Sources:
    """Loads tokenizers and words for parts, one of each at a time."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._store = WordCountStore(contents.registry.workspace)
        self._tokenizer: tuple[str, Tokenizer] | None = None
        self._words: tuple[str, WordCounts] | None = None

    def described(self, part: Part) -> str:
        version = self._version_of(part.digest).reference if part.digest else ""
        if part.kind == "tokens":
            return f"tokens and merges of {version}"
        words = f"{len(self._words_of(part.table)):,} words"
        kinds = {"words": words, "splits": f"splits of {words} by {version}"}
        return kinds.get(part.kind, f"tokens of {version} in {words} of a source")

    def rows_of(self, part: Part) -> dict[str, Sequence[Any] | Iterator[Any]]:
        """Return the batches of a part by table."""
        if part.kind == "tokens":
            tokenizer = self._tokenizer_of(part.digest)
            return {
                "token_rows": [token_rows(tokenizer)],
                "merge_rows": [merge_rows(tokenizer)],
            }
        words = self._words_of(part.table)
        if part.kind == "words":
            return {"word_rows": [word_rows(words)]}
        tokenizer = self._tokenizer_of(part.digest)
        if part.kind == "slice":
            return {"slice_rows": [slice_rows(tokenizer, words)]}
        tokens = MadeTokens.of(tokenizer, words)
        return {
            "split_rows": split_rows(words, tokens),
            "use_rows": [use_rows(tokenizer, words, tokens)],
        }

    def _tokenizer_of(self, digest: str) -> Tokenizer:
        if self._tokenizer is None or self._tokenizer[0] != digest:
            version = self._version_of(digest)
            resolved = ResolvedVersion(version.name, version.number, digest, version.mlflow_run_id)
            self._tokenizer = digest, load_version(self._contents.registry, resolved)
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


def token_rows(tokenizer: Tokenizer) -> Any:
    """Columns id, bytes, special (0 or 1), rank, left_id, right_id.

    The last three are of the first merge that makes the token; −1 for other tokens.
    """
    vocab = sorted(tokenizer.vocab.items())
    ids = np.array([id_ for id_, _ in vocab], np.int64)
    content = [token for _, token in vocab]
    size = int(ids[-1]) + 1 if len(ids) else 0
    left, right, results = tokenizer.merge_ids
    merge_columns = np.full((3, size), -1, np.int64)
    for row, values in zip(merge_columns, (np.arange(len(results)), left, right), strict=True):
        row[results[::-1]] = values[::-1]  # reversed, so that the first merge wins
    special = np.isin(ids, list(tokenizer.special_tokens.values()))
    return _batch({
        "id": column_of_integers(ids),
        "bytes": column_of_bytes(content),
        "special": column_of_integers(special.astype(np.int64)),
        "rank": column_of_integers(merge_columns[0][ids]),
        "left_id": column_of_integers(merge_columns[1][ids]),
        "right_id": column_of_integers(merge_columns[2][ids]),
    })  # fmt: skip


def merge_rows(tokenizer: Tokenizer) -> Any:
    """Columns rank, left_id, right_id, id."""
    left, right, results = tokenizer.merge_ids
    ranks = np.arange(len(results), dtype=np.int64)
    columns = {"rank": ranks, "left_id": left, "right_id": right, "id": results}
    return _batch({name: column_of_integers(values) for name, values in columns.items()})


def word_rows(words: WordCounts) -> Any:
    """Columns word, count, first_position, in the order of the words."""
    return batch_of(words)


def split_rows(words: WordCounts, made: MadeTokens) -> Iterator[Any]:
    """Columns word, count, ids, in the order of the words; at least one batch."""
    import pyarrow

    for begin in range(0, max(len(words), 1), _ROWS_IN_BATCH):
        chunk = words.between(begin, begin + _ROWS_IN_BATCH)
        ends = np.append(
            made.ends[begin - 1] if begin else 0, made.ends[begin : begin + len(chunk)]
        )
        ids = made.ids[int(ends[0]) : int(ends[-1])]
        offsets = pyarrow.py_buffer(np.ascontiguousarray(ends - ends[0], np.int64))
        values = pyarrow.Array.from_buffers(
            pyarrow.uint32(), len(ids), [None, pyarrow.py_buffer(np.ascontiguousarray(ids))]
        )
        lists = pyarrow.Array.from_buffers(
            pyarrow.large_list(pyarrow.uint32()), len(chunk), [None, offsets], children=[values]
        )
        batch = batch_of(chunk)
        yield _batch({"word": batch.column(0), "count": batch.column(1), "ids": lists})


def use_rows(tokenizer: Tokenizer, words: WordCounts, made: MadeTokens) -> Any:
    """Columns id, count, made (see `TokenUse`) and words: the words with the token."""
    use = token_use(tokenizer, words, made)
    ids = np.array(sorted(tokenizer.vocab), np.int64)
    columns = {
        "id": ids,
        "count": use.left[ids],
        "made": use.made[ids],
        "words": _words_with(made, len(use.left))[ids],
    }
    return _batch({name: column_of_integers(values) for name, values in columns.items()})


def slice_rows(tokenizer: Tokenizer, words: WordCounts) -> Any:
    """Columns id, count, for the tokens that occur in the words."""
    totals = MadeTokens.of(tokenizer, words).totals(words.counts)
    ids = np.flatnonzero(totals)
    return _batch({"id": column_of_integers(ids), "count": column_of_integers(totals[ids])})


def _words_with(made: MadeTokens, size: int) -> NDArray[np.int64]:
    """Number of words with each token; int64, by id."""

    def found(begin: int) -> NDArray[np.int64]:
        ends = np.append(made.ends[begin - 1] if begin else 0, made.ends[begin:][:_ROWS_IN_BATCH])
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        # Nine times as fast as `numpy.unique`.
        pairs = np.sort(rows * size + made.ids[int(ends[0]) : int(ends[-1])])
        return np.bincount(pairs[np.diff(pairs, prepend=-1) != 0] % size, minlength=size)

    total = np.zeros(size, np.int64)
    with ThreadPoolExecutor(available_processors(), "count words") as threads:
        for counts in threads.map(found, range(0, len(made.ends), _ROWS_IN_BATCH)):
            total += counts
    return total


def _batch(columns: dict[str, Any]) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _insert(connection: Any, table: str, part: int, batches: Sequence[Any] | Iterator[Any]) -> None:
    connection.register("rows", reader_of(iter(batches)))
    connection.execute(f"INSERT INTO stored.{table} SELECT {part:d}, {_INSERTS[table]} FROM rows")
    connection.unregister("rows")


def _fill(connection: Any, table: str, rows: list[Row]) -> None:
    """Insert rows of JSON values; missing columns become NULL."""
    kinds = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}
    nested = {name for name, kind in kinds.items() if kind == "JSON" or kind[-1] in "])"}
    structure = {name: "JSON" if name in nested else "VARCHAR" for name in kinds}
    columns = ", ".join(f"row.{name}::{kind}" for name, kind in kinds.items())
    # Paths that are not UTF-8 contain surrogates, which JSON cannot have.
    text = json.dumps(rows, ensure_ascii=False).encode(errors="backslashreplace").decode()
    connection.execute(
        f"INSERT INTO {table} SELECT {columns} FROM "
        f"(SELECT unnest(from_json(?, '[{json.dumps(structure)}]')) AS row)",
        [text],
    )
