"""Garbage collection of a workspace, by reachability and age.

Versions reach their word counts and these reach the shards of chunks; unfinished runs reach their
checkpoints and counts; pending publications reach their files. Everything else can be rebuilt
from the sources. Nothing is removed while catalogue, files and MLflow disagree.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bpeline.registry.catalogue import Run, Version
from bpeline.registry.opening import Registry
from bpeline.registry.publishing import waiting_records
from bpeline.registry.records import Publication
from bpeline.registry.tracking import TrackedVersion, Unended
from bpeline.registry.upkeep.repairs import require_agreement
from bpeline.registry.word_counts import WordCountStore, shards_in
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile, InvalidOption

Kind = Literal[
    "table", "shard", "pack", "run", "version", "evaluation set", "words in SQL", "mlflow run",
    "mlflow model", "standard input",
]  # fmt: skip
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something unreachable.

    Attributes:
        kind: ``table``: word counts of a corpus, or the record of its files; ``shard``: those of a
            chunk; ``pack``: those of many small chunks; ``run``: a checkpoint or the tokenizer of
            a run; ``version``: files of an unregistered tokenizer; ``evaluation set``: one that
            no name uses; ``words in SQL``: the database of `bpeline sql`, rebuilt when needed;
            ``mlflow run``, ``mlflow model``: left in MLflow by killed processes; ``standard
            input``: a corpus read from standard input.
        paths: its files in the order of removal, the one that makes it exist first.
        days: age in days, since the last write.
    """

    kind: Kind
    key: str
    paths: tuple[Path, ...]
    size: int
    days: float


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The result of `find_leftovers`.

    Attributes:
        young: unreachable too, but written recently.
        unsure: why all shards are kept; usually empty.
    """

    old: tuple[Leftover, ...]
    young: tuple[Leftover, ...]
    unsure: str = ""


def find_leftovers(
    registry: Registry, *, days: float = 30, counts_of: int | None = None
) -> Leftovers:
    """Find unreachable data; removes nothing.

    Args:
        days: minimum age of ``old`` leftovers; younger ones may be about to be used.
        counts_of: number of newest versions of each name whose word counts are kept, besides
            versions with an alias; None keeps all word counts. Files of registered
            tokenizers are always kept.

    Raises:
        InvalidOption: a number is negative, or the workspace has a shared store.
        StorageError: catalogue, files and MLflow disagree.
        RegistryUnreachable: MLflow does not answer.
    """
    if registry.workspace.store:
        counts = shlex.join([str(registry.workspace.shards), str(registry.workspace.tables)])
        raise InvalidOption(
            f"the files of this workspace are shared in {registry.workspace.store}",
            "gc only works in a workspace of one machine",
            f"remove this machine's word counts while nothing runs: `rm -r {counts}`; they are "
            "fetched or counted again. Other files may not be in the store: `bpeline resume` "
            "publishes pending ones. Use lifecycle rules for old objects in the store",
        )
    if days < 0 or (counts_of is not None and counts_of < 0):
        raise InvalidOption(
            f"days is {days}, counts_of is {counts_of}",
            "expected numbers from 0 upwards",
            "leave them out to keep the counts of all versions, and data younger than 30 days",
        )
    reached = _Reached.of(registry, counts_of)
    leftovers = sorted(
        _unreached(registry, reached), key=lambda leftover: (leftover.kind, leftover.key)
    )
    return Leftovers(
        old=tuple(leftover for leftover in leftovers if leftover.days >= days),
        young=tuple(leftover for leftover in leftovers if leftover.days < days),
        unsure=reached.unsure,
    )


def remove_leftovers(
    registry: Registry, *, days: float = 30, counts_of: int | None = None
) -> Leftovers:
    """Remove the ``old`` leftovers of `find_leftovers`, with the workspace lock."""
    with registry.workspace.lock("removing what no version needs"):
        leftovers = find_leftovers(registry, days=days, counts_of=counts_of)
        _remove_files(leftovers.old)  # first, to make room for MLflow's journal on a full disk
        for leftover in leftovers.old:
            if leftover.kind == "mlflow run":
                registry.tracker.runs.remove_run(leftover.key)
            elif leftover.kind == "mlflow model":
                registry.tracker.models.remove_model(leftover.key)
    return leftovers


def make_room(registry: Registry) -> None:
    """Remove old leftovers and the database of `bpeline sql`, without writing.

    The caller holds the workspace lock.
    """
    if registry.workspace.words_database.exists():
        DURABLE.remove(registry.workspace.words_database)
    with suppress(BpelineError):  # leftovers cannot be determined now
        _remove_files(find_leftovers(registry).old)


def _remove_files(leftovers: Iterable[Leftover]) -> None:
    for path in (path for leftover in leftovers for path in leftover.paths):
        if path.is_dir() and not path.is_symlink():
            DURABLE.remove_tree(path)
        else:
            DURABLE.remove(path)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Keys of reachable data."""

    tables: frozenset[str]
    shards: frozenset[str]
    runs: frozenset[str]
    versions: frozenset[str]
    sets: frozenset[str]
    paths: frozenset[str]
    unsure: str

    @classmethod
    def of(cls, registry: Registry, counts_of: int | None) -> _Reached:
        catalogue, workspace = registry.catalogue, registry.workspace
        tracked = registry.tracker.versions()
        require_agreement(registry, tracked)
        versions = catalogue.versions()
        unfinished = catalogue.unfinished_runs()
        waiting = list(_waiting(registry))
        needing: list[Version | Run | Publication] = [
            *_whose_counts_stay(registry, versions, tracked, counts_of),
            *unfinished,
            *waiting,
        ]
        digests = {entry.counts_digest for entry in needing} - {""}
        tables = [table for table in catalogue.count_tables() if table.counts_digest in digests]
        corpora = {entry.corpus_digest for entry in versions}
        corpora |= {run.corpus_digest for run in unfinished}
        corpora |= {publication.corpus_digest for publication in waiting}
        own_runs = {run.id for run in catalogue.runs() if run.workspace == workspace.id}
        store = WordCountStore(workspace)
        shards: set[str] = set()
        unsure = ""
        for table in tables:
            try:
                shards.update(store.shards_of(table.key))
            except CorruptFile as error:
                if table.run_id in own_runs:
                    unsure = f"all shards are kept, since {error.happened}"
        return cls(
            tables=frozenset(table.key for table in tables) | corpora,
            shards=frozenset(shards),
            runs=frozenset(run.counts_digest for run in unfinished),
            versions=frozenset(
                {entry.digest for entry in versions}
                | {entry.digest for entry in tracked}
                | {entry.digest for entry in waiting}
            ),
            sets=_sets_in_use(registry, [*versions, *unfinished, *waiting, *tracked]),
            paths=_paths_of(
                registry,
                [*(entry.run_id for entry in versions), *(entry.run_id for entry in waiting)],
            ),
            unsure=unsure,
        )


