"""The catalogue: which files were read, trainings, lineage, alias history.

MLflow decides which versions are registered and where aliases point now; the catalogue keeps their
history. Every method is one transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Select, delete, func, insert, select

from bpeline.registry.catalogue.database import Database
from bpeline.registry.catalogue.models import (
    AliasMove,
    Base,
    CountTable,
    NamedSet,
    Run,
    RunState,
    Version,
    as_figures,
    file_readings,
)
from bpeline.registry.catalogue.values import FileReading, Registration, utc_now
from bpeline.registry.workspace import Process, this_process
from bpeline.tokenizer_core.errors import RegistryError, UnknownVersion

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from bpeline.tokenizer_core.corpus import SourceFile

Row = TypeVar("Row", bound=Base)

_ENDED = ("finished", "refused", "dismissed")
SILENCE_SECONDS = 60.0  # after which a run elsewhere counts as dead; heartbeats take seconds
_ID_BYTES = 6
_PATHS_IN_ONE_QUERY = 500  # SQLite and PostgreSQL limit the parameters of a statement
_READING = [file_readings.c[one.name] for one in fields(FileReading)]


class Catalogue:
    """A catalogue in one database; safe for concurrent threads and processes.

    Returned rows are copies: changing them does not change the database. Every method may raise
    StorageError or DiskFull, and for a server RegistryUnreachable.

    Args:
        url: `Workspace.catalogue_url`, or PostgreSQL. Tables are created or converted on opening.
        workspace: `Workspace.id` of this workspace. Runs belong to one workspace; files, tables and
            versions are shared.
        make: whether to create missing tables.

    Attributes:
        id: identity of this catalogue; empty if there are no tables and ``make`` is False.
        place: its URL without a password.
    """

    def __init__(self, url: str, workspace: str = "", *, make: bool = True) -> None:
        self.url = url
        self._workspace = workspace
        self._database = Database(url, make=make)
        self.id, self.place = self._database.id, self._database.place

    def close(self) -> None:
        """Close all connections; the catalogue can be used again afterwards."""
        self._database.close()

    def _found(self, query: Select[Row]) -> list[Row]:
        with self._database.reading() as session:
            return list(session.scalars(query))

    def remember_file_readings(self, readings: Sequence[FileReading]) -> None:
        """Store the chunks of files, replacing earlier readings of the same paths."""
        latest = {
            (reading.path, reading.chunk_bytes, reading.reading_digest): reading
            for reading in readings
        }

        def work(session: Session) -> None:
            grids = {(chunk_bytes, digest) for _, chunk_bytes, digest in latest}
            for chunk_bytes, digest in grids:
                paths = [path for path, *grid in latest if tuple(grid) == (chunk_bytes, digest)]
                for part in _parts(paths):
                    query = delete(file_readings).where(
                        file_readings.c.chunk_bytes == chunk_bytes,
                        file_readings.c.reading_digest == digest,
                        file_readings.c.path.in_(part),
                    )
                    session.execute(query)
            names = [column.name for column in _READING]
            rows = [{name: getattr(reading, name) for name in names} for reading in latest.values()]
            session.execute(insert(file_readings), rows)

        if latest:
            self._database.writing(work)

    def recall_file_readings(
        self,
        files: Sequence[SourceFile],
        chunk_bytes: int,
        reading_digest: str,
        *,
        unchanged: bool = True,
    ) -> dict[str, FileReading]:
        """Return earlier readings of files, by path.

        Args:
            unchanged: only files whose size, times and inode are the same as before.
        """
        readings: dict[str, FileReading] = {}
        with self._database.reading() as session:
            for part in _parts([file.path for file in files]):
                query = select(*_READING).where(
                    file_readings.c.chunk_bytes == chunk_bytes,
                    file_readings.c.reading_digest == reading_digest,
                    file_readings.c.path.in_(part),
                )
                readings |= {row.path: FileReading(*row) for row in session.execute(query)}
        if not unchanged:
            return readings
        now = {file.path: file for file in files}
        return {
            path: reading
            for path, reading in readings.items()
            if reading == FileReading.of(now[path], chunk_bytes, reading_digest, reading.chunks)
        }

    def file_readings(self, reading_digest: str) -> list[FileReading]:
        """Return the last readings of all files with these options, by path."""
        query = select(*_READING).where(file_readings.c.reading_digest == reading_digest)
        with self._database.reading() as session:
            rows = session.execute(query.order_by(file_readings.c.path))
            return [FileReading(*row) for row in rows]

    def remember_count_table(self, table: CountTable) -> None:
        """Store a table; the first record of a key stays."""

        def work(session: Session) -> None:
            if session.get(CountTable, table.key) is None:
                session.add(replace(table, created_at=utc_now()))

        self._database.writing(work)

    def count_tables(self, counts_digest: str | None = None) -> list[CountTable]:
        """Return the stored tables, or those with these word counts; latest first."""
        query = select(CountTable).order_by(CountTable.created_at.desc())
        return self._found(query.filter_by(**_given(counts_digest=counts_digest)))

    def start_run(self, name: str, config: Mapping[str, Any], left_out_rule: int = 1) -> Run:
        """Record a new run of this process."""
        process, now = this_process(), utc_now()

        def work(session: Session) -> Run:
            run = Run(
                id=secrets.token_hex(_ID_BYTES),
                name=name,
                config=dict(config),
                state="running",
                pid=process.pid,
                host=process.host,
                birth=process.birth,
                started_at=now,
                heartbeat_at=now,
                workspace=self._workspace,
                left_out_rule=left_out_rule,
            )
            session.add(run)
            return run

        return self._database.writing(work)

    def continue_run(self, run_id: str) -> Run:
        """Take over a run that was interrupted, failed or was not published.

        Raises:
            RegistryError: no such run, or it runs in another process or belongs to another
                workspace.
        """
        process = this_process()

        def work(session: Session) -> Run:
            run = self._own_run(session, run_id)
            owner = Process(run.pid, run.host, run.birth)
            if _as_it_is(run).state == "running" and owner != process:
                raise _still_running(run)
            run.state, run.error, run.finished_at = "running", "", ""
            run.pid, run.host, run.birth = process.pid, process.host, process.birth
            run.heartbeat_at = utc_now()
            return run

        return self._database.writing(work)

    def heartbeat(self, run_id: str) -> None:
        self._change(run_id)

    def step_reached(
        self,
        run_id: str,
        step: str,
        corpus_digest: str | None = None,
        counts_digest: str | None = None,
    ) -> None:
        """Record the last step of a run and the digests known since."""
        digests = _given(corpus_digest=corpus_digest, counts_digest=counts_digest)
        self._change(run_id, step=step, **digests)

    def end_run(self, run_id: str, state: RunState, error: str = "") -> None:
        """Record the final state of a run; see `Run`."""
        self._change(run_id, state=state, error=error, finished_at=utc_now())

    def dismiss_run(self, run_id: str) -> Run:
        """Record that an unfinished run will not be continued.

        Raises:
            RegistryError: no such run, it runs or has finished, or belongs to another workspace.
        """

        def work(session: Session) -> Run:
            run = _as_it_is(self._own_run(session, run_id))
            if run.state == "running":
                raise _still_running(run)
            if run.state in _ENDED and run.state != "dismissed":
                raise RegistryError(
                    f"run {run_id} ({run.name}) is {run.state}",
                    "expected a run that was interrupted, failed or waits to be published",
                    "type `bpeline resume --list` to see them",
                )
            run.state, run.finished_at = "dismissed", run.finished_at or utc_now()
            return run

        return self._database.writing(work)

    def run(self, prefix: str) -> Run:
        """Return the run whose id begins with a prefix; raises RegistryError."""
        query = select(Run).where(Run.id.startswith(prefix, autoescape=True)).limit(2)
        matches = self._found(query) if prefix else []
        if len(matches) != 1:
            raise RegistryError(
                f"{'several runs have' if matches else 'no run has'} an id that begins {prefix!r}",
                "expected a run id, or enough of its first digits",
                "type `bpeline resume --list` to see the runs that can be continued",
            )
        return _as_it_is(matches[0])

    def find_run(self, run_id: str) -> Run | None:
        return next(map(_as_it_is, self._found(select(Run).filter_by(id=run_id))), None)

    def runs(self) -> list[Run]:
        """Return the runs of all workspaces, newest first."""
        return self._runs(select(Run))

    def unfinished_runs(self) -> list[Run]:
        """Return this workspace's unfinished runs, newest first."""
        own = select(Run).filter_by(workspace=self._workspace)
        return self._runs(own.where(Run.state.not_in(_ENDED)))

    def running_elsewhere(self, name: str) -> list[Run]:
        """Return runs of a name in other workspaces that have recent heartbeats."""
        others = select(Run).where(Run.workspace != self._workspace)
        runs = self._runs(others.filter_by(name=name, state="running"))
        oldest = utc_now(-SILENCE_SECONDS)
        return [run for run in runs if run.state == "running" and run.heartbeat_at > oldest]

    def _runs(self, query: Select[Run]) -> list[Run]:
        return [_as_it_is(run) for run in self._found(query.order_by(Run.number.desc()))]

    def _change(self, run_id: str, **values: Any) -> None:
        def work(session: Session) -> None:
            run = _run(session, run_id)
            run.heartbeat_at = utc_now()
            for column, value in values.items():
                setattr(run, column, value)

        self._database.writing(work)

    def _own_run(self, session: Session, run_id: str) -> Run:
        run = _run(session, run_id)
        if run.workspace != self._workspace:
            raise RegistryError(
                f"run {run.id} belongs to another workspace, on {run.host}",
                "expected a run of this workspace, which has its counts and checkpoints",
                "type `bpeline resume --list` there",
            )
        return run

    def add_version(self, version: Version) -> Version:
        """Store the lineage of a tokenizer and return the first stored version."""

        def work(session: Session) -> Version:
            row = _version(session, version.name, version.digest)
            if row is None:
                row = replace(version, created_at=version.created_at or utc_now())
                session.add(row)
            return row

        return self._database.writing(work)

    def training_ended(self, name: str, digest: str) -> int:
        """Record a finished training and return its place in the order of trainings."""

        def work(session: Session) -> int:
            version = _known_version(session, name, digest)
            version.trained = (session.scalar(select(func.max(Version.trained))) or 0) + 1
            return version.trained

        return self._database.writing(work)

    def versions(self, name: str | None = None) -> list[Version]:
        """Return all versions, or those of a name, by name in order of creation."""
        query = select(Version).order_by(Version.name, Version.id)
        return self._found(query.filter_by(**_given(name=name)))

    def find_version(self, name: str, digest: str) -> Version | None:
        with self._database.reading() as session:
            return _version(session, name, digest)

    def add_registration(self, seen: Registration) -> str:
        """Store the number of a version in an MLflow.

        Returns:
            The digest of another tokenizer that had this number (MLflow was restored from a
            backup), else empty.
        """

        def work(session: Session) -> str:
            before = ""
            for version in session.scalars(select(Version).filter_by(name=seen.name)):
                if version.digest == seen.digest:
                    version.registered = {**version.registered, seen.store: seen.number}
                elif version.registered.get(seen.store) == seen.number:
                    before = version.digest
                    version.registered = _without(version.registered, seen.store)
            return before

        return self._database.writing(work)

    def registrations(
        self, name: str | None = None, store: str | None = None
    ) -> list[Registration]:
        """Return registrations, optionally of one name or MLflow, by name and number."""
        rows = [row for version in self.versions(name) for row in version.registrations]
        rows.sort(key=lambda row: (row.name, row.number, row.store))
        return [row for row in rows if store in (None, row.store)]

    def forget_registrations(self, store: str, name: str = "", number: int = 0) -> None:
        """Remove a number that an MLflow no longer has; 0 removes all."""

        def work(session: Session) -> None:
            for version in session.scalars(select(Version).filter_by(**_given(name=name or None))):
                if store in version.registered and number in (0, version.registered[store]):
                    version.registered = _without(version.registered, store)

        self._database.writing(work)

    def forget_version(self, name: str, digest: str) -> None:
        """Remove a version unless it is registered."""

        def work(session: Session) -> None:
            version = _version(session, name, digest)
            if version is not None and not version.registered:
                session.delete(version)

        self._database.writing(work)

    def add_metrics(
        self,
        name: str,
        digest: str,
        metrics: Mapping[str, float],
        step: int = 0,
        *,
        curves: Mapping[str, Iterable[tuple[int, float]]] = MappingProxyType({}),
        measured_on: str | None = None,
        without: Callable[[str], bool] = lambda _key: False,
    ) -> None:
        """Store metrics of a version; values with the same key and step are replaced.

        Args:
            step: of all ``metrics``.
            curves: key → (step, value) pairs; ``metrics`` override them.
            measured_on: digest of the evaluation set; None keeps the stored one.
            without: selects stored keys to remove.
        """

        def work(session: Session) -> None:
            version = _known_version(session, name, digest)
            points = {(k, at): value for k, at, value in version.metrics if not without(k)}
            points |= {(key, at): value for key, curve in curves.items() for at, value in curve}
            points |= {(key, step): float(value) for key, value in metrics.items()}
            version.figures = as_figures(points)
            if measured_on is not None:
                version.measured_on = measured_on

        self._database.writing(work)

    def moving(self) -> AbstractContextManager[None]:
        """Hold the lock for moving aliases in this catalogue."""
        return self._database.moving()

    def add_move(self, move: AliasMove) -> None:
        """Add a move, or a refused one, to an alias's history."""
        self._database.writing(lambda session: session.add(replace(move)))

    def alias_history(
        self, name: str, alias: str | None = None, store: str | None = None
    ) -> list[AliasMove]:
        """Return the moves of an alias, or of all aliases of a name, newest first."""
        query = select(AliasMove).filter_by(name=name).order_by(AliasMove.id.desc())
        return self._found(query.filter_by(**_given(alias=alias, store=store)))

    def evaluation_sets(self, name: str | None = None) -> list[NamedSet]:
        """Return current and earlier sets of all names, or of one, by number."""
        query = select(NamedSet).order_by(NamedSet.name, NamedSet.number)
        return self._found(query.filter_by(**_given(name=name)))

    def evaluation_set(self, name: str) -> NamedSet | None:
        sets = self.evaluation_sets(name)
        return sets[-1] if sets else None

    def give_evaluation_set(
        self, name: str, digest: str, *, instead_of: int = 0, by: str = "", reason: str = ""
    ) -> NamedSet:
        """Give a name a new set unless another process just did; returns the current set.

        Args:
            instead_of: number of the current set; 0 for none.
        """

        def work(session: Session) -> NamedSet:
            query = select(NamedSet).filter_by(name=name).order_by(NamedSet.number.desc())
            now = session.scalars(query).first()
            if now is None or (now.number == instead_of and now.digest != digest):
                number = (now.number if now else 0) + 1
                now = NamedSet(name, number, digest, by, reason, utc_now())
                session.add(now)
            return now

        return self._database.writing(work)

    def forget_evaluation_sets(self, name: str) -> None:
        """Remove all sets of a name; its next version makes a new one."""
        query = delete(NamedSet).filter_by(name=name)
        self._database.writing(lambda session: session.execute(query))


