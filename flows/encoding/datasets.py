"""A dataset as token shards of a version: written in parallel, and recorded in MLflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpeline.flows.counting import notes_on_documents
from bpeline.flows.encoding.packing import pack_beside
from bpeline.flows.encoding.shards import encode_files
from bpeline.flows.engines import LOCAL
from bpeline.flows.running import ENCODE, progress
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.loading import ResolvedVersion, load_tokenizer
from bpeline.registry.opening import Registry
from bpeline.registry.records import CorpusInput, RunRecord
from bpeline.registry.tracking import STEP_IS_IDS, run_link
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import FoundFiles, Source, search_sources
from bpeline.tokenizer_core.digests import MANIFEST, digest_of
from bpeline.tokenizer_core.shards import ShardRecord, TokenShards, separators_of, shard_place
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.urls import is_url


@dataclass(frozen=True, slots=True)
class EncodedDataset:
    """A dataset as token shards.

    Attributes:
        reference: the version whose ids they hold (``news/3``, ``news/3:8000``).
        digest, vocab_size: of its tokenizer.
        output: the directory of the shards.
        manifest_digest: SHA-256 of their manifest.
        documents, tokens, bytes, shards: what they hold; bytes of documents.
        encoded_bytes, encoded_tokens: of the shards that this run wrote; the others were there.
        seconds: that encoding took, finding and verifying those that were there included.
        link: the run in the MLflow UI.
        newly_recorded: False when nothing had changed since an earlier run, whose link this is.
        notes: where documents end, and what people should know of them.
        sequences: of packed shards, which ``output`` and ``manifest_digest`` are of then; the
            counts are those of documents before that.
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
        said = f"{counted(self.tokens, 'token')} of {counted(self.documents, 'document')}"
        if not self.encoded_bytes:
            return f"{said}, all encoded before"
        kept = self.bytes - self.encoded_bytes
        return said + (f", {megabytes(kept)} of them encoded before" if kept else "")

    def metrics(self) -> dict[str, float]:
        """What MLflow shows; how fast it was only where something was encoded."""
        found: dict[str, float] = {
            "dataset/documents": self.documents,
            "dataset/tokens": self.tokens,
            "dataset/bytes": self.bytes,
            "dataset/shards": self.shards,
            "encode/bytes": self.encoded_bytes,
            "encode/seconds": self.seconds,
        }
        if self.sequences is not None:
            found["dataset/sequences"] = self.sequences
        if self.tokens:
            found["dataset/bytes_per_token"] = self.bytes / self.tokens
        if self.encoded_bytes:
            found["encode/megabytes_per_second"] = self.encoded_bytes / 1e6 / self.seconds
            found["encode/tokens_per_second"] = self.encoded_tokens / self.seconds
        return found

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def as_markdown(self) -> str:
        """What it is and how fast it went, for Prefect and MLflow."""
        speed = "nothing was encoded: neither files nor version had changed"
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
        found: the files of ``sources``.
        place: the directory of the shards, or the URL of a store.
        engine: see `flows.engines.working`.
        shared: a directory that all workers see, where ``place`` is a URL.
        separator: what was asked for, see `separators_of`.
        on_shard, options: as for `Tokenizer.encode_files`.

    Returns:
        The shards, and notes: what was skipped, where documents end.
    """
    listener = progress.current()
    notes = [*filter(None, [found.skipped.remark])]
    notes += notes_on_documents(found.files, tokenizer, separator)
    for note in notes:
        listener.note(note)
    options["separator"] = separators_of(tokenizer, separator, encoded=True)
    options["on_shard"] = on_shard
    if engine == LOCAL:
        advance = partial(listener.step_advanced, ENCODE.name)
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
    """Write the shards that are not there yet, in parallel, each published when it is complete.

    Raises:
        CorpusChanged: files were written to while they were read; trying again reads them anew.
        BpelineError: as for `Tokenizer.encode_files`.
    """
    tokenizer = load_tokenizer(reference, workspace)
    options = {key: value for key, value in asked.items() if key not in ("pack", "seed")}
    engine = options.pop("engine", None) or LOCAL
    found = search_sources(sources)
    begin = time.perf_counter()
    before = _written_at(place)
    shards, notes = write_shards(
        tokenizer, sources, found, place, engine=engine, shared=workspace.temporary, **options
    )
    seconds = time.perf_counter() - begin
    now = _written_at(place)
    new = [one for one in shards.records if now[one.name] != before.get(one.name)]
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
        encoded_bytes=sum(one.bytes for one in new),
        encoded_tokens=sum(one.tokens for one in new),
        seconds=seconds,
        notes=tuple(notes),
    )


def pack(encoded: EncodedDataset, asked: Mapping[str, Any], workspace: Workspace) -> EncodedDataset:
    """Write the documents once more, shuffled and packed, where that was asked for.

    Raises:
        BpelineError: as `pack_beside`.
    """
    if asked["pack"] is None:
        return encoded
    shards = TokenShards(encoded.output)
    engine = asked["engine"] or LOCAL
    packed, said = pack_beside(
        shards, asked["pack"], asked["seed"], engine, asked["threads"], workspace.temporary
    )
    for note in said:
        progress.current().note(note)
    return replace(
        encoded,
        output=packed.location,
        manifest_digest=packed.manifest_digest,
        notes=(*encoded.notes, *said),
        sequences=len(packed),
    )


def _written_at(place: str) -> dict[str, int]:
    """When the record of each shard was written, in nanoseconds; 0 for all in a store."""
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
    """Tell MLflow, unless it knows: nothing was encoded, and a run shows this very manifest.

    Raises:
        RegistryUnreachable: MLflow does not answer; the shards stay.
    """
    runs, called = registry.tracker.runs, (version.name, encoded.manifest_digest, encoded.output)
    run = None if encoded.encoded_bytes else runs.dataset_run(*called)
    known = run is not None
    if run is None:
        shards = TokenShards(encoded.output)  # of a store, it holds a copy of the manifest
        shown = _as_record(encoded, shards, version, paths, asked)
        run = runs.record(shown, runs.dataset_run(*called, status="RUNNING"))
    base = registry.tracker.settings.ui
    link = run_link(base, run.experiment_id, run.run_id)
    return replace(encoded, link=link, newly_recorded=not known)


def _as_record(
    encoded: EncodedDataset,
    shards: TokenShards,
    version: ResolvedVersion,
    paths: Sequence[str],
    asked: Mapping[str, Any],
) -> RunRecord:
    ids = digest_of([file.sha256 for shard in shards.records for file in shard.files])
    given = {key: value for key, value in asked.items() if value is not None}
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
        params={"reference": encoded.reference, "paths": ", ".join(paths), **given},
        metrics=encoded.metrics(),
        step=encoded.vocab_size,
        # Its tokens tell one text from another, and files are not read a second time.
        inputs=(CorpusInput(Path(paths[0]).name or paths[0], ", ".join(paths), ids, "encoding"),),
        files={f"dataset/{MANIFEST}": shards.path / MANIFEST},
        note=f"{encoded.as_markdown()}\n\n{STEP_IS_IDS}",
        note_file=f"dataset/{MANIFEST}",
    )
