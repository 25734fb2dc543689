"""Packs: the counts of many small chunks together in a few files, written once.

A file for each of them would cost a hundred times what counting it does. A pack is nothing but
what was written together: it is named by the keys it holds, and a chunk that comes later goes into
another one, so none is ever written again. Knows no shards with files of their own.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bpeline.registry.word_counts.arrow_columns import (
    counts_as_file,
    counts_from_file,
    documents_as_file,
    documents_from_file,
)
from bpeline.registry.word_counts.shard_records import (
    Packed,
    Placed,
    Shard,
    shard_key,
)
from bpeline.registry.workspace import (
    FileSeal,
    Workspace,
    damaged,
    fetch_below,
    forget,
    read_record,
    write_record,
    write_sealed,
)
from bpeline.tokenizer_core.counting import COUNT_LIMIT, WordCounts, concatenated
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import CorruptFile, InvalidPattern
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import ChunkCounts

V = TypeVar("V")

_FORMAT = 1
_KEPT_OPEN = 4  # packs whose words stay in memory: neighbours in a corpus lie in the same one
_SUMS = (
    "words", "total", "total_bytes", "documents", "bytes_counted", "special_tokens_seen",
    "replaced_utf8", "held_out_documents", "held_out_bytes", "parts",
)  # fmt: skip
_LATER_SUMS = ("left_out_bytes", "left_out_documents")  # which earlier packs do not have

State = tuple[int, int, int]
# Records that this process has read, by path; a pack never changes, and a new file is a new state.
_read: dict[Path, tuple[State, tuple[Shard, ...]]] = {}


class Packs:
    """The packs of a workspace, as they are when a shard is first asked for.

    Args:
        workspace: where they lie.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._index: dict[str, Shard] | None = None
        self._counts: OrderedDict[str, WordCounts] = OrderedDict()
        self._documents: OrderedDict[str, list[bytes]] = OrderedDict()

    def find(self, key: str) -> Shard | None:
        """A shard that lies in a pack, as far as records tell.

        Raises:
            StorageError: the workspace's store does not answer.
        """
        if self._index is None:
            self._index = self._all()
        return self._index.get(key)

    def is_there(self, name: str) -> bool:
        """Whether a pack exists, as far as its record and the sizes of its files tell."""
        shards = _shards_in(self._workspace.pack_manifest(name))
        if not shards:
            return False
        counts, held_out = shards[0].counts_seal, shards[0].held_out_seal
        return counts.fits(self._workspace.pack_counts(name), self._workspace) and (
            held_out is None or held_out.fits(self._workspace.pack_held_out(name), self._workspace)
        )

    def write(self, parts: Sequence[ChunkCounts], reading_digest: str) -> None:
        """Write the counts of some chunks that were read in one way.

        Raises:
            DiskFull: no space left.
        """
        keys = [shard_key(part.chunk.digest, reading_digest) for part in parts]
        name = digest_of(["pack", _FORMAT, keys])
        counts = concatenated([part.counts for part in parts])
        documents = [document for part in parts for document in part.held_out]
        counts_seal = write_sealed(
            self._workspace.pack_counts(name), counts_as_file(counts), self._workspace
        )
        held_out_seal = None
        if documents:
            path = self._workspace.pack_held_out(name)
            held_out_seal = write_sealed(path, documents_as_file(documents), self._workspace)
        sums = _sums_of(parts, counts)
        record = {
            "format": _FORMAT,
            "pattern": counts.pattern.as_record(),
            "counts_seal": [counts_seal.size, counts_seal.sha256],
            "held_out_seal": held_out_seal and [held_out_seal.size, held_out_seal.sha256],
            "keys": keys,
            **sums,
        }
        manifest = self._workspace.pack_manifest(name)
        write_record(manifest, record, self._workspace)
        shards = _shards_of(name, counts.pattern, (counts_seal, held_out_seal), keys, sums)
        _read[manifest] = _state_of(manifest), shards
        if self._index is not None:
            self._index |= {shard.key: shard for shard in shards}

    def counts(self, packed: Packed, pattern: SplitPattern) -> WordCounts:
        """The words of one shard of a pack, verified; positions are bytes of its chunk.

        Raises:
            CorruptFile: the pack is missing or has other content.
        """
        return self._words_of(packed.pack, pattern).between(*packed.rows)

    def placed(self, shards: Sequence[Placed], pattern: SplitPattern) -> WordCounts:
        """The words of some shards of one pack at their places in the corpus.

        A shard at several places is given once: its earliest sight, every occurrence. A word that
        several shards hold has several rows.

        Raises:
            CorruptFile: the pack is missing or has other content.
        """
        packs = [one.shard.packed for one in shards if one.shard.packed is not None]
        words = self._words_of(packs[0].pack, pattern)
        rows = np.array([one.rows for one in packs], np.int64)
        sizes = rows[:, 1] - rows[:, 0]
        before = np.cumsum(sizes) - sizes
        chosen = np.arange(int(sizes.sum())) + np.repeat(rows[:, 0] - before, sizes)
        if len(chosen) != len(words) or not np.array_equal(chosen, np.arange(len(words))):
            words = words.take(chosen)
        bases = np.array([min(one.bases) for one in shards], np.int64)
        times = np.array([len(one.bases) for one in shards], np.int64)
        return WordCounts(
            words.word_bytes,
            words.offsets,
            words.counts * np.repeat(times, sizes),
            words.first_positions + np.repeat(bases, sizes),
            pattern,
        )

    def held_out(self, shard: Shard, packed: Packed) -> list[bytes]:
        """The held-out documents of one shard of a pack; errors as `counts`."""
        begin, end = packed.documents
        if begin == end or shard.held_out_seal is None:
            return []
        path, seal = self._workspace.pack_held_out(packed.pack), shard.held_out_seal
        documents = _kept_open(
            self._documents,
            packed.pack,
            lambda: list(documents_from_file(seal.read(path, self._workspace))),
        )
        return documents[begin:end]

    def forget(self, packed: Packed) -> None:
        """Remove a pack and so all of its shards, its record first."""
        for path in (
            self._workspace.pack_manifest(packed.pack),
            self._workspace.pack_counts(packed.pack),
            self._workspace.pack_held_out(packed.pack),
        ):
            forget(self._workspace, path)
        self._index = None
        self._counts.pop(packed.pack, None)
        self._documents.pop(packed.pack, None)

    def _words_of(self, name: str, pattern: SplitPattern) -> WordCounts:
        def read() -> WordCounts:
            shards = _shards_in(manifest)
            if not shards:
                raise damaged(manifest)
            content = shards[0].counts_seal.read(self._workspace.pack_counts(name), self._workspace)
            return counts_from_file(content, pattern)

        manifest = self._workspace.pack_manifest(name)
        return _kept_open(self._counts, name, read)

    def _all(self) -> dict[str, Shard]:
        index: dict[str, Shard] = {}
        fetch_below(self._workspace, self._workspace.packs, ".json")
        for path in sorted(self._workspace.packs.glob("*.json")):
            for shard in _shards_in(path):
                index[shard.key] = shard
        return index


