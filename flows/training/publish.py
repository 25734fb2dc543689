"""A tokenizer and everything known about it become a registered version."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flows.evaluation.evaluate import HELD_OUT, TRAINING, Evaluated
from flows.evaluation.evaluation_figures import draw_figures
from flows.source_spelling import decimal
from flows.steps import step
from flows.training.combine_counts import CountedWords
from flows.training.count_words import CountedCorpus
from flows.training.learn import Learned
from flows.training.plan_chunks import CorpusPlan
from flows.training.screen_tokens import ScreenedTokens
from flows.training.source_statistics import as_json
from flows.training.summary import TrainingSummary
from flows.training.training_report import write_training_report
from flows.training.training_request import TrainingRequest
from flows.versions.comparison_json import comparison_json
from flows.versions.comparison_page import comparison_page
from registry.comparison import VersionComparison
from registry.exports.certificate_texts import certificate_texts
from registry.loading.load import load_tokenizer
from registry.measured import write_evaluation
from registry.opening import open_registry
from registry.publishing.artifacts import (
    EXTENSION,
    PAGES,
    holds_version,
    load_verified,
    write_exports,
)
from registry.publishing.publication import CorpusInput, Publication, PublishedVersion
from registry.publishing.publish import publish_version
from registry.word_counts.store import WordCountStore
from registry.workspace.workspace import Workspace
from tokenizer_core.counting.word_samples import sample_texts
from tokenizer_core.digests import canonical_json, digest_of, sealed
from tokenizer_core.durable_files import DURABLE
from tokenizer_core.errors import CorruptFile, InvalidTokenizer, MissingSource
from tokenizer_core.formats import bpeline
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.trainers.extension import certify_extension

MOST_INPUTS = 50
SOURCES_TABLE = "sources/sources.json"
PACKAGES = ("bpeline", "regex", "numba", "numpy", "duckdb", "mlflow")


@step(name="publish")
def publish(
    summary: TrainingSummary,
    learned: Learned,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    words: CountedWords,
    evaluated: Evaluated,
    screened: ScreenedTokens,
    request: TrainingRequest,
    workspace: Workspace,
) -> PublishedVersion:
    """Write the files, then register them once, whatever happens in between.

    Raises:
        RegistryUnreachable: MLflow does not answer; the result is kept in the outbox.
        DiskFull: no space left.
    """
    registry = open_registry(workspace)
    tokenizer = evaluated.tokenizer
    with workspace.temporary_directory("publish") as directory:
        figures = draw_figures(summary, evaluated, tokenizer, directory / "figures")
        provenance = _provenance(summary, learned, words, request)
        files = _files(tokenizer, provenance, words, request, workspace, directory)
        measured = evaluated.record(tokenizer.digest)
        write_evaluation({**measured, "screening": screened.screening.as_record()}, files)
        report = directory / "pages" / "report.html"
        write_training_report(report, summary, request, tokenizer, screened, evaluated)
        publication = Publication(
            name=request.name,
            digest=tokenizer.digest,
            tokenizer_directory=files,
            run_id=summary.run_id,
            corpus_digest=words.corpus_digest,
            counts_digest=words.table.counts_digest,
            vocab_size=tokenizer.vocab_size,
            pattern=tokenizer.pattern.name or tokenizer.pattern.regex,
            params=_params(request, learned, words),
            metrics=summary.metrics,
            curve=summary.curve,
            curves=summary.curves,
            inputs=(*corpus_inputs(plan, corpus, words, request), *evaluation_inputs(evaluated)),
            tags=_tags(evaluated, words, request),
            figures=figures,
            pages=(
                report,
                *_pages(evaluated.comparison, report.parent),
                *_sources_page(words, report.parent),
            ),
            report=summary.as_markdown(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        version = publish_version(workspace, registry.catalogue, registry.tracker, publication)
        if evaluated.comparison is not None and version.newly_registered:
            # Only now the new version has a number. Without it the pages are right, too.
            pages = version.directory / PAGES
            for page in _pages(evaluated.comparison.called(version.reference), pages):
                registry.tracker.add_files(version.mlflow_run_id, [page], page.stem)
        return version


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
        except (CorruptFile, InvalidTokenizer, MissingSource):
            pass
        else:
            return kept
    between = "" if request.over_bytes else " "
    samples = sample_texts(WordCountStore(workspace).open_table(words.table), between)
    if request.extends:
        base = load_tokenizer(request.extends, workspace)
        texts = certificate_texts(tokenizer, samples)
        certificate = asdict(certify_extension(base, tokenizer, texts))
        DURABLE.write(directory / EXTENSION, canonical_json(sealed(certificate)))
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
        **({"sources": as_json(words.sources)} if words.sources else {}),
        "metrics": dict(summary.metrics),
        "made_with": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "system": platform.system(),
            **{name: _version(name) for name in PACKAGES},
        },
    }


@cache
def _version(package: str) -> str:
    """Looked up once: that reads files of everything installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _params(request: TrainingRequest, learned: Learned, words: CountedWords) -> dict[str, Any]:
    config = request.as_config()
    del config["name"]
    options = config.pop("options")
    config.update(options)
    if request.min_word_count > 1:
        config["pruned_distinct_words"] = learned.pruned.words
        config["pruned_words"] = learned.pruned.occurrences
    if words.sources:
        weights = (f"{one.source}={decimal(one.weight)}" for one in words.sources)
        config["weights"] = ", ".join(weights)
    return {key: value for key, value in config.items() if value is not None}


