"""The catalogue: which files were read, which runs ran, which versions exist, where aliases point.

The truth about lineage; MLflow is the window people look through. Every method is one transaction
and answers with frozen values. Knows no file but through the URL it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from bpeline.registry.catalogue.corpus import CorpusRecords
from bpeline.registry.catalogue.records import AliasMove, Metric, Version, utc_now
from bpeline.registry.catalogue.runs import RunRecords
from bpeline.registry.catalogue.tables import (
    AliasMoveRow,
    AliasRow,
    Database,
    MetricRow,
    Session,
    VersionRow,
    func,
    select,
)
from bpeline.tokenizer_core.errors import RegistryError, UnknownVersion


class Anywhere:
    """Says of an alias that it may point anywhere before it is moved."""


ANYWHERE: Final = Anywhere()


class Catalogue(CorpusRecords, RunRecords):
    """What this project remembers, in one database.

    Safe to use from several threads and processes at once.

    Args:
        url: an SQLAlchemy URL: `Workspace.catalogue_url`, or PostgreSQL. The tables are made or
            brought up to date on opening.
        workspace: `Workspace.id` of the workspace that asks. Files, tables and versions are
            everybody's; a run is continued where its checkpoint lies.

    Raises:
        InvalidOption: not a URL, or no driver for it.
        CorruptFile: the file is not a database.
        StorageError: made by a newer bpeline, or locked by others for too long. Every method may
            raise it too, as well as DiskFull and, for a server, RegistryUnreachable.
    """

    def __init__(self, url: str, workspace: str = "") -> None:
        self.url = url
        self._workspace = workspace
        self._database = Database(url)

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
        number: int | None = None,
        mlflow_run_id: str = "",
        mlflow_version: str = "",
    ) -> Version:
        """Register a version, or find the one that already has this name and digest.

        Args:
            name: the tokenizer's name.
            digest: digest of its behaviour.
            run_id: the run that made it.
            corpus_digest: the corpus it was trained on.
            counts_digest: the word counts it was trained on.
            vocab_size: number of ids.
            pattern: the split pattern's name or regex.
            number: the wanted number, such as the tracking server's; when None or taken by
                another digest, the next free one.
            mlflow_run_id: the MLflow run; fills in what an earlier registration lacked.
            mlflow_version: the version in MLflow; likewise.

        Returns:
            The version, newly registered or registered earlier.
        """

        def work(session: Session) -> Version:
            row = session.scalars(
                select(VersionRow).filter_by(name=name, digest=digest)
            ).one_or_none()
            if row is None:
                same_name = select(VersionRow.number).where(VersionRow.name == name)
                taken = session.scalar(same_name.where(VersionRow.number == number))
                last = session.scalar(select(func.max(same_name.subquery().c.number)))
                chosen = number if number is not None and taken is None else (last or 0) + 1
                row = VersionRow(
                    name=name,
                    number=chosen,
                    digest=digest,
                    run_id=run_id,
                    corpus_digest=corpus_digest,
                    counts_digest=counts_digest,
                    vocab_size=vocab_size,
                    pattern=pattern,
                    mlflow_run_id=mlflow_run_id,
                    mlflow_version=mlflow_version,
                    created_at=utc_now(),
                )
                session.add(row)
            row.mlflow_run_id = row.mlflow_run_id or mlflow_run_id
            row.mlflow_version = row.mlflow_version or mlflow_version
            session.flush()
            return _version(row)

        return self._database.writing(work)

    def names(self) -> list[str]:
        """The names that have versions, sorted."""
        with self._database.reading() as session:
            return sorted(session.scalars(select(VersionRow.name).distinct()))

    def versions(self, name: str | None = None) -> list[Version]:
        """All versions, or those of one name, by name and number."""
        query = select(VersionRow).order_by(VersionRow.name, VersionRow.number)
        if name is not None:
            query = query.where(VersionRow.name == name)
        with self._database.reading() as session:
            return [_version(row) for row in session.scalars(query)]

    def version(self, name: str, number: int) -> Version:
        """One version.

        Raises:
            UnknownVersion: there is none.
        """
        with self._database.reading() as session:
            return _version(_version_row(session, name, number))

    def find_version(self, name: str, digest: str) -> Version | None:
        """The version of that name with exactly that digest, if there is one."""
        with self._database.reading() as session:
            query = select(VersionRow).filter_by(name=name, digest=digest)
            row = session.scalars(query).one_or_none()
            return None if row is None else _version(row)

    def version_by_digest(self, prefix: str) -> Version:
        """The version whose digest begins so; the earliest when several names share the digest.

        Raises:
            UnknownVersion: there is none, or digests of several begin so.
        """
        query = select(VersionRow).order_by(VersionRow.id)
        query = query.where(VersionRow.digest.startswith(prefix, autoescape=True))
        with self._database.reading() as session:
            found = [_version(row) for row in session.scalars(query)] if prefix else []
        if len({version.digest for version in found}) != 1:
            raise UnknownVersion(
                f"{len(found) or 'no'} versions have a digest that begins with {prefix!r}",
                "accepted is enough of a digest to mean one version",
                "type `bpeline versions` to see them",
            )
        return found[0]

    # ---- aliases ---------------------------------------------------------------------------

    def set_alias(
        self,
        name: str,
        alias: str,
        number: int,
        *,
        by: str = "",
        reason: str = "",
        expected: int | Anywhere | None = ANYWHERE,
    ) -> AliasMove:
        """Point an alias to a version and keep the move in its history.

        Args:
            name: the tokenizer's name.
            alias: such as ``champion``.
            number: the version.
            by: who moves it.
            reason: why.
            expected: where it must point now for the move to happen; None for nowhere.

        Returns:
            The move. One that changes nothing is not kept in the history.

        Raises:
            UnknownVersion: no such version.
            RegistryError: the alias points elsewhere than expected.
        """

        def work(session: Session) -> AliasMove:
            _version_row(session, name, number)
            row = session.get(AliasRow, (name, alias), with_for_update=True)
            before = None if row is None else row.number
            if not isinstance(expected, Anywhere) and before != expected:
                raise RegistryError(
                    f"{name}@{alias} was moved to {_place(before)} meanwhile",
                    f"it was expected at {_place(expected)}",
                    "look at both versions and decide again",
                )
            if row is None:
                session.add(AliasRow(name=name, alias=alias, number=number))
            else:
                row.number = number
            return _kept_move(
                session, AliasMove(name, alias, before, number, by, reason, utc_now())
            )

        return self._database.writing(work)

    def keep_refusal(self, name: str, alias: str, *, by: str = "", reason: str = "") -> None:
        """Write into an alias's history that it was asked to move and stayed where it is."""

        def work(session: Session) -> None:
            row = session.get(AliasRow, (name, alias))
            place = None if row is None else row.number
            move = AliasMove(name, alias, place, place, by, reason, utc_now())
            session.add(AliasMoveRow(**asdict(move)))

        self._database.writing(work)

    def remove_alias(
        self, name: str, alias: str, *, by: str = "", reason: str = ""
    ) -> AliasMove | None:
        """Take an alias away; None when there was none."""

        def work(session: Session) -> AliasMove | None:
            row = session.get(AliasRow, (name, alias), with_for_update=True)
            if row is None:
                return None
            session.delete(row)
            return _kept_move(
                session, AliasMove(name, alias, row.number, None, by, reason, utc_now())
            )

        return self._database.writing(work)

    def alias(self, name: str, alias: str) -> Version:
        """The version an alias points to now.

        Raises:
            UnknownVersion: no such name or alias.
        """
        with self._database.reading() as session:
            row = session.get(AliasRow, (name, alias))
            if row is not None:
                return _version(_version_row(session, name, row.number))
        there = ", ".join(sorted(self.aliases(name))) or "none"
        raise UnknownVersion(
            f"{name}@{alias} does not exist",
            f"aliases of {name}: {there}",
            f"type `bpeline versions {name}` to see its versions",
        )

    def aliases(self, name: str) -> dict[str, int]:
        """``{alias: number}`` of one name, sorted by alias."""
        with self._database.reading() as session:
            query = select(AliasRow).filter_by(name=name).order_by(AliasRow.alias)
            return {row.alias: row.number for row in session.scalars(query)}

    def alias_history(self, name: str, alias: str | None = None) -> list[AliasMove]:
        """The moves of one alias, or of all of a name, newest first."""
        query = select(AliasMoveRow).filter_by(name=name).order_by(AliasMoveRow.id.desc())
        if alias is not None:
            query = query.filter_by(alias=alias)
        with self._database.reading() as session:
            return [
                AliasMove(
                    row.name, row.alias, row.from_number, row.to_number, row.by, row.reason, row.at
                )
                for row in session.scalars(query)
            ]

    # ---- metrics ---------------------------------------------------------------------------

    def add_metrics(
        self, name: str, number: int, metrics: Mapping[str, float], step: int = 0
    ) -> None:
        """Keep measured values of a version; a value of the same key and step is replaced.

        Raises:
            UnknownVersion: no such version.
        """
        self._keep(name, number, [Metric(key, step, value) for key, value in metrics.items()])

    def add_curve(
        self, name: str, number: int, key: str, curve: Iterable[tuple[int, float]]
    ) -> None:
        """Keep a value for each of several steps.

        Raises:
            UnknownVersion: no such version.
        """
        self._keep(name, number, [Metric(key, step, value) for step, value in curve])

    def metrics(self, name: str, number: int) -> list[Metric]:
        """What was measured of a version, by key and step.

        Raises:
            UnknownVersion: no such version.
        """
        with self._database.reading() as session:
            version_id = _version_row(session, name, number).id
            query = select(MetricRow).filter_by(version_id=version_id)
            rows = session.scalars(query.order_by(MetricRow.key, MetricRow.step))
            return [
                Metric(row.key, row.step, math.nan if row.value is None else row.value)
                for row in rows
            ]

    def _keep(self, name: str, number: int, metrics: Sequence[Metric]) -> None:
        def work(session: Session) -> None:
            version_id = _version_row(session, name, number).id
            known = {
                (row.key, row.step): row
                for row in session.scalars(select(MetricRow).filter_by(version_id=version_id))
            }
            for metric in metrics:
                row = known.get((metric.key, metric.step))
                if row is None:
                    row = MetricRow(version_id=version_id, key=metric.key, step=metric.step)
                    session.add(row)
                row.value = None if math.isnan(metric.value) else float(metric.value)

        self._database.writing(work)


def _version_row(session: Session, name: str, number: int) -> VersionRow:
    query = select(VersionRow).filter_by(name=name, number=number)
    row = session.scalars(query).one_or_none()
    if row is None:
        raise UnknownVersion(
            f"{name}/{number} does not exist",
            "accepted are registered versions",
            "type `bpeline versions` to see them",
        )
    return row


def _version(row: VersionRow) -> Version:
    return Version(
        row.name, row.number, row.digest, row.run_id, row.corpus_digest, row.counts_digest,
        row.vocab_size, row.pattern, row.mlflow_run_id, row.mlflow_version, row.created_at,
    )  # fmt: skip


def _kept_move(session: Session, move: AliasMove) -> AliasMove:
    if move.from_number != move.to_number:
        session.add(AliasMoveRow(**asdict(move)))
    return move


def _place(number: int | None) -> str:
    return "nowhere" if number is None else f"version {number}"
