"""The counts of chunks in Parquet files: each chunk in a file of its own, small ones together.

A file is immutable and may be written by any process; its record is written last and is what makes
its chunks exist. A file of several chunks is nothing but what was written together: it is named by
the keys it holds, and a chunk that comes later goes into another one. Which chunks belong together
in a corpus, others know.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.word_counts import rows
from bpeline.registry.word_counts.rows import CountsFile
from bpeline.registry.word_counts.shard_records import (
    RECORD_FORMAT,
    Shard,
    as_record,
    from_record,
    shard_key,
)
from bpeline.registry.workspace import (
    Workspace,
    damaged,
    fetch_all,
    fetch_below,
    forget,
    read_record,
    write_record,
)
from bpeline.tokenizer_core.counting import COUNT_LIMIT, WordCounts, concatenated
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import CorruptFile, InvalidPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import ChunkCounts
    from bpeline.tokenizer_core.splitting import SplitPattern

V = TypeVar("V")
State = tuple[int, int, int]

SMALL_CHUNK_BYTES = 1 << 20  # of text; writing the counts of larger ones is cheap beside counting
_PENDING_BYTES = 16 << 20  # of words in memory
_KEPT_OPEN = 4  # files whose rows stay in memory: neighbours in a corpus lie in the same one
# Records that this process has read, by path; a file never changes, and a new one is a new state.
_read: dict[Path, tuple[State, tuple[Shard, ...]]] = {}


class ShardFiles:
    """The counts of chunks in a workspace.

    Args:
        workspace: where they lie.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._index: dict[str, Shard] | None = None
        self._counts: OrderedDict[str, WordCounts] = OrderedDict()
        self._documents: OrderedDict[str, list[bytes]] = OrderedDict()

    def write(
        self,
        parts: Sequence[ChunkCounts],
        reading_digest: str,
        written: CountsFile | None = None,
    ) -> list[Shard]:
        """Write the counts of chunks into one file, replacing one of the same chunks.

        Args:
            parts: at least one chunk.
            reading_digest: how they were read.
            written: the words of a single chunk, where they were written while it was counted.

        Raises:
            DiskFull: no space; an earlier file of the same chunks may be lost.
        """
        keys = [shard_key(part.chunk.digest, reading_digest) for part in parts]
        name = keys[0] if len(keys) == 1 else _name_of(keys)
        if written is None or not written.rows.number:
            counts = concatenated([part.counts for part in parts])
            words, sums = _sums_of(parts, counts)
            with CountsFile(self._workspace, self._workspace.shard_counts(name)) as written:
                written.add(counts, _numbers(words))
        else:
            words, sums = [written.rows.number], [(written.total, written.total_bytes)]
        held_out = None
        documents = [document for part in parts for document in part.held_out]
        if documents:
            of_each = _numbers([len(part.held_out) for part in parts])
            path = self._workspace.shard_held_out(name)
            held_out = rows.write_documents(path, documents, of_each, self._workspace)
        record = as_record(parts, keys, words, sums, written.rows, held_out)
        manifest = self._workspace.shard_manifest(name)
        write_record(manifest, record, self._workspace)
        shards = from_record(record, name)
        _read[manifest] = _state_of(manifest), tuple(shards)
        if self._index is not None and len(keys) > 1:
            self._index |= {shard.key: shard for shard in shards}
        return shards

    def written(self, chunk_digest: str, reading_digest: str) -> CountsFile:
        """What takes the words of a chunk part by part, for `write`; a context."""
        key = shard_key(chunk_digest, reading_digest)
        return CountsFile(self._workspace, self._workspace.shard_counts(key))

    def read(self, key: str) -> Shard:
        """What is known of the counts of a chunk; its files are not opened.

        Raises:
            CorruptFile: there are none, or their record is damaged.
        """
        if (shared := self._shared(key)) is not None:
            return shared
        path = self._workspace.shard_manifest(key)
        fetch_all(self._workspace, [path])
        shards = shards_in(path)
        if [shard.key for shard in shards] != [key]:
            raise damaged(path)
        return shards[0]

    def counts(self, shard: Shard, pattern: SplitPattern | None = None) -> WordCounts:
        """The words of a chunk, verified; first positions are bytes from the chunk's begin.

        Args:
            shard: as `read` gave it.
            pattern: the one it names, where that is at hand.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        whole = self.counts_together(shard, pattern)
        return whole.between(shard.first_row, shard.first_row + shard.words)

    def counts_together(self, shard: Shard, pattern: SplitPattern | None = None) -> WordCounts:
        """The words of all chunks in the file of one, in the order in which they are there."""
        path = self._workspace.shard_counts(shard.file)
        return _kept_open(
            self._counts,
            shard.file,
            lambda: rows.read_counts(path, shard.counts, pattern or shard.pattern, self._workspace),
        )

    def held_out(self, shard: Shard) -> list[bytes]:
        """The held-out documents of a chunk, in order; errors as `counts`."""
        expected = shard.held_out
        if expected is None or not shard.held_out_documents:
            return []
        path = self._workspace.shard_held_out(shard.file)
        documents = _kept_open(
            self._documents,
            shard.file,
            lambda: rows.read_documents(path, expected, self._workspace),
        )
        return documents[shard.first_document : shard.first_document + shard.held_out_documents]

    def is_there(self, key: str) -> bool:
        """Whether a chunk was counted, as far as its record and the names of its files tell.

        Raises:
            StorageError: the workspace's store does not answer.
        """
        return bool(self.there([key]))

    def there(self, keys: Iterable[str]) -> set[str]:
        """Those of many chunks that were counted; each file is looked at once."""
        shards = {key: self._shared(key) for key in keys}
        alone = [key for key, shard in shards.items() if shard is None]
        fetch_all(self._workspace, map(self._workspace.shard_manifest, alone))
        for key in filter(self._workspace.has_shard_manifest, alone):
            with suppress(CorruptFile):
                shards[key] = self.read(key)
        files = {shard.file: shard for shard in shards.values() if shard is not None}
        whole = {name for name, shard in files.items() if self._is_whole(shard)}
        return {key for key, shard in shards.items() if shard is not None and shard.file in whole}

    def forget(self, key: str) -> None:
        """Remove the counts of a chunk, the record first; along with the others in the file."""
        shared = self._shared(key)
        name = key if shared is None else shared.file
        for path in (
            self._workspace.shard_manifest(name),
            self._workspace.shard_counts(name),
            self._workspace.shard_held_out(name),
        ):
            forget(self._workspace, path)
        self._index = None
        self._counts.pop(name, None)
        self._documents.pop(name, None)

    def _is_whole(self, shard: Shard) -> bool:
        """Whether the files are here; where they are shared, they went to the store first."""
        paths = [self._workspace.shard_counts(shard.file)]
        if shard.held_out is not None:
            paths.append(self._workspace.shard_held_out(shard.file))
        return bool(self._workspace.store) or all(map(os.path.exists, paths))

    def _shared(self, key: str) -> Shard | None:
        """The counts of a chunk that lie together with others'."""
        if self._index is None:
            self._index = {}
            fetch_below(self._workspace, self._workspace.packs, ".json")
            for path in sorted(self._workspace.packs.glob("*.json")):
                self._index |= {shard.key: shard for shard in shards_in(path)}
        return self._index.get(key)


