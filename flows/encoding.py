"""Encoding a dataset into token shards, packing them, and recording both in MLflow.

An engine's workers share a directory, usually that of the shards. The tokenizer is saved there
while they encode, and each worker loads it once. Each worker writes its shards, also to a store.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from bpeline.flows import engines
from bpeline.flows.counting import notes_on_documents
from bpeline.flows.engines import LOCAL
from bpeline.flows.running import progress, raise_if_stopped, steps
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.loading import ResolvedVersion, load_tokenizer
from bpeline.registry.opening import Registry
from bpeline.registry.records import CorpusInput, RunRecord
from bpeline.registry.tracking import STEP_IS_IDS, run_link
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import (
    AnyPath,
    ChunkText,
    FoundFiles,
    Source,
    find_source_files,
    search_sources,
    sources_of,
)
from bpeline.tokenizer_core.digests import MANIFEST, digest_of
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.shards import (
    SHARD_BYTES,
    FileEncoding,
    Packing,
    ShardFormat,
    ShardJob,
    ShardPart,
    ShardRecord,
    TokenShards,
    file_encoding_of,
    pack_shards,
    separators_of,
    shard_format,
    shard_place,
)
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.urls import absolute_name, is_url


@dataclass(frozen=True, slots=True)
class EncodedDataset:
    """A dataset as token shards.

    Attributes:
        reference: the version that encoded it (``news/3``, ``news/3:8000``).
        manifest_digest: SHA-256 of their manifest.
        encoded_bytes, encoded_tokens: of the shards that this run wrote.
        seconds: duration of encoding, including the verification of existing shards.
        newly_recorded: False if nothing has changed since the earlier run at ``link``.
        sequences: number of packed sequences; ``output`` and ``manifest_digest`` are then those
            of the packed shards, the other counts those of the documents.
    """

    reference: str
    digest: str
    vocab_size: int
    output: str
    manifest_digest: str
    documents: int
    tokens: int
    bytes: int
    shards: int
    encoded_bytes: int
    encoded_tokens: int
    seconds: float
    link: str = ""
    newly_recorded: bool = True
    notes: tuple[str, ...] = ()
    sequences: int | None = None

    @property
    def outcome(self) -> str:
        summary = f"{counted(self.tokens, 'token')} of {counted(self.documents, 'document')}"
        if not self.encoded_bytes:
            return f"{summary}, all encoded before"
        earlier = self.bytes - self.encoded_bytes
        return summary + (f", {megabytes(earlier)} of them encoded before" if earlier else "")

    def metrics(self) -> dict[str, float]:
        """Return the MLflow metrics; speed only if something was encoded."""
        metrics: dict[str, float] = {
            "dataset/documents": self.documents,
            "dataset/tokens": self.tokens,
            "dataset/bytes": self.bytes,
            "dataset/shards": self.shards,
            "encode/bytes": self.encoded_bytes,
            "encode/seconds": self.seconds,
        }
        if self.sequences is not None:
            metrics["dataset/sequences"] = self.sequences
        if self.tokens:
            metrics["dataset/bytes_per_token"] = self.bytes / self.tokens
        if self.encoded_bytes:
            metrics["encode/megabytes_per_second"] = self.encoded_bytes / 1e6 / self.seconds
            metrics["encode/tokens_per_second"] = self.encoded_tokens / self.seconds
        return metrics

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def as_markdown(self) -> str:
        """Return size and speed as Markdown, for Prefect and MLflow."""
        speed = "nothing was encoded: files and version are unchanged"
        if self.encoded_bytes:
            speed = (
                f"{megabytes(self.encoded_bytes)} in {self.seconds:.1f} s: "
                f"{self.encoded_bytes / 1e6 / self.seconds:,.1f} MB/s, "
                f"{self.encoded_tokens / self.seconds:,.0f} tokens/s"
            )
        rows = {
            "tokenizer": f"{self.reference} ({self.digest})",
            "dataset": f"{counted(self.documents, 'document')}, {megabytes(self.bytes)}",
            "tokens": f"{self.tokens:,} in {counted(self.shards, 'shard')}",
            "encoded": speed,
            "shards": f"`{self.output}`",
            "manifest": f"SHA-256 {self.manifest_digest}",
        }
        if self.link:
            rows["MLflow"] = self.link
        table = Table(("", ""), [*rows.items()], left=(0, 1))
        lines = [f"# Tokens of {self.reference}", "", table.markdown()]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"


def write_shards(
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    found: FoundFiles,
    place: str,
    *,
    engine: str,
    shared: Path,
    separator: str | None,
    on_shard: Callable[[ShardRecord], None] | None = None,
    **options: Any,
) -> tuple[TokenShards, list[str]]:
    """Encode files into token shards, in threads or on an engine's workers.

    Args:
        place: directory of the shards, or URL of a store.
        engine: see `flows.engines.working`.
        shared: a directory that all workers can access, used if ``place`` is a URL.
        on_shard, options: see `Tokenizer.encode_files`.
    """
    listener = progress.current()
    notes = [*filter(None, [found.skipped.remark])]
    notes += notes_on_documents(found.files, tokenizer, separator)
    for note in notes:
        listener.note(note)
    options["separator"] = separators_of(tokenizer, separator, encoded=True)
    options["on_shard"] = on_shard
    if engine == LOCAL:
        advance = partial(listener.step_advanced, steps.ENCODE.name)
        shards = tokenizer.encode_files(list(sources), place, on_progress=advance, **options)
    else:
        shards = encode_files(tokenizer, sources, place, engine, shared, **options)
    return shards, notes


def encode(
    reference: str,
    sources: Sequence[Source],
    place: str,
    asked: Mapping[str, Any],
    workspace: Workspace,
) -> EncodedDataset:
    """Write the missing shards in parallel; each is visible once it is complete.

    Raises:
        CorpusChanged: files changed while they were read; a new attempt reads them again.
    """
    tokenizer = load_tokenizer(reference, workspace)
    options = {key: value for key, value in asked.items() if key not in ("pack", "seed")}
    engine = options.pop("engine", None) or LOCAL
    files = search_sources(sources)
    begin = time.perf_counter()
    before = _written_at(place)
    shards, notes = write_shards(
        tokenizer, sources, files, place, engine=engine, shared=workspace.temporary, **options
    )
    seconds = time.perf_counter() - begin
    after = _written_at(place)
    new = [shard for shard in shards.records if after[shard.name] != before.get(shard.name)]
    counts = shards.manifest
    return EncodedDataset(
        reference=reference,
        digest=tokenizer.digest,
        vocab_size=tokenizer.vocab_size,
        output=place,
        manifest_digest=shards.manifest_digest,
        documents=counts["documents"],
        tokens=counts["tokens"],
        bytes=counts["bytes"],
        shards=len(shards.records),
        encoded_bytes=sum(shard.bytes for shard in new),
        encoded_tokens=sum(shard.tokens for shard in new),
        seconds=seconds,
        notes=tuple(notes),
    )


def pack(encoded: EncodedDataset, asked: Mapping[str, Any], workspace: Workspace) -> EncodedDataset:
    """Shuffle and pack the documents, if requested; errors as in `pack_beside`."""
    if asked["pack"] is None:
        return encoded
    shards = TokenShards(encoded.output)
    engine = asked["engine"] or LOCAL
    packed, notes = pack_beside(
        shards, asked["pack"], asked["seed"], engine, asked["threads"], workspace.temporary
    )
    for note in notes:
        progress.current().note(note)
    return replace(
        encoded,
        output=packed.location,
        manifest_digest=packed.manifest_digest,
        notes=(*encoded.notes, *notes),
        sequences=len(packed),
    )


def _written_at(place: str) -> dict[str, int]:
    """Return when each shard's record was written, in nanoseconds; 0 in a store."""
    if not is_url(place):
        return {path.stem: path.stat().st_mtime_ns for path in Path(place).glob("shard-*.json")}
    names = shard_place(place).sizes()
    return {name.removesuffix(".json"): 0 for name in names if name.endswith(".json")}