def _given(**asked: Any) -> dict[str, Any]:
    return {column: value for column, value in asked.items() if value is not None}


def _without(registered: Mapping[str, int], store: str) -> dict[str, int]:
    return {other: number for other, number in registered.items() if other != store}


def _parts(paths: Sequence[str]) -> Iterable[Sequence[str]]:
    for begin in range(0, len(paths), _PATHS_IN_ONE_QUERY):
        yield paths[begin : begin + _PATHS_IN_ONE_QUERY]


def _version(session: Session, name: str, digest: str) -> Version | None:
    return session.scalars(select(Version).filter_by(name=name, digest=digest)).one_or_none()


def _known_version(session: Session, name: str, digest: str) -> Version:
    version = _version(session, name, digest)
    if version is None:
        raise UnknownVersion(
            f"{name} has no version with the digest {digest[:12]}",
            "expected a version of this catalogue",
            "type `bpeline versions` to see them",
        )
    return version


def _run(session: Session, run_id: str) -> Run:
    run = session.scalars(select(Run).filter_by(id=run_id).with_for_update()).one_or_none()
    if run is None:
        raise RegistryError(
            f"there is no run {run_id!r}",
            "expected the id of a run in this catalogue",
            "type `bpeline resume --list` to see the runs that can be continued",
        )
    return run


def _as_it_is(run: Run) -> Run:
    """Correct the state of a run whose process was killed."""
    if run.state == "running" and Process(run.pid, run.host, run.birth).is_dead():
        run.state = "interrupted"
    return run


def _still_running(run: Run) -> RegistryError:
    return RegistryError(
        f"run {run.id} still runs in process {run.pid} on {run.host}",
        "expected a run whose process has ended",
        f"wait for it, or stop it: kill {run.pid}",
    )