def _sets_in_use(
    registry: Registry, needing: Iterable[Version | Run | Publication | TrackedVersion]
) -> frozenset[str]:
    """Return the current evaluation sets of names that still have versions or runs."""
    names = {entry.name for entry in needing}
    latest = {entry.name: entry.digest for entry in registry.catalogue.evaluation_sets()}
    return frozenset(digest for name, digest in latest.items() if name in names)


def _paths_of(registry: Registry, run_ids: Iterable[str]) -> frozenset[str]:
    """Return the input paths of unfinished runs and of the runs of versions."""
    needed = {*run_ids, *(run.id for run in registry.catalogue.unfinished_runs())}
    runs = (run for run in registry.catalogue.runs() if run.id in needed)
    return frozenset(path for run in runs for path in run.config.get("paths") or ())


def _whose_counts_stay(
    registry: Registry,
    versions: Iterable[Version],
    tracked: Iterable[TrackedVersion],
    counts_of: int | None,
) -> Iterator[Version]:
    if counts_of is None:
        yield from versions
        return
    by_name: dict[str, list[Version]] = {}
    for version in versions:
        by_name.setdefault(version.name, []).append(version)
    aliases = registry.tracker.aliases()
    aliased = {
        entry.digest for entry in tracked if entry.number in aliases.get(entry.name, {}).values()
    }
    for group in by_name.values():
        newest = group[max(0, len(group) - counts_of) :]
        yield from (entry for entry in group if entry in newest or entry.digest in aliased)


