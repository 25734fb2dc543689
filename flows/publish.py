"""A tokenizer and everything known about it become a registered version."""

from __future__ import annotations

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flows.combine_counts import CountedWords
from flows.comparison_json import comparison_json
from flows.comparison_page import comparison_page
from flows.count_words import CountedCorpus
from flows.evaluate import Evaluated
from flows.evaluation_figures import draw_figures
from flows.learn import Learned
from flows.plan_chunks import CorpusPlan
from flows.screen_tokens import ScreenedTokens
from flows.steps import step
from flows.summary import TrainingSummary
from flows.training_report import write_training_report
from flows.training_request import TrainingRequest
from registry.artifacts import EXTENSION, holds_version, load_verified, write_exports
from registry.certificate_texts import certificate_texts
from registry.load import load_tokenizer
from registry.measured import write_evaluation
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
    tokenizer = learned.tokenizer(request)
    with workspace.temporary_directory("publish") as directory:
        figures = draw_figures(summary, evaluated, tokenizer, directory / "figures")
        provenance = _provenance(summary, learned, words, request)
        files = _files(tokenizer, provenance, words, request, workspace, directory)
        write_evaluation(evaluated.record(tokenizer.digest), files)
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
            params=_params(request, learned),
            metrics=summary.metrics,
            curve=summary.curve,
            curves=summary.curves,
            inputs=(*corpus_inputs(plan, corpus, words), *evaluation_inputs(evaluated)),
            tags=_tags(evaluated) | ({"extends": request.extends} if request.extends else {}),
            figures=figures,
            pages=(report, *_pages(evaluated, report.parent)),
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


def corpus_inputs(
    plan: CorpusPlan, corpus: CountedCorpus, words: CountedWords
) -> list[CorpusInput]:
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


def evaluation_inputs(evaluated: Evaluated) -> list[CorpusInput]:
    """What was evaluated on, with digests."""
    return [
        CorpusInput(one.name, ", ".join(one.files) or one.name, one.digest, "evaluation")
        for one in evaluated.sources
    ]


def _tags(evaluated: Evaluated) -> dict[str, str]:
    """What was compared with, so that a list of runs tells."""
    return {f"compared_with.{label}": said for label, said in evaluated.references.items()}


def _pages(evaluated: Evaluated, directory: Path) -> tuple[Path, ...]:
    """The comparison to the champion, for people and for programs."""
    if evaluated.comparison is None:
        return ()
    page, data = directory / "comparison.html", directory / "comparison.json"
    DURABLE.write(page, comparison_page(evaluated.comparison).encode())
    DURABLE.write(data, canonical_json(comparison_json(evaluated.comparison)))
    return page, data