def keys_in_pack(manifest: Path) -> frozenset[str]:
    """The keys of the shards in a pack; none where its record is missing or damaged."""
    return frozenset(shard.key for shard in _shards_in(manifest))


def _kept_open(kept: OrderedDict[str, V], name: str, read: Callable[[], V]) -> V:
    """What was read of a pack lately, or is read now; several threads may read the same."""
    content = kept.get(name)
    if content is None:
        content = kept[name] = read()
        while len(kept) > _KEPT_OPEN:
            kept.popitem(last=False)
    return content


def _shards_in(manifest: Path) -> tuple[Shard, ...]:
    """The shards of a pack; none where its record is missing or damaged."""
    try:
        state = _state_of(manifest)
    except OSError:
        return ()
    known = _read.get(manifest)
    if known is None or known[0] != state:
        known = _read[manifest] = state, _from_record(manifest)
    return known[1]


def _state_of(manifest: Path) -> State:
    status = os.stat(manifest)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _from_record(manifest: Path) -> tuple[Shard, ...]:
    name = manifest.stem
    try:
        record = read_record(manifest, _FORMAT)
        keys = record["keys"]
        if digest_of(["pack", _FORMAT, keys]) != name:  # another pack's, under this name
            return ()
        pattern = SplitPattern.from_record(record["pattern"])
        counts_seal = FileSeal(*record["counts_seal"])
        held_out_seal = record["held_out_seal"] and FileSeal(*record["held_out_seal"])
        seals = counts_seal, held_out_seal
        sums = {name: record[name] for name in _SUMS}
        if any(set(map(type, values)) - {int} for values in sums.values()):
            return ()
        sums |= {name: record.get(name, [None] * len(keys)) for name in _LATER_SUMS}
        return _shards_of(name, pattern, seals, keys, sums)
    except (CorruptFile, InvalidPattern, KeyError, TypeError, ValueError):
        return ()


def _shards_of(
    pack: str,
    pattern: SplitPattern,
    seals: tuple[FileSeal, FileSeal | None],
    keys: Sequence[str],
    sums: Mapping[str, Sequence[Any]],
) -> tuple[Shard, ...]:
    """The shards of a pack, of each of which all sums are given."""
    row = document = 0
    shards = []
    for key, *values in zip(keys, *sums.values(), strict=True):
        of_shard = dict(zip(sums, values, strict=True))
        rows = row, row + of_shard["words"]
        documents = document, document + of_shard["held_out_documents"]
        (_, row), (_, document) = rows, documents
        shards.append(
            Shard(
                key=key,
                pattern=pattern,
                counts_seal=seals[0],
                held_out_seal=seals[1],
                packed=Packed(pack, rows, documents),
                **of_shard,
            )
        )
    return tuple(shards)


def _sums_of(parts: Sequence[ChunkCounts], counts: WordCounts) -> dict[str, list[int]]:
    """The sums of the chunks of a pack.

    Args:
        counts: of all of them, one chunk after the other.
    """
    words = [len(part.counts) for part in parts]
    ends = np.cumsum([0, *words])
    most = int(counts.counts.max(initial=0)) * int(counts.lengths.max(initial=0))
    if most * len(counts) <= COUNT_LIMIT:
        columns = counts.counts, counts.counts * counts.lengths
        total, total_bytes = (
            np.diff(np.cumsum(np.append(0, one))[ends]).tolist() for one in columns
        )
    else:
        total = [part.counts.total for part in parts]
        total_bytes = [part.counts.total_bytes for part in parts]
    return {
        "words": words,
        "total": total,
        "total_bytes": total_bytes,
        "documents": [int(part.documents) for part in parts],
        "bytes_counted": [int(part.bytes_counted) for part in parts],
        "special_tokens_seen": [int(part.special_tokens_seen) for part in parts],
        "replaced_utf8": [int(part.replaced_utf8) for part in parts],
        "held_out_documents": [len(part.held_out) for part in parts],
        "held_out_bytes": [sum(map(len, part.held_out)) for part in parts],
        "parts": [int(part.parts) for part in parts],
        **{name: [getattr(part, name) for part in parts] for name in _LATER_SUMS},
    }