def _waiting(registry: Registry) -> Iterator[Publication]:
    for path in waiting_records(registry.workspace):
        with suppress(FileNotFoundError):  # published meanwhile: searching takes no lock
            yield Publication.of_file(path)


def _unreached(registry: Registry, reached: _Reached) -> Iterator[Leftover]:
    workspace = registry.workspace
    for key, paths in _by_key(workspace.tables.glob("*")).items():
        if key not in reached.tables:
            first = workspace.table_manifest(key)
            yield _leftover("table", key, first, paths)
    for key, paths in _by_key(workspace.packs.glob("*")).items():
        first = workspace.packs / f"{key}.json"
        keys = {shard.key for shard in shards_in(first)}
        if reached.shards.isdisjoint(keys) and not reached.unsure:
            yield _leftover("pack", key, first, paths)
    loose = (path for path in workspace.shards.glob("*/*") if path.parent != workspace.packs)
    for key, paths in _by_key(loose).items():
        if key not in reached.shards and not reached.unsure:
            yield _leftover("shard", key, workspace.shard_manifest(key), paths)
    for path in workspace.runs.glob("*"):
        needed = any(workspace.learns_from(path, digest) for digest in reached.runs)
        if not needed and not is_temporary(path):
            yield _leftover("run", path.name, path, [path])
    for path in workspace.versions.glob("*"):
        registered = path.name in reached.versions or path == workspace.resolved_references
        if not registered and not is_temporary(path):
            yield _leftover("version", path.name, path, [path])
    for path in workspace.evaluation_sets.glob("*"):
        if path.name not in reached.sets and not is_temporary(path):
            record = workspace.evaluation_set(path.name)
            paths = [
                candidate for candidate in (record, path) if candidate.exists()
            ]  # a killed writer left no record
            yield _leftover("evaluation set", path.name, record, paths)
    for path in workspace.standard_input.glob("*"):
        if str(path) not in reached.paths and not is_temporary(path):
            yield _leftover("standard input", path.name, path, [path])
    database = workspace.words_database
    if database.exists():
        yield _leftover("words in SQL", database.name, database, [database])
    yield from _left_in_mlflow(registry)


def _left_in_mlflow(registry: Registry) -> Iterator[Leftover]:
    """Yield runs that will never end, and stored models without a version."""
    if not registry.store:  # bpeline has never written to this MLflow
        return
    needed = {run.id for run in registry.catalogue.unfinished_runs()}
    needed |= {publication.run_id for publication in _waiting(registry)}
    tracker = registry.tracker
    kinds: dict[Kind, list[Unended]] = {
        "mlflow run": tracker.runs.unended_runs(),
        "mlflow model": tracker.models.unregistered_models(),
    }
    for kind, items in kinds.items():
        for item in items:
            if item.run_id not in needed:
                days = (time.time() - item.begun_ms / 1000) / _SECONDS_A_DAY
                yield Leftover(kind, item.id, (), 0, days)


def _by_key(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group files by the name before their first dot, without temporary files."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        if not is_temporary(path):
            groups.setdefault(path.name.partition(".")[0], []).append(path)
    return groups


def _leftover(kind: Kind, key: str, first: Path, paths: Iterable[Path]) -> Leftover:
    ordered = sorted(paths, key=lambda path: (path != first, path.name))
    states = [state for path in ordered for state in _states(path)]
    youngest = max((state.st_mtime for state in states), default=time.time())
    size = sum(state.st_size for state in states)
    return Leftover(kind, key, tuple(ordered), size, (time.time() - youngest) / _SECONDS_A_DAY)


def _states(path: Path) -> Iterator[os.stat_result]:
    """Yield the state of a file, or of a directory and all below it."""
    below = [
        Path(directory) / name
        for directory, names, files in os.walk(path)
        for name in names + files
    ]
    for entry in (path, *below):
        with suppress(FileNotFoundError):
            yield entry.lstat()
