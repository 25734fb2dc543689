"""Create the catalogue's tables or convert those of 0.2, in one transaction.

Tables of 0.2 whose layout changed are copied; the old ones stay unchanged. An interrupted
conversion changes nothing.
"""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import MetaData, func, inspect, select
from sqlalchemy.orm import Session

from bpeline.registry.catalogue.models import (
    AliasMove,
    Base,
    Identity,
    Run,
    SchemaVersion,
    Version,
    as_figures,
)
from bpeline.registry.catalogue.values import as_asked
from bpeline.tokenizer_core.errors import StorageError

NUMBER = 8
_RELEASE_0_2 = (6, 7)
_FORMER = ("versions", "runs", "alias_history", "registrations", "metrics", "deletions")


def number_of(session: Session, place: str) -> int | None:
    """Return a database's schema number; None if it has no tables."""
    if not inspect(session.connection()).has_table(SchemaVersion.__tablename__):
        return None
    number = session.scalar(select(func.max(SchemaVersion.number))) or 0
    if number > NUMBER:
        raise StorageError(
            f"the catalogue {place} has the schema version {number}",
            f"expected at most version {NUMBER}",
            "install a newer bpeline, or set BPELINE_CATALOGUE_URL to another catalogue",
        )
    if number not in (*_RELEASE_0_2, NUMBER):
        raise StorageError(
            f"the catalogue {place} was made by bpeline 0.1",
            "expected a workspace of bpeline 0.2 or later",
            "type `bpeline promote NAME/NUMBER` with bpeline 0.2 to convert the workspace",
        )
    return number


def prepare(session: Session, place: str) -> None:
    """Create missing tables of this release and copy the rows of 0.2."""
    number = number_of(session, place)  # again: another process may have converted it
    if number == NUMBER:
        return
    Base.metadata.create_all(session.connection())
    if number is None:
        session.add(Identity(secrets.token_hex(8)))
    else:
        _convert(session)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    session.add(SchemaVersion(NUMBER, now))  # 0.2 rejects this number


def _convert(session: Session) -> None:
    former = MetaData()
    former.reflect(session.connection(), only=_FORMER)

    def rows(name: str, *order: str) -> list[dict[str, Any]]:
        table = former.tables[name]
        query = select(table).order_by(*(table.c[column] for column in order))
        return [dict(row) for row in session.execute(query).mappings()]

    registered: dict[tuple[str, str], dict[str, int]] = {}
    digests: dict[tuple[str, str, int | None], str] = {}
    for row in rows("registrations", "number"):
        registered.setdefault((row["name"], row["digest"]), {})[row["store"]] = row["number"]
        digests[row["store"], row["name"], row["number"]] = row["digest"]
    figures: dict[int, dict[tuple[str, int], float]] = {}
    for row in rows("metrics"):
        value = math.nan if row["value"] is None else row["value"]
        figures.setdefault(row["version_id"], {})[row["key"], row["step"]] = value
    for row in rows("versions", "id"):
        session.add(
            Version(
                **_without(row, "id", "number"),
                registered=registered.get((row["name"], row["digest"]), {}),
                figures=as_figures(figures.get(row["id"], {})),
            )
        )
        session.flush()  # one by one, so that keys keep the order
    for row in rows("runs", "number"):
        config = as_asked(row["config"])
        rule = config.pop("left_out_rule", 1)
        values = _without(row, "number", "steps") | {"config": config, "left_out_rule": rule}
        session.add(Run(**values))
        session.flush()
    for row in rows("alias_history", "id"):
        for end in ("from", "to"):  # 0.2.0 stored digests only for its own moves
            key = (row["store"], row["name"], row[f"{end}_number"])
            row[f"{end}_digest"] = row.get(f"{end}_digest") or digests.get(key, "")
        session.add(AliasMove(**_without(row, "id")))
        session.flush()
    _warn_of_deletions(rows("deletions", "name", "number"))


def _warn_of_deletions(rows: Iterable[Mapping[str, Any]]) -> None:
    begun = [f"{row['name']}/{row['number']}" for row in rows if not row["done_at"]]
    if begun:
        warnings.warn(
            f"bpeline 0.2 began to delete {', '.join(begun)} and did not finish. "
            f"Type `bpeline delete {begun[0]} --yes`",
            stacklevel=2,
        )


def _without(row: Mapping[str, Any], *columns: str) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column not in columns}