class SmallShards:
    """Writes the counts of chunks; keeps those of small ones until there are enough for a file.

    Args:
        files: the counts of a workspace.
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

    def written(self, chunk_digest: str, reading_digest: str) -> AbstractContextManager[CountsFile]:
        """See `ShardFiles.written`."""
        return self._files.written(chunk_digest, reading_digest)

    def put(
        self, counted: ChunkCounts, reading_digest: str, written: CountsFile | None = None
    ) -> None:
        """Keep a chunk's counts; arguments and errors as `ShardFiles.write`."""
        if not self._together or counted.parts > 1 or counted.chunk.size > SMALL_CHUNK_BYTES:
            self._files.write([counted], reading_digest, written)
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
        if pending:
            self._files.write(pending, self._reading_digest)


def shards_in(manifest: Path) -> tuple[Shard, ...]:
    """The chunks in a file, by its record; none where that is missing or damaged."""
    try:
        state = _state_of(manifest)
    except OSError:
        return ()
    known = _read.get(manifest)
    if known is None or known[0] != state:
        shards: tuple[Shard, ...] = ()
        with suppress(CorruptFile, InvalidPattern, IndexError, KeyError, TypeError, ValueError):
            pack = manifest.parent.name == "packs"
            name = f"packs/{manifest.stem}" if pack else manifest.stem
            found = from_record(read_record(manifest, RECORD_FORMAT), name)
            keys = [shard.key for shard in found]
            if name == (_name_of(keys) if pack else keys[0]):
                shards = tuple(found)  # else another file's, under this name
        known = _read[manifest] = state, shards
    return known[1]


def _name_of(keys: Sequence[str]) -> str:
    """The file that several chunks share."""
    return f"packs/{digest_of(['pack', RECORD_FORMAT, list(keys)])}"


def _state_of(manifest: Path) -> State:
    status = os.stat(manifest)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _numbers(sizes: Sequence[int]) -> NDArray[np.int32] | None:
    """Of rows, which chunk each is of; None where there is one chunk."""
    if len(sizes) == 1:
        return None
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _kept_open(kept: OrderedDict[str, V], name: str, read: Callable[[], V]) -> V:
    """What was read of a file lately, or is read now; several threads may read the same."""
    content = kept.get(name)
    if content is None:
        content = kept[name] = read()
        while len(kept) > _KEPT_OPEN:
            kept.popitem(last=False)
    return content


def _sums_of(
    parts: Sequence[ChunkCounts], counts: WordCounts
) -> tuple[list[int], list[tuple[int, int]]]:
    """The rows of each chunk, and Σ count and Σ count · length.

    Args:
        counts: of all of them, one chunk after the other.
    """
    words = [len(part.counts) for part in parts]
    ends = np.cumsum([0, *words])
    most = int(counts.counts.max(initial=0)) * int(counts.lengths.max(initial=0))
    if most * len(counts) > COUNT_LIMIT:
        return words, [(part.counts.total, part.counts.total_bytes) for part in parts]
    columns = counts.counts, counts.counts * counts.lengths
    totals, sizes = (np.diff(np.cumsum(np.append(0, one))[ends]).tolist() for one in columns)
    return words, [*zip(totals, sizes, strict=True)]