def corpus_inputs(
    plan: CorpusPlan, corpus: CountedCorpus, words: CountedWords, request: TrainingRequest
) -> list[CorpusInput]:
    """The sources with the digests of what they held; one for all when there are many."""
    chunks: dict[str, list[str]] = {}
    for file, reading in zip(plan.files, corpus.readings, strict=True):
        chunks.setdefault(file.source, []).extend(chunk.digest for chunk in reading.chunks)
    if len(chunks) > MOST_INPUTS:
        first = next(iter(chunks))
        place = f"{first} and {len(chunks) - 1:,} more"
        return [CorpusInput(f"{len(chunks):,} sources", place, words.corpus_digest)]
    places = {one.name: ", ".join(one.files) for one in request.named_sources}
    return [
        CorpusInput(Path(source).name or source, places.get(source, source), digest_of(digests))
        for source, digests in chunks.items()
    ]


def evaluation_inputs(evaluated: Evaluated) -> list[CorpusInput]:
    """What was evaluated on, with digests."""
    inputs = []
    for one in evaluated.sources:
        of_a_source = not one.files and one.name not in (HELD_OUT, TRAINING)
        name = f"{HELD_OUT}-{one.name}" if of_a_source else one.name
        inputs.append(CorpusInput(name, ", ".join(one.files) or name, one.digest, "evaluation"))
    return inputs


def _tags(evaluated: Evaluated, words: CountedWords, request: TrainingRequest) -> dict[str, str]:
    """What was compared with, so that a list of runs tells; and which file is a table."""
    tags = {f"compared_with.{label}": said for label, said in evaluated.references.items()}
    if request.extends:
        tags["extends"] = request.extends
    if words.sources:
        tags["mlflow.loggedArtifacts"] = json.dumps([{"path": SOURCES_TABLE, "type": "table"}])
    return tags


def _sources_page(words: CountedWords, directory: Path) -> tuple[Path, ...]:
    """The statistics of named sources, in the form of tables that MLflow shows and compares."""
    if not words.sources:
        return ()
    rows = as_json(words.sources)
    path = directory / Path(SOURCES_TABLE).name
    table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    DURABLE.write(path, json.dumps(table).encode())
    return (path,)


def _pages(comparison: VersionComparison | None, directory: Path) -> tuple[Path, ...]:
    """The comparison to the champion, for people and for programs."""
    if comparison is None:
        return ()
    page, data = directory / "comparison.html", directory / "comparison.json"
    DURABLE.write(page, comparison_page(comparison).encode(errors="backslashreplace"))
    DURABLE.write(data, canonical_json(comparison_json(comparison)))
    return page, data
