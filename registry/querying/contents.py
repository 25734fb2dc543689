"""The data of the registry for SQL: versions, words, sources, chunks, runs.

`registry.querying.answers` stores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bpeline.registry.closed_duckdb import connect, library
from bpeline.registry.loading import resolve
from bpeline.registry.querying.layout import FORMAT
from bpeline.registry.querying.statements import Mention
from bpeline.registry.records import ByDigest, parse_registered
from bpeline.registry.versions import ListedVersion, list_versions
from bpeline.registry.word_counts import TableHandle, corpus_record, recorded_table
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption, UnknownVersion

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Version
    from bpeline.registry.opening import Registry

Row = dict[str, Any]
_AS_RECORDED = (
    "source", "language", "domain", "documents", "bytes", "held_out_bytes", "words",
    "distinct_words", "share", "weight", "weighted_words", "weighted_bytes", "weighted_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """Data stored once, even if several versions share it.

    Attributes:
        kind: see `layout.PART_TABLES`.
        digest: of the tokenizer; empty if the part has words only.
        table: key of the word-count table; empty if the part has a tokenizer only.
    """

    kind: str
    digest: str = ""
    table: str = ""

    @property
    def key(self) -> str:
        return f"{self.digest} {self.table}".strip()


@dataclass(frozen=True, slots=True)
class Name:
    """A name under which a part is found; see ``stored.names``."""

    kind: str
    name: str
    source: str
    part: Part


class Contents:
    """The data of one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._tables: dict[str, TableHandle | None] = {}
        self._statistics: dict[str, list[Row]] = {}

    @cached_property
    def listed(self) -> list[ListedVersion]:
        """All versions, as `bpeline versions` lists them."""
        return list_versions(workspace=self.registry)

    @property
    def fingerprint(self) -> str:
        """Changes when a version, an alias or a metric changes."""
        return digest_of(
            [FORMAT, [_without_infinities(asdict(version)) for version in self.listed]]
        )

    @property
    def fingerprint_of_runs(self) -> str:
        """Changes when a run starts, reaches its next step, or ends."""
        runs = self.registry.catalogue.runs()
        return digest_of([[run.id, run.state, run.step, run.finished_at] for run in runs])

    def find(self, reference: str) -> ListedVersion:
        """Return the version of a reference in a statement."""
        parsed = parse_registered(reference)
        if str(parsed) != reference:
            raise InvalidOption(
                f"{reference!r} is not the form used in the tables",
                "expected name@alias, name/number or a digest",
                f"write '{parsed}'",
            )
        resolved = resolve(self.registry, parsed)
        if isinstance(parsed, ByDigest) and resolved.digest in self.by_digest:
            return self.by_digest[resolved.digest]
        for version in self.listed:
            if (version.name, version.number, version.digest) == (
                resolved.name,
                resolved.number,
                resolved.digest,
            ):
                return version
        raise UnknownVersion(
            f"{reference} is not registered in this MLflow",
            "expected a version in the list of `bpeline versions`",
            "type `bpeline versions`",
        )

    def needed(self, mentions: Iterable[Mention]) -> set[Part]:
        """Return the parts that a statement reads.

        Raises:
            InvalidOption: a reference is not valid, or the version has no such source.
            UnknownVersion: no such version, or its training words are not here.
        """
        return {part for mention in mentions for part in self._parts_of(mention)}

    def _parts_of(self, mention: Mention) -> list[Part]:
        version = self.find(mention.version)
        tokens = Part("tokens", version.digest)
        if mention.relation == "merges":
            return [tokens]
        table = self.table_of(version)
        if mention.relation == "tokens":
            if table is None:
                return [tokens]
            slices = [
                Part("slice", version.digest, key)
                for key in self._tables_of_sources(version).values()
            ]
            return [tokens, Part("splits", version.digest, table.key), *slices]
        if table is None:
            twin = self.by_digest[version.digest]
            if self.table_of(twin) is not None:
                query = f"FROM {mention.relation}('{twin.reference}')"
                advice = f"""{twin.reference} is the same tokenizer: `bpeline sql "{query}"`"""
            else:
                advice = f"type `bpeline show {version.reference}` to see where it comes from"
            raise UnknownVersion(
                f"the words that {version.reference} was trained on are not in this workspace",
                "expected a version trained here whose word counts were not removed",
                advice,
            )
        if mention.relation == "word_counts":
            return [Part("words", table=table.key)]
        if mention.relation == "splits":
            return [Part("splits", version.digest, table.key)]
        tables = self._tables_of_sources(version)
        if mention.source not in tables:
            raise InvalidOption(
                f"{version.reference} has no source called {mention.source!r} with words",
                f"expected one of {', '.join(tables)}"
                if tables
                else "expected a source named in training: `--source english=FILES`",
                f"""type `bpeline sql "FROM sources WHERE version = '{version.reference}'"`""",
            )
        return [Part("words", table=tables[mention.source])]

    def names(self) -> list[Name]:
        names = []
        for version in self.listed:
            references = [
                version.reference,
                *(f"{version.name}@{alias}" for alias in version.aliases),
            ]
            if self.by_digest[version.digest] is version:
                references.append(version.digest)
            parts = [("tokens", "", Part("tokens", version.digest))]
            table = self.table_of(version)
            if table is not None:
                parts.append(("words", "", Part("words", table=table.key)))
                parts.append(("splits", "", Part("splits", version.digest, table.key)))
            for source, key in self._tables_of_sources(version).items():
                parts.append(("source", source, Part("words", table=key)))
                parts.append(("slice", source, Part("slice", version.digest, key)))
            names += [
                Name(kind, name, source, part)
                for name in references
                for kind, source, part in parts
            ]
        return names

    def table_of(self, version: ListedVersion) -> TableHandle | None:
        """Return the training word counts of a version; None if not here."""
        row = self._rows.get((version.name, version.digest))
        if row is None or not row.counts_digest:
            return None
        if row.counts_digest not in self._tables:
            keys = (
                table.key for table in self._remembered if table.counts_digest == row.counts_digest
            )
            handles = (recorded_table(self.registry.workspace, key) for key in keys)
            self._tables[row.counts_digest] = next(filter(None, handles), None)
        return self._tables[row.counts_digest]

    @cached_property
    def by_digest(self) -> dict[str, ListedVersion]:
        """Digest → its first version with word counts, else its first version."""
        with_counts = [version for version in self.listed if self.table_of(version) is not None]
        return {version.digest: version for version in (*self.listed[::-1], *with_counts[::-1])}

    @cached_property
    def _rows(self) -> dict[tuple[str, str], Version]:
        return {(row.name, row.digest): row for row in self.registry.catalogue.versions()}

    @cached_property
    def _remembered(self) -> list[Any]:
        return self.registry.catalogue.count_tables()

    def _tables_of_sources(self, version: ListedVersion) -> dict[str, str]:
        """Source → key of the table of its words."""
        rows = ((row["source"], str(row["table"])) for row in self._sources_recorded(version))
        keys = {source: name.removesuffix(".duckdb") for source, name in rows if name}
        return {
            source: key
            for source, key in keys.items()
            if recorded_table(self.registry.workspace, key)
        }

    def _sources_recorded(self, version: ListedVersion) -> list[Row]:
        """The named sources of a version's corpus; empty if unnamed."""
        table = self.table_of(version)
        if table is None:
            return []
        if table.key not in self._statistics:
            self._statistics[table.key] = self._read_statistics(table.key)
        return self._statistics[table.key]

    def _read_statistics(self, table_key: str) -> list[Row]:
        path = self.registry.workspace.source_statistics(table_key)
        if not path.exists():
            return []
        try:
            connection = connect(path, {}, read_only=True)
        except library().Error:  # optional; remade with the table
            return []
        try:
            answer = connection.execute("SELECT * FROM sources")
            columns = [column[0] for column in answer.description]
            return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
        except library().Error:
            return []
        finally:
            connection.close()

    def versions(self) -> list[Row]:
        rows = []
        for version in self.listed:
            row, table = self._rows.get((version.name, version.digest)), self.table_of(version)
            rows.append({
                "version": version.reference,
                "name": version.name,
                "number": version.number,
                "aliases": list(version.aliases),
                "digest": version.digest,
                "vocab_size": version.vocab_size,
                "pattern": version.pattern,
                "created_at": version.created_at or None,
                "words": table.rows if table else None,
                "occurrences": table.total if table else None,
                "corpus_digest": row.corpus_digest or None if row else None,
                "counts_digest": row.counts_digest or None if row else None,
                "run_id": version.run_id or None,
                "mlflow_run_id": version.mlflow_run_id or None,
                "comparable": version.comparable,
                "metrics": _without_infinities(version.metrics),
            })  # fmt: skip
        return rows

    def sources(self) -> list[Row]:
        """Rows of ``sources``: named sources, else the files of the corpus."""
        rows: list[Row] = []
        for version in self.listed:
            recorded = self._sources_recorded(version)
            for source in recorded:
                values = {name: source.get(name) for name in _AS_RECORDED}
                labels = {name: values[name] or None for name in ("language", "domain")}
                rows.append({"version": version.reference, **values, **labels})
            if not recorded:
                row = self._rows.get((version.name, version.digest))
                for file in self._files_of(row.corpus_digest if row else ""):
                    rows.append({
                        "version": version.reference, "source": file.path, "bytes": file.bytes
                    })  # fmt: skip
        return rows

    def chunks(self) -> list[Row]:
        """Rows of ``chunks``, for every corpus of a version."""
        rows = []
        for corpus in sorted({row.corpus_digest for row in self._rows.values()} - {""}):
            for file in self._files_of(corpus):
                rows += [
                    {
                        "corpus_digest": corpus,
                        "source": file.source or None,
                        "path": file.path,
                        "ordinal": chunk.ordinal,
                        "begin_byte": chunk.begin,
                        "end_byte": chunk.end,
                        "digest": chunk.digest,
                    }
                    for chunk in file.chunks
                ]
        return rows

    def runs(self) -> list[Row]:
        return [
            {
                "id": run.id,
                "name": run.name,
                "state": run.state,
                "step": run.step or None,
                "started_at": run.started_at or None,
                "finished_at": run.finished_at or None,
                "corpus_digest": run.corpus_digest or None,
                "counts_digest": run.counts_digest or None,
                "host": run.host,
                "error": run.error or None,
                "config": dict(run.config),
            }
            for run in self.registry.catalogue.runs()
        ]

    def _files_of(self, corpus_digest: str) -> Iterable[Any]:
        if not corpus_digest:
            return ()
        return corpus_record(self.registry.workspace, corpus_digest) or ()


def _without_infinities(value: Any) -> Any:
    """Replace floats that JSON cannot express with None."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
