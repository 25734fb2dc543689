"""Store the counts of chunks in Parquet files; small chunks share a file.

Any process may write a file. Its record is written last and makes its chunks exist. A shared file
(pack) contains the chunks that were written together and is named by their keys.
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

SMALL_CHUNK_BYTES = 1 << 20  # of text; for larger chunks, counting takes longer than writing
_PENDING_BYTES = 16 << 20  # of words in memory
_KEPT_OPEN = 4  # files with rows in memory: neighbouring chunks are often in the same one
# Cache of parsed records, by path; a replaced file has another state.
_read: dict[Path, tuple[State, tuple[Shard, ...]]] = {}


class ShardFiles:
    """The shards of a workspace; damaged ones raise `CorruptFile` when read."""

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
        """Write the counts of chunks into one file, replacing a file of the same chunks.

        Args:
            written: the words of a single chunk, if they were written during counting.
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
        """Return a context manager that writes the words of a chunk in parts, for `write`."""
        key = shard_key(chunk_digest, reading_digest)
        return CountsFile(self._workspace, self._workspace.shard_counts(key))

    def read(self, key: str) -> Shard:
        """Read the record of a chunk's counts."""
        if (shared := self._shared(key)) is not None:
            return shared
        path = self._workspace.shard_manifest(key)
        fetch_all(self._workspace, [path])
        shards = shards_in(path)
        if [shard.key for shard in shards] != [key]:
            raise damaged(path)
        return shards[0]

    def counts(self, shard: Shard, pattern: SplitPattern | None = None) -> WordCounts:
        """Read and verify the words of a chunk; positions are byte offsets in the chunk."""
        whole = self.counts_together(shard, pattern)
        return whole.between(shard.first_row, shard.first_row + shard.words)

    def counts_together(self, shard: Shard, pattern: SplitPattern | None = None) -> WordCounts:
        """Read the words of all chunks in the shard's file, in file order."""
        path = self._workspace.shard_counts(shard.file)
        return _kept_open(
            self._counts,
            shard.file,
            lambda: rows.read_counts(path, shard.counts, pattern or shard.pattern, self._workspace),
        )

    def held_out(self, shard: Shard) -> list[bytes]:
        """Read the held-out documents of a chunk, in order."""
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
        """Whether a chunk was counted: its record is valid and its files exist."""
        return bool(self.there([key]))

    def there(self, keys: Iterable[str]) -> set[str]:
        """Return the keys of the chunks that were counted; checks each file once."""
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
        """Remove the file of a chunk's counts, with all other chunks in it."""
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
        """Whether the files exist; with a shared store, they were written there first."""
        paths = [self._workspace.shard_counts(shard.file)]
        if shard.held_out is not None:
            paths.append(self._workspace.shard_held_out(shard.file))
        return bool(self._workspace.store) or all(map(os.path.exists, paths))

    def _shared(self, key: str) -> Shard | None:
        """Return the shard of a chunk in a shared file, or None."""
        if self._index is None:
            self._index = {}
            fetch_below(self._workspace, self._workspace.packs, ".json")
            for path in sorted(self._workspace.packs.glob("*.json")):
                self._index |= {shard.key: shard for shard in shards_in(path)}
        return self._index.get(key)


class SmallShards:
    """Writer of shards that collects small chunks until there are enough for a file.

    Args:
        together: whether small chunks are collected; otherwise each is written at once.
    """

    def __init__(self, files: ShardFiles, together: bool) -> None:
        self._files, self._together = files, together
        self._pending: dict[str, ChunkCounts] = {}
        self._reading_digest = ""
        self._bytes = 0

    def has(self, chunk_digest: str, reading_digest: str) -> bool:
        """Whether a chunk was counted by any process, or is waiting to be written."""
        return bool(self.there([chunk_digest], reading_digest))

    def there(self, chunk_digests: Iterable[str], reading_digest: str) -> set[str]:
        """Return the digests of the chunks that were counted, see `has`."""
        keys = {digest: shard_key(digest, reading_digest) for digest in chunk_digests}
        counted_keys = self._files.there(key for key in keys.values() if key not in self._pending)
        counted_keys.update(self._pending)
        return {digest for digest, key in keys.items() if key in counted_keys}

    def written(self, chunk_digest: str, reading_digest: str) -> AbstractContextManager[CountsFile]:
        """See `ShardFiles.written`."""
        return self._files.written(chunk_digest, reading_digest)

    def put(
        self, counted: ChunkCounts, reading_digest: str, written: CountsFile | None = None
    ) -> None:
        """Write or collect a chunk's counts; arguments as `ShardFiles.write`."""
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
        """Write the collected chunks."""
        pending = [*self._pending.values()]
        self._pending, self._bytes = {}, 0
        if pending:
            self._files.write(pending, self._reading_digest)


def shards_in(manifest: Path) -> tuple[Shard, ...]:
    """Return the chunks in the record of a file; empty if it is missing or damaged."""
    try:
        state = _state_of(manifest)
    except OSError:
        return ()
    cached = _read.get(manifest)
    if cached is None or cached[0] != state:
        shards: tuple[Shard, ...] = ()
        with suppress(CorruptFile, InvalidPattern, IndexError, KeyError, TypeError, ValueError):
            pack = manifest.parent.name == "packs"
            name = f"packs/{manifest.stem}" if pack else manifest.stem
            parsed = from_record(read_record(manifest, RECORD_FORMAT), name)
            keys = [shard.key for shard in parsed]
            if name == (_name_of(keys) if pack else keys[0]):
                shards = tuple(parsed)  # else it is the record of another file
        cached = _read[manifest] = state, shards
    return cached[1]


def _name_of(keys: Sequence[str]) -> str:
    """Return the name of the shared file of several chunks."""
    return f"packs/{digest_of(['pack', RECORD_FORMAT, list(keys)])}"


def _state_of(manifest: Path) -> State:
    status = os.stat(manifest)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _numbers(sizes: Sequence[int]) -> NDArray[np.int32] | None:
    """Return the chunk number of each row; None for a single chunk."""
    if len(sizes) == 1:
        return None
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _kept_open(kept: OrderedDict[str, V], name: str, read: Callable[[], V]) -> V:
    """Return the cached content of a file, or read it."""
    content = kept.get(name)
    if content is None:
        content = kept[name] = read()
        while len(kept) > _KEPT_OPEN:
            kept.popitem(last=False)
    return content


def _sums_of(
    parts: Sequence[ChunkCounts], counts: WordCounts
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return rows, Σ count and Σ count · length of each chunk."""
    words = [len(part.counts) for part in parts]
    ends = np.cumsum([0, *words])
    most = int(counts.counts.max(initial=0)) * int(counts.lengths.max(initial=0))
    if most * len(counts) > COUNT_LIMIT:
        return words, [(part.counts.total, part.counts.total_bytes) for part in parts]
    columns = counts.counts, counts.counts * counts.lengths
    totals, sizes = (np.diff(np.cumsum(np.append(0, column))[ends]).tolist() for column in columns)
    return words, [*zip(totals, sizes, strict=True)]
