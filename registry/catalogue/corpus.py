"""The catalogue's memory of the corpus: which chunks files hold, which word-count tables exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpeline.registry.catalogue.records import ChunkRecord, CountTable, FileReading, utc_now
from bpeline.registry.catalogue.tables import (
    CountTableRow,
    Database,
    FileReadingRow,
    Session,
    select,
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
                query = select(FileReadingRow).where(
                    FileReadingRow.path.in_({reading.path for reading in some})
                )
                rows = {
                    (row.path, row.chunk_bytes, row.reading_digest): row
                    for row in session.scalars(query)
                }
                for reading in some:
                    key = reading.path, reading.chunk_bytes, reading.reading_digest
                    row = rows.get(key)
                    if row is None:
                        rows[key] = row = FileReadingRow()
                        row.path, row.chunk_bytes, row.reading_digest = key
                        session.add(row)
                    row.size, row.inode = reading.size, str(reading.inode)
                    row.mtime_ns, row.ctime_ns = reading.mtime_ns, reading.ctime_ns
                    row.chunks = [[c.digest, c.begin, c.end, c.ordinal] for c in reading.chunks]

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
                query = select(FileReadingRow).where(
                    FileReadingRow.chunk_bytes == chunk_bytes,
                    FileReadingRow.reading_digest == reading_digest,
                    FileReadingRow.path.in_(paths[begin : begin + _PATHS_IN_ONE_QUERY]),
                )
                known |= {row.path: _file_reading(row) for row in session.scalars(query)}
        return known

    def file_readings(self, reading_digest: str) -> list[FileReading]:
        """All files known to have been read in one way, as they were when last read, by path."""
        query = select(FileReadingRow).filter_by(reading_digest=reading_digest)
        with self._database.reading() as session:
            rows = session.scalars(query.order_by(FileReadingRow.path)).all()
            return [_file_reading(row) for row in rows]

    def remember_count_table(self, table: CountTable) -> None:
        """Remember that a table was made; the first record of a key stays."""

        def work(session: Session) -> None:
            if session.get(CountTableRow, table.key) is None:
                session.add(
                    CountTableRow(
                        key=table.key,
                        counts_digest=table.counts_digest,
                        corpus_digest=table.corpus_digest,
                        words=table.words,
                        total=str(table.total),
                        run_id=table.run_id,
                        created_at=utc_now(),
                    )
                )

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


def _file_reading(row: FileReadingRow) -> FileReading:
    chunks = tuple(ChunkRecord(*chunk) for chunk in row.chunks)
    return FileReading(
        row.path, row.size, row.mtime_ns, row.ctime_ns, int(row.inode), row.chunk_bytes,
        row.reading_digest, chunks,
    )  # fmt: skip


def _count_table(row: CountTableRow) -> CountTable:
    return CountTable(
        row.key, row.counts_digest, row.corpus_digest, row.words, int(row.total), row.run_id,
        row.created_at,
    )  # fmt: skip
