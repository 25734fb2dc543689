"""The flow that encodes a dataset into token shards and records it in MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpeline.flows import encoding
from bpeline.flows.encoding import EncodedDataset
from bpeline.flows.engines import LOCAL, check_engine
from bpeline.flows.requests import DatasetRequest, request_parameters, with_demo
from bpeline.flows.running import attempts, progress, steps
from bpeline.flows.serving import RETRIES, find_version, flow, run_names, task
from bpeline.registry.loading import ResolvedVersion
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered, split_size
from bpeline.tokenizer_core.corpus import Source, search_sources
from bpeline.tokenizer_core.errors import UnknownVersion
from bpeline.tokenizer_core.urls import absolute_name


@flow(
    steps.ENCODE_DATASET,
    run_name=run_names.encoding,
    about=run_names.tokenizer,
    called=lambda encoded: encoded.reference,
)
@request_parameters(DatasetRequest)
def encode_dataset(request: DatasetRequest, workspace: str | None) -> EncodedDataset:
    """Encode files into token shards with a registered version; record it in MLflow.

    Each version has its own directory in the output, which is a directory or the URL of a store.
    After an interruption, the same call continues after the finished shards. Added files are
    encoded. If neither the files nor the version have changed, the shards are only verified.

    Raises:
        RegistryUnreachable: MLflow does not answer; finished shards are kept.
    """
    check_engine(request.engine)
    registry = open_registry(workspace, make=False)
    reference, paths, output = request.reference, request.paths, request.output
    named, size = split_size(reference)
    version = find_version(registry, parse_registered(str(named)))
    if not version.number:
        raise UnknownVersion(
            f"{reference} is in the workspace but not registered",
            "expected a registered version, so that a dataset can be traced to its tokenizer",
            "type `bpeline versions` to see them, or `bpeline resume` to publish waiting versions",
        )
    suffix = "" if size is None else f"-{size}"
    below = absolute_name(output) if output else str(registry.workspace.tokens)
    place = f"{below.rstrip('/')}/{version.name}-{version.number}{suffix}"
    demo = with_demo(paths, registry.workspace)
    sources = [Source(path, include=request.include) for path in demo]
    files_found = search_sources(sources)
    if request.strict:
        files_found.skipped.refuse()
    options = {
        "format": request.format, "separator": request.separator,
        "end_of_text": request.end_of_text, "invalid_utf8": request.invalid_utf8,
        "text_field": request.text_field, "id_field": request.id_field,
        "shard_bytes": request.shard_megabytes << 20, "threads": request.threads,
        "pack": request.pack, "seed": request.seed if request.pack else None,
        "engine": None if request.engine == LOCAL else request.engine,
    }  # fmt: skip
    total = sum(file.size for file in files_found.files)
    exact = str(version) if size is None else f"{version}:{size}"
    for attempt in attempts(steps.ENCODE_DATASET, progress.current().note):
        with attempt:
            encoded = encode(exact, sources, place, options, registry, total)
    encoded = pack(encoded, options, registry)
    recorded = record(encoded, version, paths, options, registry)
    progress.current().summary(recorded.reference, recorded.as_markdown())
    return recorded


@task(name=steps.ENCODE.name, **RETRIES)
def encode(
    reference: str,
    sources: Sequence[Source],
    place: str,
    asked: Mapping[str, Any],
    registry: Registry,
    total: int,
) -> EncodedDataset:
    """Write the missing shards; ``total`` is the size of the files in bytes."""
    with progress.telling(steps.ENCODE, total, "bytes") as outcome:
        encoded = encoding.encode(reference, sources, place, asked, registry.workspace)
        outcome(encoded.outcome)
    return encoded


@task(name=steps.PACK.name)
def pack(encoded: EncodedDataset, asked: Mapping[str, Any], registry: Registry) -> EncodedDataset:
    """Shuffle and pack the documents, if requested."""
    return encoding.pack(encoded, asked, registry.workspace)


@task(name=steps.RECORD.name, **RETRIES)
def record(
    encoded: EncodedDataset,
    version: ResolvedVersion,
    paths: Sequence[str],
    asked: Mapping[str, Any],
    registry: Registry,
) -> EncodedDataset:
    """Record the dataset in MLflow, unless it is recorded already."""
    with progress.telling(steps.RECORD) as outcome:
        recorded = encoding.record(encoded, version, paths, asked, registry)
        outcome(recorded.link if recorded.newly_recorded else "recorded before")
    return recorded
