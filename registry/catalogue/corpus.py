"""The catalogue's memory of the corpus: which chunks files hold, which word-count tables exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from bpeline.registry.catalogue.records import ChunkRecord, CountTable, FileReading, utc_now
from bpeline.registry.catalogue.tables import (
    CountTableRow,
    Database,
    FileReadingRow,
    Session,
    as_record,
    insert,
    select,
    update,
)

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import SourceFile

_PATHS_IN_ONE_QUERY = 500  # SQLite and PostgreSQL limit the parameters of a statement


class CorpusRecords:
    """The part of `Catalogue` that spares a run from reading files again."""

    _database: Database

    def remember_file_readings(self, readings: Sequence[FileReading]) -> None:
        """Remember which chunks files hold, replacing what was known of the same paths."""

        def work(session: Session) -> None:
            for begin in range(0, len(readings), _PATHS_IN_ONE_QUERY):
                some = readings[begin : begin + _PATHS_IN_ONE_QUERY]
                query = select(
                    FileReadingRow.id,
                    FileReadingRow.path,
                    FileReadingRow.chunk_bytes,
                    FileReadingRow.reading_digest,
                ).where(FileReadingRow.path.in_({reading.path for reading in some}))
                known = {tuple(key): id_ for id_, *key in session.execute(query)}
                rows = {_key_of(reading): _row_of(reading) for reading in some}
                new = [row for key, row in rows.items() if key not in known]
                old = [{**row, "id": known[key]} for key, row in rows.items() if key in known]
                if new:
                    session.execute(insert(FileReadingRow), new)
                if old:
                    session.execute(update(FileReadingRow), old)

        if readings:
            self._database.writing(work)

    def recall_file_readings(
        self, files: Sequence[SourceFile], chunk_bytes: int, reading_digest: str
    ) -> dict[str, FileReading]:
        """What is known of files that have not changed since they were read.

        Args:
            files: as they are now.
            chunk_bytes: the chunk grid.
            reading_digest: how bytes are turned into text.

        Returns:
            ``{path: reading}`` for those whose size, times and inode are what they were.
        """
        now = {file.path: file for file in files}
        earlier = self.earlier_file_readings(files, chunk_bytes, reading_digest)
        return {
            path: reading
            for path, reading in earlier.items()
            if reading == FileReading.of(now[path], chunk_bytes, reading_digest, reading.chunks)
        }

    def earlier_file_readings(
        self, files: Sequence[SourceFile], chunk_bytes: int, reading_digest: str
    ) -> dict[str, FileReading]:
        """The same for all files that were read, whether or not they have changed since."""
        paths = [file.path for file in files]
        known: dict[str, FileReading] = {}
        with self._database.reading() as session:
            for begin in range(0, len(paths), _PATHS_IN_ONE_QUERY):
                query = select(*_COLUMNS).where(
                    FileReadingRow.chunk_bytes == chunk_bytes,
                    FileReadingRow.reading_digest == reading_digest,
                    FileReadingRow.path.in_(paths[begin : begin + _PATHS_IN_ONE_QUERY]),
                )
                known |= {row.path: _file_reading(row) for row in session.execute(query)}
        return known

    def file_readings(self, reading_digest: str) -> list[FileReading]:
        """All files known to have been read in one way, as they were when last read, by path."""
        query = select(*_COLUMNS).where(FileReadingRow.reading_digest == reading_digest)
        with self._database.reading() as session:
            rows = session.execute(query.order_by(FileReadingRow.path)).all()
            return [_file_reading(row) for row in rows]

    def remember_count_table(self, table: CountTable) -> None:
        """Remember that a table was made; the first record of a key stays."""

        def work(session: Session) -> None:
            if session.get(CountTableRow, table.key) is None:
                kept = {**asdict(table), "total": str(table.total), "created_at": utc_now()}
                session.add(CountTableRow(**kept))

        self._database.writing(work)

    def count_table(self, key: str) -> CountTable | None:
        """The table of that key, if one was remembered."""
        with self._database.reading() as session:
            row = session.get(CountTableRow, key)
            return None if row is None else _count_table(row)

    def count_tables(self) -> list[CountTable]:
        """All tables that were remembered, latest first."""
        query = select(CountTableRow).order_by(CountTableRow.created_at.desc())
        with self._database.reading() as session:
            return [_count_table(row) for row in session.scalars(query)]

    def count_table_with(self, counts_digest: str) -> CountTable | None:
        """The latest table with these word counts, if one was remembered."""
        query = select(CountTableRow).filter_by(counts_digest=counts_digest)
        with self._database.reading() as session:
            row = session.scalars(query.order_by(CountTableRow.created_at.desc())).first()
            return None if row is None else _count_table(row)


def _key_of(reading: FileReading) -> tuple[Any, ...]:
    return reading.path, reading.chunk_bytes, reading.reading_digest


def _row_of(reading: FileReading) -> dict[str, Any]:
    return {
        "path": reading.path,
        "chunk_bytes": reading.chunk_bytes,
        "reading_digest": reading.reading_digest,
        "size": reading.size,
        "inode": str(reading.inode),
        "mtime_ns": reading.mtime_ns,
        "ctime_ns": reading.ctime_ns,
        "chunks": [[c.digest, c.begin, c.end, c.ordinal] for c in reading.chunks],
    }


# Columns and not rows as objects, of which there may be a hundred thousand.
_COLUMNS = (
    FileReadingRow.path, FileReadingRow.size, FileReadingRow.mtime_ns, FileReadingRow.ctime_ns,
    FileReadingRow.inode, FileReadingRow.chunk_bytes, FileReadingRow.reading_digest,
    FileReadingRow.chunks,
)  # fmt: skip


def _file_reading(row: Any) -> FileReading:
    """A reading from `_COLUMNS`."""
    path, size, mtime_ns, ctime_ns, inode, chunk_bytes, reading_digest, chunks = row
    records = tuple(ChunkRecord(*chunk) for chunk in chunks)
    return FileReading(
        path, size, mtime_ns, ctime_ns, int(inode), chunk_bytes, reading_digest, records
    )


def _count_table(row: CountTableRow) -> CountTable:
    return replace(as_record(CountTable, row), total=int(row.total))
