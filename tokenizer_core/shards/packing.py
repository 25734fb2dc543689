"""Shuffle documents of token shards and pack them into sequences of one length.

A seed decides the order. The result is a directory of token shards whose documents are sequences.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.tables.hashing import STEP, scramble
from bpeline.tokenizer_core.shards.shard_formats import NpyFile, ShardFormat, shard_format
from bpeline.tokenizer_core.shards.shard_job import EarlierShards
from bpeline.tokenizer_core.shards.shard_places import (
    FileRecord,
    ShardPlace,
    ShardRecord,
    shard_place,
)
from bpeline.tokenizer_core.shards.token_shards import (
    PACK_VERSION,
    PART,
    PARTS_HEADER,
    PARTS_SUFFIX,
    TokenShards,
)

SHARD_TOKENS = 64 << 20
MOST_SEED = (1 << 64) - 1


def shuffled(count: int, seed: int) -> NDArray[np.int64]:
    """Return the numbers below ``count`` in the order of their keys.

    Key i is number i of the generator SplitMix64 with this seed; all keys differ. The order is the
    same with every NumPy version.
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * STEP
    return np.argsort(scramble(steps + np.uint64(seed)))


def pack_shards(
    shards: TokenShards,
    out: str | Path,
    length: int,
    *,
    seed: int = 0,
    format: str | ShardFormat | None = None,
    shard_tokens: int = SHARD_TOKENS,
    on_shard: Callable[[ShardRecord], None] | None = None,
    write: Callable[[Packing], list[ShardRecord]] | None = None,
) -> TokenShards:
    """Shuffle the documents of shards and write them as sequences of one length.

    A document that does not fit continues in the next sequence. The last ids, fewer than
    ``length``, are left out. Finished shards are kept when the call is repeated.

    Args:
        shards: documents, with their end-of-text ids if any.
        out: a separate directory, or a URL.
        length: ids in a sequence.
        seed: decides the order of documents; from 0 to 2⁶⁴ − 1.
        format: by default that of ``shards``.
        shard_tokens: ids in a packed shard, about; memory holds one shard.
        on_shard: called with each finished shard.
        write: writes all shards, for example on other machines: calls `Packing.write` of an equal
            packing with every number below ``shards_to_write`` and returns the results in order.

    Raises:
        InvalidOption: a number out of range, shards that are packed, or of format version 1, or
            ``out`` holds others that are not packed.
        WorkspaceLocked: another process writes to ``out``.
    """
    checks.instance("shards", shards, TokenShards)
    checks.location("out", out)
    length = checks.whole_number("length", length)
    seed = checks.whole_number("seed", seed)
    shard_tokens = checks.whole_number("shard_tokens", shard_tokens)
    checks.function("on_shard", on_shard)
    checks.function("write", write)
    layout = shards.format if format is None else shard_format(format)
    place = shard_place(out)
    earlier = EarlierShards.at(place)
    if earlier is not None and not earlier.packed:
        raise InvalidOption(
            f"{place.location} holds documents, which packed sequences would replace",
            "expected a separate directory",
            f"pack_shards(shards, '{place.location}/packed', {length})",
        )
    with place.alone(), tempfile.TemporaryDirectory(prefix="bpeline-packing-") as held:
        # Each packed shard needs all others, so those of a store are fetched once.
        packing = Packing(shards.fetch(held), place, length, seed, layout, shard_tokens)
        records = []
        numbers = range(packing.shards_to_write)
        for record in map(packing.write, numbers) if write is None else write(packing):
            records.append(record)
            if on_shard is not None:
                on_shard(record)
        place.publish_manifest(packing.about, records)
    return TokenShards(place.location, layout)


