"""What a workspace holds that no version needs: found by reachability and age, removed when asked.

Versions that the catalogue or MLflow knows reach the word counts they were trained on, these the
chunks' shards; a run that may still be continued reaches its checkpoint and counts; a publication
that waits reaches its files. What is left over costs disk and nothing else: all of it can be made
again from the sources. Nothing is removed while catalogue, disk and MLflow disagree.
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
    """Something that nothing reaches.

    Attributes:
        kind: ``table``: word counts of a corpus, or the record of its files; ``shard``: those of a
            chunk; ``pack``: those of many small ones, none of which is needed; ``run``: a
            checkpoint or what a run learned; ``version``: files of a tokenizer that is not
            registered; ``evaluation set``: one that no name has any more; ``words in SQL``: what
            `bpeline sql` made to read, and makes again; ``mlflow run`` and
            ``mlflow model``: what killed processes left in MLflow; ``standard input``: a corpus
            that came so.
        key: its name in the workspace, or MLflow's.
        paths: what there is of it, in the order of removal: first what makes it exist.
        size: bytes.
        days: since the last of it was written.
    """

    kind: Kind
    key: str
    paths: tuple[Path, ...]
    size: int
    days: float


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was found.

    Attributes:
        old: what may be removed.
        young: what nothing reaches either, but was written lately.
        unsure: why shards are kept although nothing is known to reach them; empty as a rule.
    """

    old: tuple[Leftover, ...]
    young: tuple[Leftover, ...]
    unsure: str = ""


def find_leftovers(
    registry: Registry, *, days: float = 30, counts_of: int | None = None
) -> Leftovers:
    """Look for what nothing reaches; removes nothing.

    Args:
        registry: the workspace, and the catalogue that knows its versions and runs.
        days: what was written later than so many days ago stays: somebody may be about to use it.
        counts_of: of each name the newest so many versions, and those that an alias points to,
            reach the word counts they were trained on; None: all versions do. Every registered
            tokenizer's own files are reached anyway.

    Raises:
        InvalidOption: a negative number.
        StorageError: catalogue, disk and MLflow disagree about the versions there are.
        RegistryUnreachable: MLflow does not answer.
    """
    if registry.workspace.store:
        counts = shlex.join([str(registry.workspace.shards), str(registry.workspace.tables)])
        raise InvalidOption(
            f"the files of this workspace are shared in {registry.workspace.store}",
            "gc looks for what nobody needs in a workspace of one machine",
            f"remove this machine's word counts while nothing runs: `rm -r {counts}`; they are "
            "fetched or counted again. Other files may be in no store: `bpeline resume` publishes "
            "what waits. The store has rules of its own for objects that grow old",
        )
    if days < 0 or (counts_of is not None and counts_of < 0):
        raise InvalidOption(
            f"days is {days}, counts_of is {counts_of}",
            "both are numbers from 0 upwards",
            "leave them out to keep the counts of all versions, and what is younger than 30 days",
        )
    reached = _Reached.of(registry, counts_of)
    found = sorted(_unreached(registry, reached), key=lambda one: (one.kind, one.key))
    return Leftovers(
        old=tuple(one for one in found if one.days >= days),
        young=tuple(one for one in found if one.days < days),
        unsure=reached.unsure,
    )


def remove_leftovers(
    registry: Registry, *, days: float = 30, counts_of: int | None = None
) -> Leftovers:
    """Remove what `find_leftovers` finds to be old, while nobody else works in the workspace.

    Returns:
        What was found; its ``old`` part is gone.

    Raises:
        WorkspaceLocked: somebody works in it.
        InvalidOption, StorageError, RegistryUnreachable: as `find_leftovers`.
    """
    with registry.workspace.lock("removing what no version needs"):
        found = find_leftovers(registry, days=days, counts_of=counts_of)
        _remove_files(found.old)  # first: on a full disk, this makes room for MLflow's journal
        for one in found.old:
            if one.kind == "mlflow run":
                registry.tracker.runs.remove_run(one.key)
            elif one.kind == "mlflow model":
                registry.tracker.models.remove_model(one.key)
    return found


