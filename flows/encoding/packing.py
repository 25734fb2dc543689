"""Packing token shards into sequences in a directory beside them."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bpeline.flows import engines
from bpeline.flows.engines import LOCAL
from bpeline.flows.running import PACK, progress, raise_if_stopped
from bpeline.flows.wording import counted
from bpeline.tokenizer_core.shards import (
    Packing,
    ShardRecord,
    TokenShards,
    pack_shards,
    shard_place,
)
from bpeline.tokenizer_core.urls import absolute_name, is_url


@dataclass(frozen=True, slots=True)
class PackingHandle:
    """What a worker needs for packing."""

    shards: str
    out: str
    length: int
    seed: int


def pack_beside(
    shards: TokenShards,
    length: int,
    seed: int,
    engine: str,
    threads: int | None,
    meeting_place: Path,
) -> tuple[TokenShards, list[str]]:
    """Shuffle and pack documents into a directory below their shards.

    Every worker first fetches the shards of a store: each packed shard needs all of them.

    Args:
        engine, threads: see `flows.engines.working`; they do not change the files.
        meeting_place: a directory that all workers can access, used if the shards are in a store.
    """
    out = f"{shards.location}/packed-{length}-{seed}"
    location = absolute_name(shards.location)
    handle = PackingHandle(location, absolute_name(out), length, seed)
    if not is_url(location):
        meeting_place = Path(location)

    def on_workers(packing: Packing) -> list[ShardRecord]:
        numbers = range(packing.shards_to_write)
        with engines.working(engine, threads, meeting_place) as working:
            return working.map(
                pack_one,
                numbers,
                named=lambda number: f"packed shard {number} of {out}",
                prepare=lambda: None,
                handle=handle,
            )

    with progress.telling(PACK, int(shards.manifest["tokens"]), "tokens") as outcome:
        packed = pack_shards(
            shards,
            out,
            length,
            seed=seed,
            on_shard=_advance if engine == LOCAL else None,
            write=None if engine == LOCAL else on_workers,
        )
        outcome(counted(len(packed), "sequence"))
    rest = packed.manifest["packed"]["left_out_tokens"]
    notes = [
        f"{packed.location}: {counted(len(packed), 'sequence')} of {length:,} ids, documents "
        f"shuffled with the seed {seed}; {counted(rest, 'id')} at the end do not fill a sequence "
        "and are left out"
    ]
    if shards.manifest["end_of_text"] is None:
        notes.append("packed documents are not separated: --end-of-text inserts an id")
    return packed, notes


def _advance(record: ShardRecord) -> None:
    raise_if_stopped()
    progress.current().step_advanced(PACK.name, record.tokens)


def pack_one(number: int, handle: PackingHandle) -> ShardRecord:
    """Write one packed shard, unless it exists."""
    raise_if_stopped()
    packing, _ = _packing(handle)
    record = packing.write(number)
    _advance(record)
    return record


@functools.lru_cache(maxsize=1)
def _packing(handle: PackingHandle) -> tuple[Packing, tempfile.TemporaryDirectory[str]]:
    """Return the packing plan and the directory of fetched shards, once per process."""
    directory = tempfile.TemporaryDirectory(prefix="bpeline-packing-")
    shards = TokenShards(handle.shards).fetch(directory.name)
    place = shard_place(handle.out)
    return Packing(shards, place, handle.length, handle.seed, shards.format), directory
