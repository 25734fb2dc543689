"""A tokenizer and everything known about it become a registered version."""

from __future__ import annotations

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flows.combine_counts import CountedWords
from flows.count_words import CountedCorpus
from flows.learn import Learned
from flows.plan_chunks import CorpusPlan
from flows.steps import step
from flows.summary import TrainingSummary
from flows.training_request import TrainingRequest
from registry.artifacts import EXTENSION, holds_version, load_verified, write_exports
from registry.certificate_texts import certificate_texts
from registry.figures import draw_compression_curve, draw_token_lengths
from registry.load import load_tokenizer
from registry.opening import open_registry
from registry.publication import CorpusInput, Publication, PublishedVersion
from registry.publish import publish_version
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core.digests import canonical_json, digest_of
from tokenizer_core.durable_files import DURABLE
from tokenizer_core.errors import CorruptFile, InvalidTokenizer
from tokenizer_core.formats import bpeline
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.trainers.extension import certify_extension
from tokenizer_core.word_samples import sample_texts

MOST_INPUTS = 50
PACKAGES = ("bpeline", "regex", "numba", "numpy", "duckdb", "mlflow")


@step(name="publish")
def publish(
    summary: TrainingSummary,
    learned: Learned,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
) -> PublishedVersion:
    """Write the files, then register them once, whatever happens in between.

    Raises:
        RegistryUnreachable: MLflow does not answer; the result is kept in the outbox.
        DiskFull: no space left.
    """
    registry = open_registry(workspace)
    tokenizer = learned.tokenizer(request)
    with workspace.temporary_directory("publish") as directory:
        figures = _draw(summary, tokenizer, directory)
        provenance = _provenance(summary, learned, words, request)
        publication = Publication(
            name=request.name,
            digest=tokenizer.digest,
            tokenizer_directory=_files(tokenizer, provenance, words, request, workspace, directory),
            run_id=summary.run_id,
            corpus_digest=words.corpus_digest,
            counts_digest=words.table.counts_digest,
            vocab_size=tokenizer.vocab_size,
            pattern=tokenizer.pattern.name or tokenizer.pattern.regex,
            params=_params(request, learned),
            metrics=summary.metrics,
            curve=summary.curve,
            inputs=tuple(_inputs(plan, corpus, words)),
            figures=figures,
            tags={"extends": request.extends} if request.extends else {},
            report=summary.as_markdown(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return publish_version(workspace, registry.catalogue, registry.tracker, publication)


def _files(
    tokenizer: Tokenizer,
    provenance: dict[str, Any],
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
) -> Path:
    """The version's files: those kept from an earlier registration, else new ones."""
    kept = workspace.version_directory(tokenizer.digest)
    if holds_version(workspace, tokenizer.digest):
        try:
            load_verified(kept, tokenizer.digest)
        except (CorruptFile, InvalidTokenizer):
            pass
        else:
            return kept
    between = "" if request.over_bytes else " "
    samples = sample_texts(WordCountStore(workspace).open_table(words.table), between)
    if request.extends:
        base = load_tokenizer(request.extends, workspace)
        texts = certificate_texts(tokenizer, samples)
        certificate = asdict(certify_extension(base, tokenizer, texts))
        DURABLE.write(directory / EXTENSION, canonical_json(certificate))
    bpeline.save(tokenizer, directory, provenance, samples)
    write_exports(tokenizer, request.name, directory)
    return directory


def _provenance(
    summary: TrainingSummary, learned: Learned, words: CountedWords, request: TrainingRequest
) -> dict[str, Any]:
    return {
        "name": request.name,
        "run": summary.run_id,
        "request": request.as_config(),
        "corpus_digest": words.corpus_digest,
        "counts_digest": words.table.counts_digest,
        "pruned": asdict(learned.pruned),
        "notes": list(summary.notes),
        "metrics": dict(summary.metrics),
        "made_with": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "system": platform.system(),
            **{name: _version(name) for name in PACKAGES},
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _params(request: TrainingRequest, learned: Learned) -> dict[str, Any]:
    config = request.as_config()
    del config["name"]
    options = config.pop("options")
    config.update(options)
    if request.min_word_count > 1:
        config["pruned_distinct_words"] = learned.pruned.words
        config["pruned_words"] = learned.pruned.occurrences
    return {key: value for key, value in config.items() if value is not None}


def _inputs(plan: CorpusPlan, corpus: CountedCorpus, words: CountedWords) -> list[CorpusInput]:
    """The sources with the digests of what they held; one for all when there are many."""
    chunks: dict[str, list[str]] = {}
    for file, reading in zip(plan.files, corpus.readings, strict=True):
        chunks.setdefault(file.source, []).extend(chunk.digest for chunk in reading.chunks)
    if len(chunks) > MOST_INPUTS:
        first = next(iter(chunks))
        place = f"{first} and {len(chunks) - 1:,} more"
        return [CorpusInput(f"{len(chunks):,} sources", place, words.corpus_digest)]
    return [
        CorpusInput(Path(source).name or source, source, digest_of(digests))
        for source, digests in chunks.items()
    ]


def _draw(summary: TrainingSummary, tokenizer: Tokenizer, directory: Path) -> tuple[Path, ...]:
    lengths = [len(token) for token in tokenizer.vocab.values()]
    title = f"{summary.name}, {summary.vocab_size:,} ids"
    figures = directory / "figures"
    return (
        draw_compression_curve(summary.curve, figures / "compression.svg", title),
        draw_token_lengths(lengths, figures / "token-lengths.svg", title),
    )
