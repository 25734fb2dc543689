"""The catalogue: which files were read, which trainings ran, what they made, why aliases moved.

The truth about lineage. Which versions are registered, and where aliases point now, is MLflow's to
say; what is kept of that here is history. Every method is one transaction. Knows no file but
through the URL it is given.
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
SILENCE_SECONDS = 60.0  # of a run that says every few seconds that it lives
_ID_BYTES = 6
_PATHS_IN_ONE_QUERY = 500  # SQLite and PostgreSQL limit the parameters of a statement
_READING = [file_readings.c[one.name] for one in fields(FileReading)]


class Catalogue:
    """What this project remembers, in one database.

    Safe to use from several threads and processes at once. Rows that it answers with are copies:
    changing one changes nothing here.

    Args:
        url: an SQLAlchemy URL: `Workspace.catalogue_url`, or PostgreSQL. The tables are made or
            brought up to date on opening.
        workspace: `Workspace.id` of the workspace that asks. Files, tables and versions are
            everybody's; a run is continued where its checkpoint lies.
        make: whether tables are made where there are none.

    Attributes:
        id: what tells this catalogue from all others; made with its tables. Empty where there are
            no tables and none were to be made.
        place: its URL as people may see it: without a password.

    Raises:
        InvalidOption: not a URL, or no driver for it.
        CorruptFile: the file is not a database.
        StorageError: made by a newer bpeline, or locked by others for too long. Every method may
            raise it too, as well as DiskFull and, for a server, RegistryUnreachable.
    """

    def __init__(self, url: str, workspace: str = "", *, make: bool = True) -> None:
        self.url = url
        self._workspace = workspace
        self._database = Database(url, make=make)
        self.id, self.place = self._database.id, self._database.place

    def close(self) -> None:
        """Give connections back; the catalogue may be used again afterwards."""
        self._database.close()

    def _found(self, query: Select[Row]) -> list[Row]:
        with self._database.reading() as session:
            return list(session.scalars(query))

    # ---- files that were read, and their word counts -------------------------------------------

    def remember_file_readings(self, readings: Sequence[FileReading]) -> None:
        """Remember which chunks files hold, replacing what was known of the same paths."""
        kept = {(one.path, one.chunk_bytes, one.reading_digest): one for one in readings}

        def work(session: Session) -> None:
            grids = {(chunk_bytes, digest) for _, chunk_bytes, digest in kept}
            for chunk_bytes, digest in grids:
                paths = [path for path, *grid in kept if tuple(grid) == (chunk_bytes, digest)]
                for some in _parts(paths):
                    query = delete(file_readings).where(
                        file_readings.c.chunk_bytes == chunk_bytes,
                        file_readings.c.reading_digest == digest,
                        file_readings.c.path.in_(some),
                    )
                    session.execute(query)
            names = [column.name for column in _READING]
            rows = [{name: getattr(one, name) for name in names} for one in kept.values()]
            session.execute(insert(file_readings), rows)

        if kept:
            self._database.writing(work)

    def recall_file_readings(
        self,
        files: Sequence[SourceFile],
        chunk_bytes: int,
        reading_digest: str,
        *,
        unchanged: bool = True,
    ) -> dict[str, FileReading]:
        """What is known of files that were read.

        Args:
            files: as they are now.
            chunk_bytes: the chunk grid.
            reading_digest: how bytes are turned into text.
            unchanged: whether only of those whose size, times and inode are what they were.

        Returns:
            ``{path: reading}``.
        """
        known: dict[str, FileReading] = {}
        with self._database.reading() as session:
            for some in _parts([file.path for file in files]):
                query = select(*_READING).where(
                    file_readings.c.chunk_bytes == chunk_bytes,
                    file_readings.c.reading_digest == reading_digest,
                    file_readings.c.path.in_(some),
                )
                known |= {row.path: FileReading(*row) for row in session.execute(query)}
        if not unchanged:
            return known
        now = {file.path: file for file in files}
        return {
            path: reading
            for path, reading in known.items()
            if reading == FileReading.of(now[path], chunk_bytes, reading_digest, reading.chunks)
        }

    def file_readings(self, reading_digest: str) -> list[FileReading]:
        """All files known to have been read in one way, as they were when last read, by path."""
        query = select(*_READING).where(file_readings.c.reading_digest == reading_digest)
        with self._database.reading() as session:
            rows = session.execute(query.order_by(file_readings.c.path))
            return [FileReading(*row) for row in rows]

    def remember_count_table(self, table: CountTable) -> None:
        """Remember that a table was made; the first record of a key stays."""

        def work(session: Session) -> None:
            if session.get(CountTable, table.key) is None:
                session.add(replace(table, created_at=utc_now()))

        self._database.writing(work)

    def count_tables(self, counts_digest: str | None = None) -> list[CountTable]:
        """The tables that were remembered (those with these word counts), latest first."""
        query = select(CountTable).order_by(CountTable.created_at.desc())
        return self._found(query.filter_by(**_given(counts_digest=counts_digest)))

    # ---- trainings -----------------------------------------------------------------------------

    def start_run(self, name: str, config: Mapping[str, Any], left_out_rule: int = 1) -> Run:
        """Record that this process begins a run.

        Args:
            name: the tokenizer's name.
            config: what was asked for, as JSON values.
            left_out_rule: see `Run`.
        """
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
        """Take over a run that was interrupted, failed or was not published: it is running again.

        Raises:
            RegistryError: no such run, it still runs in another living process, or it belongs to
                another workspace.
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
        """Record that a run is alive."""
        self._change(run_id)

    def step_reached(
        self,
        run_id: str,
        step: str,
        corpus_digest: str | None = None,
        counts_digest: str | None = None,
    ) -> None:
        """Record how far a run came, and what is known since."""
        known = _given(corpus_digest=corpus_digest, counts_digest=counts_digest)
        self._change(run_id, step=step, **known)

    def end_run(self, run_id: str, state: RunState, error: str = "") -> None:
        """Record how a run ended, see `Run`, and why it failed or could not be published."""
        self._change(run_id, state=state, error=error, finished_at=utc_now())

    def dismiss_run(self, run_id: str) -> Run:
        """Record that nobody will continue a run that did not finish.

        Raises:
            RegistryError: no such run, it is at work, has ended, or is another workspace's.
        """

        def work(session: Session) -> Run:
            run = _as_it_is(self._own_run(session, run_id))
            if run.state == "running":
                raise _still_running(run)
            if run.state in _ENDED and run.state != "dismissed":
                raise RegistryError(
                    f"run {run_id} ({run.name}) is {run.state}",
                    "runs that were interrupted, failed or wait to be published can be dismissed",
                    "type `bpeline resume --list` to see them",
                )
            run.state, run.finished_at = "dismissed", run.finished_at or utc_now()
            return run

        return self._database.writing(work)

    def run(self, prefix: str) -> Run:
        """The run whose id begins so.

        Raises:
            RegistryError: there is none, or there are several.
        """
        query = select(Run).where(Run.id.startswith(prefix, autoescape=True)).limit(2)
        found = self._found(query) if prefix else []
        if len(found) != 1:
            raise RegistryError(
                f"{'several runs have' if found else 'no run has'} an id that begins {prefix!r}",
                "accepted is a run's id, or enough of its beginning",
                "type `bpeline resume --list` to see the runs that can be continued",
            )
        return _as_it_is(found[0])

    def find_run(self, run_id: str) -> Run | None:
        """The run with exactly this id, if this catalogue has it."""
        return next(map(_as_it_is, self._found(select(Run).filter_by(id=run_id))), None)

    def runs(self, limit: int | None = None) -> list[Run]:
        """All runs of all workspaces, newest first."""
        return self._runs(select(Run).limit(limit))

    def unfinished_runs(self) -> list[Run]:
        """This workspace's runs that run, were interrupted, failed or wait to be published.

        Newest first.
        """
        own = select(Run).filter_by(workspace=self._workspace)
        return self._runs(own.where(Run.state.not_in(_ENDED)))

    def running_elsewhere(self, name: str) -> list[Run]:
        """Runs of a name in other workspaces that say they run and did so a moment ago.

        A process that was killed on another machine stops saying so.
        """
        others = select(Run).where(Run.workspace != self._workspace)
        found = self._runs(others.filter_by(name=name, state="running"))
        moment = utc_now(-SILENCE_SECONDS)
        return [run for run in found if run.state == "running" and run.heartbeat_at > moment]

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
                "a run is continued, or dismissed, where its counts and checkpoints lie",
                "type `bpeline resume --list` there",
            )
        return run

    # ---- versions ------------------------------------------------------------------------------

    def add_version(self, version: Version) -> Version:
        """Remember where a tokenizer comes from, or find what is remembered of it.

        Returns:
            The version as it was remembered first.
        """

        def work(session: Session) -> Version:
            known = _version(session, version.name, version.digest)
            if known is None:
                known = replace(version, created_at=version.created_at or utc_now())
                session.add(known)
            return known

        return self._database.writing(work)

    def training_ended(self, name: str, digest: str) -> int:
        """Remember that a training has just made a version, for the first time or again.

        Returns:
            The version's place in the order of trainings, whatever clocks say.
        """

        def work(session: Session) -> int:
            version = _known_version(session, name, digest)
            version.trained = (session.scalar(select(func.max(Version.trained))) or 0) + 1
            return version.trained

        return self._database.writing(work)

    def versions(self, name: str | None = None) -> list[Version]:
        """All versions, or those of one name, by name and in the order they were made."""
        query = select(Version).order_by(Version.name, Version.id)
        return self._found(query.filter_by(**_given(name=name)))

    def find_version(self, name: str, digest: str) -> Version | None:
        """The version of that name with exactly that digest, if it is known."""
        with self._database.reading() as session:
            return _version(session, name, digest)

    def add_registration(self, seen: Registration) -> str:
        """Remember under which number an MLflow has a version.

        Returns:
            The digest of what that number meant there before, when it was another tokenizer: then
            MLflow was restored from a backup. Empty otherwise.
        """

        def work(session: Session) -> str:
            before = ""
            for one in session.scalars(select(Version).filter_by(name=seen.name)):
                if one.digest == seen.digest:
                    one.registered = {**one.registered, seen.store: seen.number}
                elif one.registered.get(seen.store) == seen.number:
                    before = one.digest
                    one.registered = _without(one.registered, seen.store)
            return before

        return self._database.writing(work)

    def registrations(
        self, name: str | None = None, store: str | None = None
    ) -> list[Registration]:
        """Where versions (of a name) were registered (in one MLflow), by name and number."""
        found = [one for version in self.versions(name) for one in version.registrations]
        found.sort(key=lambda one: (one.name, one.number, one.store))
        return [one for one in found if store in (None, one.store)]

    def forget_registrations(self, store: str, name: str = "", number: int = 0) -> None:
        """Forget a number that an MLflow no longer has; all of one that is gone."""

        def work(session: Session) -> None:
            for one in session.scalars(select(Version).filter_by(**_given(name=name or None))):
                if store in one.registered and number in (0, one.registered[store]):
                    one.registered = _without(one.registered, store)

        self._database.writing(work)

    def forget_version(self, name: str, digest: str) -> bool:
        """Forget a version, and what was measured of it, unless an MLflow has it under a number.

        Returns:
            Whether it is forgotten, now or before.
        """

        def work(session: Session) -> bool:
            version = _version(session, name, digest)
            if version is not None and not version.registered:
                session.delete(version)
            return version is None or not version.registered

        return self._database.writing(work)

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
        """Keep what was measured of a version; a value of the same key and step is replaced.

        Args:
            name, digest: of the version.
            metrics: values by their keys.
            step: of all these.
            curves: for each key a value at each of several steps; what `metrics` says of the same
                key and step wins.
            measured_on: digest of the evaluation set; None leaves what is known of it.
            without: which of the keys that were known before are forgotten.

        Raises:
            UnknownVersion: no such version.
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

    # ---- aliases -------------------------------------------------------------------------------

    def moving(self) -> AbstractContextManager[None]:
        """Hold the right to move aliases, against all who use this catalogue.

        Raises:
            WorkspaceLocked: somebody else holds it for too long.
        """
        return self._database.moving()

    def add_move(self, move: AliasMove) -> None:
        """Write into an alias's history that it moved, or was asked to."""
        self._database.writing(lambda session: session.add(replace(move)))

    def alias_history(
        self, name: str, alias: str | None = None, store: str | None = None
    ) -> list[AliasMove]:
        """The moves of one alias, or of all of a name (in one MLflow), newest first."""
        query = select(AliasMove).filter_by(name=name).order_by(AliasMove.id.desc())
        return self._found(query.filter_by(**_given(alias=alias, store=store)))

    # ---- evaluation sets -----------------------------------------------------------------------

    def evaluation_sets(self, name: str | None = None) -> list[NamedSet]:
        """The sets that names (or one) have and had, by name and number."""
        query = select(NamedSet).order_by(NamedSet.name, NamedSet.number)
        return self._found(query.filter_by(**_given(name=name)))

    def evaluation_set(self, name: str) -> NamedSet | None:
        """The set that a name has now."""
        found = self.evaluation_sets(name)
        return found[-1] if found else None

    def give_evaluation_set(
        self, name: str, digest: str, *, instead_of: int = 0, by: str = "", reason: str = ""
    ) -> NamedSet:
        """Let a name have a set from now on, unless somebody gave it another one meanwhile.

        Args:
            name, digest, by, reason: see `NamedSet`.
            instead_of: the number of the set it has; 0 when it has none.

        Returns:
            The set it has then: this one, or the other.
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
        """Forget which sets a name had; the next version of that name makes one again."""
        query = delete(NamedSet).filter_by(name=name)
        self._database.writing(lambda session: session.execute(query))


def _given(**asked: Any) -> dict[str, Any]:
    """Of what is asked for by column, that which is not None."""
    return {column: value for column, value in asked.items() if value is not None}


def _without(registered: Mapping[str, int], store: str) -> dict[str, int]:
    return {one: number for one, number in registered.items() if one != store}


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
            "accepted are versions of this catalogue",
            "type `bpeline versions` to see them",
        )
    return version


def _run(session: Session, run_id: str) -> Run:
    run = session.scalars(select(Run).filter_by(id=run_id).with_for_update()).one_or_none()
    if run is None:
        raise RegistryError(
            f"there is no run {run_id!r}",
            "accepted is the id of a run in this catalogue",
            "type `bpeline resume --list` to see the runs that can be continued",
        )
    return run


def _as_it_is(run: Run) -> Run:
    """With the state that it has: a process that was killed did not say that it ended."""
    if run.state == "running" and Process(run.pid, run.host, run.birth).is_dead():
        run.state = "interrupted"
    return run


def _still_running(run: Run) -> RegistryError:
    return RegistryError(
        f"run {run.id} still runs in process {run.pid} on {run.host}",
        "a run can be continued, or dismissed, when its process has ended",
        f"wait for it, or stop it: kill {run.pid}",
    )
