"""Encoding files on an engine's workers, as `Tokenizer.encode_files` does.

The workers share a directory, usually that of the shards. The tokenizer is saved there while
they work, and each worker loads it once. Each worker writes its shards, also to a store.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows import engines
from bpeline.flows.running import ENCODE, progress, raise_if_stopped
from bpeline.tokenizer_core.corpus import AnyPath, ChunkText, find_source_files, sources_of
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.shards import (
    SHARD_BYTES,
    FileEncoding,
    ShardFormat,
    ShardJob,
    ShardPart,
    ShardRecord,
    TokenShards,
    file_encoding_of,
    shard_format,
    shard_place,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.urls import absolute_name, is_url

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a worker needs for encoding."""

    tokenizer: Path  # its directory, in bpeline's format
    digest: str
    options: tuple[tuple[str, Any], ...]  # of `file_encoding_of`
    out: str
    format: str
    shard_bytes: int


def encode_files(
    tokenizer: Tokenizer,
    paths: Iterable[AnyPath],
    out: str | Path,
    engine: str,
    meeting_place: Path,
    *,
    threads: int | None = None,
    format: str | ShardFormat = "bin",
    shard_bytes: int = SHARD_BYTES,
    on_shard: Callable[[ShardRecord], None] | None = None,
    **options: Any,
) -> TokenShards:
    """Encode files into a directory of token shards on an engine's workers.

    Args:
        out: a directory that all workers can access under this path, or a URL.
        meeting_place: a directory that all workers can access, used if ``out`` is a URL.
        engine, threads: see `flows.engines.working`; for the rest see `Tokenizer.encode_files`.
    """
    out = absolute_name(str(out))
    encoding = file_encoding_of(tokenizer, **options)
    layout, files = shard_format(format), find_source_files(sources_of(paths))
    place = shard_place(out)
    job = ShardJob(encoding, files, place, layout, shard_bytes, on_shard)
    size = sum(file.size for file in files)
    if not is_url(out):
        meeting_place = place.folder
        meeting_place.mkdir(parents=True, exist_ok=True)
    with engines.working(engine, threads, meeting_place) as working:

        def write(parts: Sequence[ShardPart]) -> list[list[ShardRecord]]:
            most_parcels = working.parcels(size)
            size_of_one = max(1, -(-len(parts) // most_parcels))
            begins = range(0, len(parts), size_of_one)
            parcels = [tuple(parts[begin : begin + size_of_one]) for begin in begins]
            with _lying_in(meeting_place, tokenizer) as directory:
                handle = Encoding(
                    directory,
                    tokenizer.digest,
                    tuple(options.items()),
                    out,
                    layout.name,
                    shard_bytes,
                )
                written = working.map(
                    encode_parcel,
                    parcels,
                    named=_files_of,
                    prepare=functools.partial(_load, handle),
                    handle=handle,
                )
            return [records for parcel in written for records in parcel]

        return job.run_by_parts(write)


def encode_parcel(parcel: tuple[ShardPart, ...], handle: Encoding) -> list[list[ShardRecord]]:
    """Write the missing shards of a parcel; return their records, part by part."""
    listener = progress.current()

    def said(amount: int) -> None:
        raise_if_stopped()
        listener.step_advanced(ENCODE.name, amount)

    files = tuple(file for part in parcel for file in part.files)
    job = ShardJob(
        _load(handle),
        files,
        shard_place(handle.out),
        shard_format(handle.format),
        handle.shard_bytes,
        on_progress=said,
    )
    return [job.write_part(part, threads=1) for part in parcel]


@functools.lru_cache(maxsize=2)
def _load(handle: Encoding) -> FileEncoding:
    """Load and compile the tokenizer of a handle, once per process."""
    tokenizer = Tokenizer.load(handle.tokenizer, format="bpeline")
    if tokenizer.digest != handle.digest:
        raise CorruptFile(
            f"{handle.tokenizer} contains the tokenizer {tokenizer.digest[:12]}",
            f"expected the tokenizer {handle.digest[:12]}, which was saved there",
            "run the same command again",
        )
    encoding = file_encoding_of(tokenizer, **dict(handle.options))
    encoding.plain(ChunkText.of(Text.of(b"compile first")))
    return encoding


@contextmanager
def _lying_in(meeting_place: Path, tokenizer: Tokenizer) -> Iterator[Path]:
    """Save the tokenizer in its own directory; remove it afterwards."""
    place = meeting_place / f"tokenizer-{tokenizer.digest[:12]}"
    try:
        tokenizer.save(place)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _files_of(parcel: tuple[ShardPart, ...]) -> str:
    first, last = parcel[0], parcel[-1]
    paths = list(dict.fromkeys(file.path for part in parcel for file in part.files))
    shards = f"shard {first.number}" + (f" to {last.number}" if last is not first else "")
    return f"{shards}, of {', '.join(paths[:3])}{' and more' if len(paths) > 3 else ''}"