class Packing:
    """One order of documents, cut into packed shards that can be written separately.

    Arguments and errors as `pack_shards`.

    Attributes:
        shards_to_write: number of packed shards.
        about: what the manifest says about all of them.
    """

    def __init__(
        self,
        shards: TokenShards,
        place: ShardPlace,
        length: int,
        seed: int,
        format: ShardFormat,
        shard_tokens: int = SHARD_TOKENS,
    ) -> None:
        if length < 1 or shard_tokens < 1 or not 0 <= seed <= MOST_SEED:
            raise InvalidOption(
                f"length is {length}, shard_tokens is {shard_tokens}, seed is {seed}",
                "expected lengths of 1 or more, and a seed from 0 to 2**64 - 1",
                "pack_shards(shards, out, 4096, seed=0)",
            )
        if "id_count" not in shards.manifest or "packed" in shards.manifest:
            raise InvalidOption(
                f"{shards.location} holds packed sequences, or was written by an earlier version",
                "expected token shards of documents, of format version 2",
                "encode the files again, and pack the result",
            )
        shard_tokens = max(1, shard_tokens // length) * length
        self._place = place
        self._shards, self._length = shards, length
        self._format, self._shard_tokens = format, shard_tokens
        self._dtype = format.dtype(shards.manifest["id_count"])
        edges = [shards.shard(number)[1] for number in range(len(shards.records))]
        lengths = [np.diff(shard_edges.astype(np.int64)) for shard_edges in edges]
        self._order = shuffled(len(shards), seed)
        self._lengths = np.concatenate([np.empty(0, np.int64), *lengths])[self._order]
        self._ends = np.cumsum(self._lengths)  # of documents, in the stream of all ids
        self._first_of_shard = np.cumsum([0, *map(len, lengths)])
        tokens = int(self._ends[-1]) if len(self._ends) else 0
        self._tokens = tokens - tokens % length
        self.shards_to_write = -(-self._tokens // shard_tokens)
        manifest = shards.manifest
        same = ("tokenizer", "id_count", "special_tokens", "end_of_text")
        packed = {
            "version": PACK_VERSION,
            "length": length,
            "seed": seed,
            "documents": len(shards),
            "left_out_tokens": tokens % length,
            "shards": digest_of(manifest["shards"]),
        }
        self.about = {
            **{name: manifest[name] for name in same},
            "shard_format": format.name,
            "dtype": self._dtype,
            "packed": packed,
        }
        self._digest = digest_of([self.about, shard_tokens])

    def write(self, number: int) -> ShardRecord:
        """Write one packed shard, unless it exists."""
        key = digest_of([self._digest, number])
        name = f"shard-{number:05d}-{key[:12]}"
        existing = self._place.finished(name, key)
        if existing is not None:
            return existing
        begin = number * self._shard_tokens
        end = min(begin + self._shard_tokens, self._tokens)
        ids, parts = self._gathered(begin, end)
        suffixes = (*self._format.suffixes, PARTS_SUFFIX)
        paths = [self._place.folder / f"{name}{suffix}" for suffix in suffixes]
        with ExitStack() as publishing:
            aside = [publishing.enter_context(DURABLE.writing_aside(path)) for path in paths]
            with (
                closing(NpyFile(aside[-1], PART, PARTS_HEADER)) as of_parts,
                closing(self._format.write(aside[:-1], self._dtype)) as writer,
            ):
                writer.add(ids, np.arange(self._length, len(ids) + 1, self._length, dtype=np.int64))
                of_parts.append(parts)
            digests = [*writer.digests(aside[:-1]), of_parts.sha256()]
            files = tuple(
                FileRecord(path.name, new.stat().st_size, digest)
                for new, path, digest in zip(aside, paths, digests, strict=True)
            )
        record = ShardRecord(name, key, 0, len(ids), len(ids) // self._length, 0, files)
        self._place.publish(record)
        return record

    def _gathered(self, begin: int, end: int) -> tuple[NDArray[np.generic], NDArray[np.void]]:
        """Return the ids in [begin, end) of the stream, and the parts they consist of."""
        low = int(np.searchsorted(self._ends, begin, side="right"))
        high = int(np.searchsorted(self._ends, end, side="left")) + 1
        documents, ends = self._order[low:high], self._ends[low:high]
        begins = ends - self._lengths[low:high]
        parts = np.empty(len(documents), PART)
        parts["document"] = documents
        parts["first"] = np.maximum(begin - begins, 0)
        parts["begin"] = np.maximum(begins - begin, 0)
        stops = np.minimum(ends, end) - begin
        ids = np.empty(end - begin, self._dtype)
        # Shard by shard, in order: mapped ones are read forward, others once.
        homes = np.searchsorted(self._first_of_shard, documents, side="right") - 1
        turns = np.lexsort((documents, homes))
        cuts = np.flatnonzero(np.diff(homes[turns])) + 1
        for turn in np.split(turns, cuts):
            home = int(homes[turn[0]])
            source, edges = self._shards.shard(home)
            froms = edges.astype(np.int64)[documents[turn] - self._first_of_shard[home]]
            froms += parts["first"][turn]
            places = zip(
                froms.tolist(), parts["begin"][turn].tolist(), stops[turn].tolist(), strict=True
            )
            for origin, first, stop in places:
                ids[first:stop] = source[origin : origin + stop - first]
        return ids, parts
