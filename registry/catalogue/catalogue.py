"""The catalogue: which files were read, which runs ran, what they made, how aliases moved.

The truth about lineage. Which versions are registered, and where aliases point now, is MLflow's to
say; what is kept of that here is history. Every method is one transaction and answers with frozen
values. Knows no file but through the URL it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from types import MappingProxyType

from bpeline.registry.catalogue.corpus import CorpusRecords
from bpeline.registry.catalogue.records import (
    AliasMove,
    Deletion,
    Metric,
    NamedSet,
    Registration,
    Version,
    utc_now,
)
from bpeline.registry.catalogue.runs import RunRecords
from bpeline.registry.catalogue.tables import (
    AliasMoveRow,
    Database,
    DeletionRow,
    EvaluationSetRow,
    MetricRow,
    RegistrationRow,
    Session,
    VersionRow,
    and_,
    as_record,
    delete,
    func,
    given,
    insert,
    select,
)
from bpeline.tokenizer_core.errors import UnknownVersion


class Catalogue(CorpusRecords, RunRecords):
    """What this project remembers, in one database.

    Safe to use from several threads and processes at once.

    Args:
        url: an SQLAlchemy URL: `Workspace.catalogue_url`, or PostgreSQL. The tables are made or
            brought up to date on opening.
        workspace: `Workspace.id` of the workspace that asks. Files, tables and versions are
            everybody's; a run is continued where its checkpoint lies.
        make: whether tables are made where there are none.

    Attributes:
        id: what tells this catalogue from all others; made with its tables. Empty where there are
            no tables and none were to be made.

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
        self.id = self._database.id

    @property
    def place(self) -> str:
        """Its URL as people may see it: without a password."""
        return self._database.place

    def close(self) -> None:
        """Give connections back; the catalogue may be used again afterwards."""
        self._database.close()

    # ---- versions --------------------------------------------------------------------------

    def add_version(
        self,
        name: str,
        digest: str,
        *,
        run_id: str = "",
        corpus_digest: str = "",
        counts_digest: str = "",
        vocab_size: int = 0,
        pattern: str = "",
    ) -> Version:
        """Remember where a tokenizer comes from, or find what is remembered of it.

        Args:
            name: the tokenizer's name.
            digest: digest of its behaviour.
            run_id: the run that made it.
            corpus_digest: the corpus it was trained on.
            counts_digest: the word counts it was trained on.
            vocab_size: number of ids.
            pattern: the split pattern's name or regex.

        Returns:
            The version as it was remembered first.
        """

        def work(session: Session) -> Version:
            query = select(VersionRow).filter_by(name=name, digest=digest)
            row = session.scalars(query).one_or_none()
            if row is None:
                last = session.scalar(
                    select(func.max(VersionRow.ordinal)).where(VersionRow.name == name)
                )
                row = VersionRow(
                    name=name,
                    ordinal=(last or 0) + 1,
                    digest=digest,
                    run_id=run_id,
                    corpus_digest=corpus_digest,
                    counts_digest=counts_digest,
                    vocab_size=vocab_size,
                    pattern=pattern,
                    created_at=utc_now(),
                )
                session.add(row)
                session.flush()
            return as_record(Version, row)

        return self._database.writing(work)

    def training_ended(self, name: str, digest: str) -> int:
        """Remember that a training has just made a version, for the first time or again.

        Returns:
            The version's place in the order of trainings, whatever clocks say.
        """

        def work(session: Session) -> int:
            row = session.scalars(select(VersionRow).filter_by(name=name, digest=digest)).one()
            row.trained = (session.scalar(select(func.max(VersionRow.trained))) or 0) + 1
            return row.trained

        return self._database.writing(work)

    def versions(self, name: str | None = None) -> list[Version]:
        """All versions, or those of one name, by name and in the order they were made."""
        query = select(VersionRow).order_by(VersionRow.name, VersionRow.ordinal)
        return self._database.found(Version, query.filter_by(**given(name=name)))

    def find_version(self, name: str, digest: str) -> Version | None:
        """The version of that name with exactly that digest, if it is known."""
        query = select(VersionRow).filter_by(name=name, digest=digest)
        return next(iter(self._database.found(Version, query)), None)

    def forget_version(self, name: str, digest: str) -> bool:
        """Forget a version, and what was measured of it, unless an MLflow has it under a number.

        Returns:
            Whether it is forgotten, now or before.
        """

        def work(session: Session) -> bool:
            asked = {"name": name, "digest": digest}
            if session.scalars(select(RegistrationRow).filter_by(**asked)).first():
                return False
            for row in session.scalars(select(VersionRow).filter_by(**asked)):
                session.execute(delete(MetricRow).filter_by(version_id=row.id))
                session.delete(row)
            return True

        return self._database.writing(work)

    # ---- registrations ---------------------------------------------------------------------

    def add_registration(self, registration: Registration) -> Registration | None:
        """Remember under which number an MLflow has a version.

        Returns:
            What that number meant there before, when it was another tokenizer: then MLflow was
            restored from a backup. What it means now is remembered instead.
        """

        def work(session: Session) -> Registration | None:
            key = registration.store, registration.name, registration.number
            row = session.get(RegistrationRow, key)
            before = None if row is None else as_record(Registration, row)
            session.merge(RegistrationRow(**asdict(registration)))
            return before if before and before.digest != registration.digest else None

        return self._database.writing(work)

    def registrations(
        self, name: str | None = None, store: str | None = None
    ) -> list[Registration]:
        """Where versions (of a name) were registered (in one MLflow), by name and number."""
        query = select(RegistrationRow).order_by(RegistrationRow.name, RegistrationRow.number)
        query = query.filter_by(**given(name=name, store=store))
        return self._database.found(Registration, query)

    def forget_registrations(self, store: str, name: str = "", number: int = 0) -> None:
        """Forget a number that an MLflow no longer has; all of one that is gone."""
        asked = {"name": name, "number": number} if name else {}
        self._database.execute(delete(RegistrationRow).filter_by(store=store, **asked))

    # ---- deletions -------------------------------------------------------------------------

    def add_deletions(self, deletions: Iterable[Deletion]) -> None:
        """Remember what is to be deleted, or that it was; each is remembered once."""
        added = list(deletions)

        def work(session: Session) -> None:
            for one in added:
                session.merge(DeletionRow(**asdict(one)))

        self._database.writing(work)

    def deletions(self, name: str | None = None, store: str | None = None) -> list[Deletion]:
        """What was deleted or is to be (of a name, in one MLflow), by name and number."""
        query = select(DeletionRow).order_by(DeletionRow.name, DeletionRow.number)
        return self._database.found(Deletion, query.filter_by(**given(name=name, store=store)))

    def unfinished_deletions(self) -> list[Deletion]:
        """Those that this workspace has begun, or will begin when MLflow answers."""
        return [
            one for one in self.deletions() if not one.done_at and one.workspace == self._workspace
        ]

    def forget_deletion(self, deletion: Deletion) -> None:
        """Forget a deletion that nothing was done for."""
        key = {"store": deletion.store, "name": deletion.name, "number": deletion.number}
        self._database.execute(delete(DeletionRow).filter_by(**key))

    # ---- aliases ---------------------------------------------------------------------------

    def moving(self) -> AbstractContextManager[None]:
        """Hold the right to move aliases, against all who use this catalogue.

        Raises:
            WorkspaceLocked: somebody else holds it for too long.
        """
        return self._database.moving()

    def add_move(self, move: AliasMove) -> None:
        """Write into an alias's history that it moved, or was asked to."""
        self._database.execute(insert(AliasMoveRow).values(**asdict(move)))

    def alias_history(
        self, name: str, alias: str | None = None, store: str | None = None
    ) -> list[AliasMove]:
        """The moves of one alias, or of all of a name (in one MLflow), newest first."""
        query = select(AliasMoveRow).filter_by(name=name).order_by(AliasMoveRow.id.desc())
        return self._database.found(AliasMove, query.filter_by(**given(alias=alias, store=store)))

    # ---- evaluation sets -------------------------------------------------------------------

    def evaluation_sets(self, name: str | None = None) -> list[NamedSet]:
        """The sets that names (or one) have and had, by name and number."""
        query = select(EvaluationSetRow).order_by(EvaluationSetRow.name, EvaluationSetRow.number)
        return self._database.found(NamedSet, query.filter_by(**given(name=name)))

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
            query = select(EvaluationSetRow).filter_by(name=name)
            row = session.scalars(query.order_by(EvaluationSetRow.number.desc())).first()
            if row is None or (row.number == instead_of and row.digest != digest):
                row = EvaluationSetRow(
                    name=name, number=(row.number if row else 0) + 1, digest=digest, by=by,
                    reason=reason, at=utc_now(),
                )  # fmt: skip
                session.add(row)
                session.flush()
            return as_record(NamedSet, row)

        return self._database.writing(work)

    def forget_evaluation_sets(self, name: str) -> None:
        """Forget which sets a name had; the next version of that name makes one again."""
        self._database.execute(delete(EvaluationSetRow).filter_by(name=name))

    # ---- metrics ---------------------------------------------------------------------------

    def add_metrics(
        self,
        name: str,
        digest: str,
        metrics: Mapping[str, float],
        step: int = 0,
        *,
        curves: Mapping[str, Iterable[tuple[int, float]]] = MappingProxyType({}),
        measured_on: str | None = None,
    ) -> None:
        """Keep what was measured of a version; a value of the same key and step is replaced.

        Args:
            name, digest: of the version.
            metrics: values by their keys.
            step: of all these.
            curves: for each key a value at each of several steps; what `metrics` says of the same
                key and step wins.
            measured_on: digest of the evaluation set; None leaves what is known of it.

        Raises:
            UnknownVersion: no such version.
        """
        values = {(key, at): value for key, curve in curves.items() for at, value in curve}
        values |= {(key, step): value for key, value in metrics.items()}

        def work(session: Session) -> None:
            version = session.scalars(
                select(VersionRow).filter_by(name=name, digest=digest)
            ).one_or_none()
            if version is None:
                raise UnknownVersion(
                    f"{name} has no version with the digest {digest[:12]}",
                    "accepted are versions of this catalogue",
                    "type `bpeline versions` to see them",
                )
            if measured_on is not None:
                version.measured_on = measured_on
            known = {
                (row.key, row.step): row
                for row in session.scalars(select(MetricRow).filter_by(version_id=version.id))
            }
            for (key, at), value in values.items():
                row = known.get((key, at))
                if row is None:
                    row = MetricRow(version_id=version.id, key=key, step=at)
                    session.add(row)
                row.value = None if math.isnan(value) else float(value)

        self._database.writing(work)

    def forget_metrics(self, name: str, digest: str, which: Callable[[str], bool]) -> None:
        """Forget the metrics of a version whose keys are so."""

        def work(session: Session) -> None:
            query = select(MetricRow).join(VersionRow).filter_by(name=name, digest=digest)
            for row in session.scalars(query):
                if which(row.key):
                    session.delete(row)

        self._database.writing(work)

    def metrics(self, name: str, digest: str) -> list[Metric]:
        """What was measured of a version, by key and step; empty for one that is not known."""
        query = select(MetricRow).join(VersionRow).filter_by(name=name, digest=digest)
        with self._database.reading() as session:
            rows = session.scalars(query.order_by(MetricRow.key, MetricRow.step))
            return [_metric(row) for row in rows]

    def last_metrics(self, name: str | None = None) -> dict[tuple[str, str], dict[str, float]]:
        """Of every version (of a name) what was measured, of a curve its last point.

        Returns:
            By name and digest.
        """
        kind = MetricRow.version_id, MetricRow.key
        last = select(*kind, func.max(MetricRow.step).label("step")).group_by(*kind).subquery()
        query = (
            select(VersionRow.name, VersionRow.digest, MetricRow.key, MetricRow.value)
            .join(MetricRow)
            .join(last, and_(*(one == last.c[one.key] for one in (*kind, MetricRow.step))))
        )
        if name is not None:
            query = query.where(VersionRow.name == name)
        found: dict[tuple[str, str], dict[str, float]] = {}
        with self._database.reading() as session:
            for row_name, digest, key, value in session.execute(query):
                of_one = found.setdefault((row_name, digest), {})
                of_one[key] = math.nan if value is None else value
        return found


def _metric(row: MetricRow) -> Metric:
    return Metric(row.key, row.step, math.nan if row.value is None else row.value)
