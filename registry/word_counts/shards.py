"""The shards of a workspace: each in files of its own, or many small ones in a pack.

A shard is immutable and may be written by any process; its record, or its pack's, is written last
and is what makes it exist. Arrow files are the arrays themselves: writing or reading one costs a
third of Parquet, for twice its size. Which shards belong together in a corpus, others know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.word_counts.arrow_columns import (
    counts_as_file,
    counts_from_file,
    counts_to_file,
    documents_as_file,
    documents_from_file,
)
from bpeline.registry.word_counts.packs import Packs
from bpeline.registry.word_counts.shard_records import (
    SHARD_FORMAT,
    Placed,
    RowSums,
    Shard,
    as_record,
    from_record,
    shard_key,
    shard_of,
)
from bpeline.registry.workspace import (
    FileSeal,
    Workspace,
    damaged,
    fetch,
    fetch_all,
    forget,
    read_record,
    write_record,
    write_sealed,
    writing_shared,
)
from bpeline.tokenizer_core.errors import CorruptFile

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import ChunkCounts, WordCounts
    from bpeline.tokenizer_core.splitting import SplitPattern

SMALL_CHUNK_BYTES = 1 << 20  # of text; writing the counts of larger ones is cheap beside counting
_PENDING_BYTES = 16 << 20  # of words in memory


class ShardFiles:
    """The shards of a workspace.

    Args:
        workspace: where they lie.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._packs = Packs(workspace)

    def write(
        self, counted: ChunkCounts, reading_digest: str, rows: ShardRows | None = None
    ) -> Shard:
        """Write a chunk's counts, replacing a shard of the same key.

        Args:
            counted: the chunk.
            reading_digest: how it was read.
            rows: its words, where they were written while it was counted.

        Raises:
            DiskFull: no space; an earlier shard of the same key may be lost.
        """
        key = shard_key(counted.chunk.digest, reading_digest)
        counts, held_out = counted.counts, counted.held_out
        if rows is not None and rows.seal is not None:
            sums, counts_seal = rows.sums, rows.seal
        else:
            sums = RowSums().with_rows(counts)
            counts_seal = write_sealed(
                self._workspace.shard_counts(key), counts_as_file(counts), self._workspace
            )
        held_out_seal = None
        if held_out:
            path = self._workspace.shard_held_out(key)
            held_out_seal = write_sealed(path, documents_as_file(held_out), self._workspace)
        shard = shard_of(counted, key, sums, counts_seal, held_out_seal)
        write_record(self._workspace.shard_manifest(key), as_record(shard), self._workspace)
        return shard

    @contextmanager
    def rows_of(self, chunk_digest: str, reading_digest: str) -> Iterator[ShardRows]:
        """Take the words of a chunk part by part, for `write`; nothing is written if none comes.

        Raises:
            DiskFull: no space left.
        """
        key = shard_key(chunk_digest, reading_digest)
        rows = ShardRows(self._workspace, self._workspace.shard_counts(key))
        with rows.file:
            yield rows

    def write_together(self, parts: Sequence[ChunkCounts], reading_digest: str) -> None:
        """Write the counts of some chunks; errors as `write`."""
        if len(parts) == 1:
            self.write(parts[0], reading_digest)
        elif parts:
            self._packs.write(parts, reading_digest)

    def read(self, key: str) -> Shard:
        """What is known of a shard; its files are not opened.

        Raises:
            CorruptFile: there is no such shard, or its record is damaged.
        """
        packed = self._packs.find(key)
        if packed is not None:
            return packed
        path = self._workspace.shard_manifest(key)
        record = read_record(path, SHARD_FORMAT, self._workspace)
        try:
            shard = from_record(record)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path) from error
        if shard.key != key:
            raise damaged(path)
        return shard

    def verify(self, shard: Shard) -> None:
        """Read the shard's words and compare them with its record.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        if shard.packed is not None:
            self._packs.counts(shard.packed, shard.pattern)
        else:
            shard.counts_seal.read(self._workspace.shard_counts(shard.key), self._workspace)

    def counts(self, shard: Shard, pattern: SplitPattern) -> WordCounts:
        """The shard's words, verified; first positions are bytes from the chunk's begin.

        Args:
            shard: as `read` gave it.
            pattern: the one it names, parsed.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        if shard.packed is not None:
            return self._packs.counts(shard.packed, pattern)
        content = shard.counts_seal.read(self._workspace.shard_counts(shard.key), self._workspace)
        return counts_from_file(content, pattern)

    def placed(self, group: Sequence[Placed], pattern: SplitPattern) -> WordCounts:
        """The words of shards that are read together, at their places in the corpus.

        A shard at several places is given once: its earliest sight, every occurrence, which must
        not exceed 2⁶³ − 1. A word that several shards hold has several rows.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        if group[0].shard.packed is not None:
            return self._packs.placed(group, pattern)
        (one,) = group
        moved = self.counts(one.shard, pattern).shifted(min(one.bases))
        times = len(one.bases)
        return moved if times == 1 else replace(moved, counts=moved.counts * times)

    def is_there(self, key: str) -> bool:
        """Whether a shard exists, as far as its record and the sizes of its files tell.

        Raises:
            StorageError: the workspace's store does not answer.
        """
        return bool(self.there([key]))

    def there(self, keys: Iterable[str]) -> set[str]:
        """Those of many shards that exist; each pack is looked at once. Errors as `is_there`."""
        keys = set(keys)
        packs: dict[str, list[str]] = {}
        alone = []
        for key in keys:
            shard = self._packs.find(key)
            if shard is None or shard.packed is None:
                alone.append(key)
            else:
                packs.setdefault(shard.packed.pack, []).append(key)
        if self._workspace.store:
            fetch_all(self._workspace, map(self._workspace.shard_manifest, alone))
        alone = [key for key in alone if self._workspace.has_shard_manifest(key)]
        found = set(filter(self._is_there_alone, alone))
        return found.union(*(packs[name] for name in packs if self._packs.is_there(name)))

    def _is_there_alone(self, key: str) -> bool:
        if not fetch(self._workspace, self._workspace.shard_manifest(key)):
            return False
        try:
            shard = self.read(key)
        except CorruptFile:
            return False
        held_out = shard.held_out_seal
        return shard.counts_seal.fits(self._workspace.shard_counts(key), self._workspace) and (
            held_out is None or held_out.fits(self._workspace.shard_held_out(key), self._workspace)
        )

    def forget(self, key: str) -> None:
        """Remove a shard, its record first; one in a pack along with the others in it."""
        packed = self._packs.find(key)
        if packed is not None and packed.packed is not None:
            self._packs.forget(packed.packed)
            return
        for path in (
            self._workspace.shard_manifest(key),
            self._workspace.shard_counts(key),
            self._workspace.shard_held_out(key),
        ):
            forget(self._workspace, path)

    def held_out(self, shard: Shard) -> Iterator[bytes]:
        """The held-out documents of a shard, in the order of the chunk.

        Raises:
            CorruptFile: they are missing or not what was written.
        """
        if shard.packed is not None:
            yield from self._packs.held_out(shard, shard.packed)
        elif shard.held_out_seal is not None:
            path = self._workspace.shard_held_out(shard.key)
            yield from documents_from_file(shard.held_out_seal.read(path, self._workspace))


class ShardRows:
    """The words of one chunk while they are counted, on their way into a file.

    Attributes:
        sums: of what was added.
        seal: of the file when it is finished; None when nothing was added.
        file: what publishes it when it is closed.
    """

    def __init__(self, workspace: Workspace, path: Path) -> None:
        self.sums = RowSums()
        self.seal: FileSeal | None = None
        self.file = ExitStack()
        self._workspace, self._path = workspace, path
        self._append: Callable[[WordCounts], None] | None = None

    def add(self, counts: WordCounts) -> None:
        """Write some words."""
        if self._append is not None:
            self._append(counts)
        else:
            aside = self.file.enter_context(writing_shared(self._workspace, self._path))
            self.file.callback(self._finish, aside)
            self._append = self.file.enter_context(counts_to_file(aside, counts))
        self.sums = self.sums.with_rows(counts)

    def _finish(self, aside: Path) -> None:
        self.seal = FileSeal.of_file(aside)


def read_together(places: Iterable[tuple[Shard, int]]) -> list[tuple[Placed, ...]]:
    """Shards in the order of the corpus: those of one pack together, every other one alone.

    Args:
        places: a shard at each of its positions in the corpus, in any order.
    """
    bases: dict[str, tuple[Shard, list[int]]] = {}
    for shard, base in places:
        bases.setdefault(shard.key, (shard, []))[1].append(base)
    groups: dict[str, list[Placed]] = {}
    for shard, ones in sorted(bases.values(), key=lambda one: min(one[1])):
        name = shard.key if shard.packed is None else shard.packed.pack
        groups.setdefault(name, []).append(Placed(shard, ones))
    return [tuple(group) for group in groups.values()]


class SmallShards:
    """Writes the counts of chunks; keeps those of small ones until there are enough for a pack.

    Args:
        files: the shards of a workspace.
        together: whether small ones are kept; otherwise each is written at once.
    """

    def __init__(self, files: ShardFiles, together: bool) -> None:
        self._files, self._together = files, together
        self._pending: dict[str, ChunkCounts] = {}
        self._reading_digest = ""
        self._bytes = 0

    def has(self, chunk_digest: str, reading_digest: str) -> bool:
        """Whether a chunk was counted: by anybody, or here just now."""
        return bool(self.there([chunk_digest], reading_digest))

    def there(self, chunk_digests: Iterable[str], reading_digest: str) -> set[str]:
        """Those of several chunks, by their digests, for which `has` says yes."""
        keys = {digest: shard_key(digest, reading_digest) for digest in chunk_digests}
        found = self._files.there(key for key in keys.values() if key not in self._pending)
        found.update(self._pending)
        return {digest for digest, key in keys.items() if key in found}

    def rows_of(self, chunk_digest: str, reading_digest: str) -> AbstractContextManager[ShardRows]:
        """See `ShardFiles.rows_of`."""
        return self._files.rows_of(chunk_digest, reading_digest)

    def put(self, counted: ChunkCounts, reading_digest: str, rows: ShardRows | None = None) -> None:
        """Keep a chunk's counts; arguments and errors as `ShardFiles.write`."""
        if not self._together or counted.parts > 1 or counted.chunk.size > SMALL_CHUNK_BYTES:
            self._files.write(counted, reading_digest, rows)
            return
        if reading_digest != self._reading_digest:
            self.write()
            self._reading_digest = reading_digest
        self._pending[shard_key(counted.chunk.digest, reading_digest)] = counted
        counts = counted.counts
        self._bytes += counts.word_bytes.nbytes + 3 * counts.offsets.nbytes
        self._bytes += sum(map(len, counted.held_out))
        if self._bytes >= _PENDING_BYTES:
            self.write()

    def write(self) -> None:
        """Write what is kept."""
        pending = [*self._pending.values()]
        self._pending, self._bytes = {}, 0
        self._files.write_together(pending, self._reading_digest)
