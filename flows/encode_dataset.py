"""A dataset becomes token shards of a registered version, and MLflow remembers how it went."""

from __future__ import annotations

from bpeline.flows.encoding import EncodedDataset, encode, pack, record
from bpeline.flows.engines import LOCAL, check_engine
from bpeline.flows.requests import DatasetRequest, request_parameters, with_demo
from bpeline.flows.running import ENCODE, ENCODE_DATASET, RECORD, attempts, progress
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered, split_size
from bpeline.tokenizer_core.corpus import Source, search_sources
from bpeline.tokenizer_core.errors import UnknownVersion
from bpeline.tokenizer_core.urls import absolute_name


@request_parameters(DatasetRequest)
def encode_dataset(request: DatasetRequest, workspace: str | None) -> EncodedDataset:
    """Encode files into token shards with a registered version, and record it in MLflow.

    Every version has a directory of its own in the output, which is a directory or the URL of a
    store. The same call after an interruption continues behind the shards that are finished; with
    files added, it encodes these; when neither the files nor the version have changed, it verifies
    the shards and records nothing.

    Raises:
        UnknownVersion: there is no such version.
        WorkspaceLocked: another process writes there.
        RegistryUnreachable: MLflow does not answer; finished shards stay.
        BpelineError: what was asked for or read cannot be; finished shards stay.
    """
    check_engine(request.engine)
    registry = open_registry(workspace, make=False)
    reference, paths, output = request.reference, request.paths, request.output
    named, size = split_size(reference)
    version = resolve(registry, parse_registered(str(named)))
    if not version.number:
        raise UnknownVersion(
            f"{reference} is kept in the workspace and not registered",
            "accepted are registered versions, so that people find out what was encoded with what",
            "type `bpeline versions` to see them, or `bpeline resume` to publish what waits",
        )
    sized = "" if size is None else f"-{size}"
    below = absolute_name(output) if output else str(registry.workspace.tokens)
    place = f"{below.rstrip('/')}/{version.name}-{version.number}{sized}"
    demo = with_demo(paths, registry.workspace)
    sources = [Source(one, include=request.include) for one in demo]
    found = search_sources(sources)
    if request.strict:
        found.skipped.refuse()
    asked = {
        "format": request.format, "separator": request.separator,
        "end_of_text": request.end_of_text, "invalid_utf8": request.invalid_utf8,
        "text_field": request.text_field, "id_field": request.id_field,
        "shard_bytes": request.shard_megabytes << 20, "threads": request.threads,
        "pack": request.pack, "seed": request.seed if request.pack else None,
        "engine": None if request.engine == LOCAL else request.engine,
    }  # fmt: skip
    total = sum(file.size for file in found.files)
    exact = str(version) if size is None else f"{version}:{size}"
    for attempt in attempts(ENCODE_DATASET, progress.current().note):
        with attempt, progress.telling(ENCODE, total, "bytes") as said:
            encoded = encode(exact, sources, place, asked, registry.workspace)
            said.append(encoded.outcome)
    encoded = pack(encoded, asked, registry.workspace)
    with progress.telling(RECORD) as said:
        recorded = record(encoded, version, paths, asked, registry)
        said.append(recorded.link if recorded.newly_recorded else "recorded before")
    progress.current().summary(recorded.reference, recorded.as_markdown())
    return recorded