def record(
    encoded: EncodedDataset,
    version: ResolvedVersion,
    paths: Sequence[str],
    asked: Mapping[str, Any],
    registry: Registry,
) -> EncodedDataset:
    """Record the dataset in MLflow, unless a run with the same manifest exists."""
    runs, key = registry.tracker.runs, (version.name, encoded.manifest_digest, encoded.output)
    run = None if encoded.encoded_bytes else runs.dataset_run(*key)
    is_recorded = run is not None
    if run is None:
        shards = TokenShards(encoded.output)  # from a store: with a local copy of the manifest
        run_record = _as_record(encoded, shards, version, paths, asked)
        run = runs.record(run_record, runs.dataset_run(*key, status="RUNNING"))
    base = registry.tracker.settings.ui
    link = run_link(base, run.experiment_id, run.run_id)
    return replace(encoded, link=link, newly_recorded=not is_recorded)


def _as_record(
    encoded: EncodedDataset,
    shards: TokenShards,
    version: ResolvedVersion,
    paths: Sequence[str],
    asked: Mapping[str, Any],
) -> RunRecord:
    ids = digest_of([file.sha256 for shard in shards.records for file in shard.files])
    options = {key: value for key, value in asked.items() if value is not None}
    return RunRecord(
        name=version.name,
        title=f"{encoded.reference} dataset",
        tags={
            "kind": "dataset",
            "version": encoded.reference,
            "digest": version.digest,
            "output": encoded.output,
            "manifest_digest": encoded.manifest_digest,
        },
        params={"reference": encoded.reference, "paths": ", ".join(paths), **options},
        metrics=encoded.metrics(),
        step=encoded.vocab_size,
        # The tokens identify the text, so files are not read a second time.
        inputs=(CorpusInput(Path(paths[0]).name or paths[0], ", ".join(paths), ids, "encoding"),),
        files={f"dataset/{MANIFEST}": shards.path / MANIFEST},
        note=f"{encoded.as_markdown()}\n\n{STEP_IS_IDS}",
        note_file=f"dataset/{MANIFEST}",
    )


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
                    prepare=partial(_load, handle),
                    handle=handle,
                )
            return [records for parcel in written for records in parcel]

        return job.run_by_parts(write)


def encode_parcel(parcel: tuple[ShardPart, ...], handle: Encoding) -> list[list[ShardRecord]]:
    """Write the missing shards of a parcel; return their records, part by part."""
    listener = progress.current()

    def said(amount: int) -> None:
        raise_if_stopped()
        listener.step_advanced(steps.ENCODE.name, amount)

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


@lru_cache(maxsize=2)
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

    with progress.telling(steps.PACK, int(shards.manifest["tokens"]), "tokens") as outcome:
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
    progress.current().step_advanced(steps.PACK.name, record.tokens)


def pack_one(number: int, handle: PackingHandle) -> ShardRecord:
    """Write one packed shard, unless it exists."""
    raise_if_stopped()
    packing, _ = _packing(handle)
    record = packing.write(number)
    _advance(record)
    return record


@lru_cache(maxsize=1)
def _packing(handle: PackingHandle) -> tuple[Packing, tempfile.TemporaryDirectory[str]]:
    """Return the packing plan and the directory of fetched shards, once per process."""
    directory = tempfile.TemporaryDirectory(prefix="bpeline-packing-")
    shards = TokenShards(handle.shards).fetch(directory.name)
    place = shard_place(handle.out)
    return Packing(shards, place, handle.length, handle.seed, shards.format), directory