def make_room(registry: Registry) -> None:
    """Remove files that no version needs, without writing a byte.

    These are old leftovers and what `bpeline sql` made. The caller holds the workspace.
    """
    if registry.workspace.words_database.exists():
        DURABLE.remove(registry.workspace.words_database)
    with suppress(BpelineError):  # what nothing needs is not known now
        _remove_files(find_leftovers(registry).old)


def _remove_files(leftovers: Iterable[Leftover]) -> None:
    for path in (path for one in leftovers for path in one.paths):
        if path.is_dir() and not path.is_symlink():
            DURABLE.remove_tree(path)
        else:
            DURABLE.remove(path)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Keys of what must stay, of tables and records of corpora alike.

    ``runs`` are the word counts that unfinished runs learn from; ``unsure`` says why all shards
    must stay.
    """

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
        require_agreement(registry, tracked, "removing what nothing needs")
        versions = catalogue.versions()
        unfinished = catalogue.unfinished_runs()
        waiting = list(_waiting(registry))
        needing: list[Version | Run | Publication] = [
            *_whose_counts_stay(registry, versions, tracked, counts_of),
            *unfinished,
            *waiting,
        ]
        digests = {one.counts_digest for one in needing} - {""}
        tables = [table for table in catalogue.count_tables() if table.counts_digest in digests]
        corpora = {one.corpus_digest for one in versions}
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
                {one.digest for one in versions}
                | {one.digest for one in tracked}
                | {one.digest for one in waiting}
            ),
            sets=_sets_in_use(registry, [*versions, *unfinished, *waiting, *tracked]),
            paths=_paths_of(
                registry, [*(one.run_id for one in versions), *(one.run_id for one in waiting)]
            ),
            unsure=unsure,
        )


def _sets_in_use(
    registry: Registry, needing: Iterable[Version | Run | Publication | TrackedVersion]
) -> frozenset[str]:
    """The evaluation sets that names have now of which anything is left."""
    names = {one.name for one in needing}
    latest = {one.name: one.digest for one in registry.catalogue.evaluation_sets()}
    return frozenset(digest for name, digest in latest.items() if name in names)


def _paths_of(registry: Registry, run_ids: Iterable[str]) -> frozenset[str]:
    """The paths that runs of versions, and those that may be continued, were told to read."""
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
    aliased = {one.digest for one in tracked if one.number in aliases.get(one.name, {}).values()}
    for ones in by_name.values():
        newest = ones[max(0, len(ones) - counts_of) :]
        yield from (one for one in ones if one in newest or one.digest in aliased)


def _waiting(registry: Registry) -> Iterator[Publication]:
    for path in waiting_records(registry.workspace):
        with suppress(FileNotFoundError):  # looking takes no lock: it was published meanwhile
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
                one for one in (record, path) if one.exists()
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
    """Runs that never ended and will not be continued; models that no version was made of."""
    if not registry.store:  # nothing of ours was ever written there
        return
    needed = {run.id for run in registry.catalogue.unfinished_runs()}
    needed |= {publication.run_id for publication in _waiting(registry)}
    tracker = registry.tracker
    kinds: dict[Kind, list[Unended]] = {
        "mlflow run": tracker.runs.unended_runs(),
        "mlflow model": tracker.models.unregistered_models(),
    }
    for kind, ones in kinds.items():
        for one in ones:
            if one.run_id not in needed:
                days = (time.time() - one.begun_ms / 1000) / _SECONDS_A_DAY
                yield Leftover(kind, one.id, (), 0, days)


def _by_key(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by what stands before their first dot; what killed writers left is the sweep's."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        if not is_temporary(path):
            found.setdefault(path.name.partition(".")[0], []).append(path)
    return found


def _leftover(kind: Kind, key: str, first: Path, paths: Iterable[Path]) -> Leftover:
    ordered = sorted(paths, key=lambda path: (path != first, path.name))
    states = [state for path in ordered for state in _states(path)]
    youngest = max((state.st_mtime for state in states), default=time.time())
    size = sum(state.st_size for state in states)
    return Leftover(kind, key, tuple(ordered), size, (time.time() - youngest) / _SECONDS_A_DAY)


def _states(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of a directory and all below; what others rename or remove meanwhile is not."""
    below = [
        Path(directory) / name
        for directory, names, files in os.walk(path)
        for name in names + files
    ]
    for one in (path, *below):
        with suppress(FileNotFoundError):
            yield one.lstat()
