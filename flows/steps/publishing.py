"""A tokenizer and everything known about it become a registered version."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bpeline.flows.comparisons import comparison_json
from bpeline.flows.name_page import show_name_page
from bpeline.flows.pages import ReportContents, comparison_page, report_page
from bpeline.flows.requests import CHAMPION, TrainingRequest, decimal
from bpeline.flows.running import PUBLISH, step
from bpeline.flows.steps.chunk_plan import CorpusPlan
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.counting import CountedCorpus
from bpeline.flows.steps.evaluating import HELD_OUT, TRAINING, Evaluated
from bpeline.flows.steps.evaluation_figures import draw_figures
from bpeline.flows.steps.learning import Learned
from bpeline.flows.steps.runs import RunRequest, TrainingRun, asked
from bpeline.flows.steps.source_statistics import as_json
from bpeline.flows.steps.summarizing import Trained
from bpeline.flows.steps.summary import TrainingSummary
from bpeline.registry.environment import this_user
from bpeline.registry.exports import certificate_texts
from bpeline.registry.lineage import RULE, Lineage
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.measured import (
    CHOSEN_SIZES,
    ROBUSTNESS_COLUMNS,
    read_evaluation,
    robustness_table,
    write_evaluation,
)
from bpeline.registry.opening import Registry
from bpeline.registry.publishing import publish_version
from bpeline.registry.records import (
    CURVE_METRIC,
    MEASURED_ON,
    CorpusInput,
    Publication,
    PublishedVersion,
)
from bpeline.registry.references import parse_registered
from bpeline.registry.version_files import (
    EXTENSION,
    PAGES,
    RECIPE,
    holds_version,
    load_verified,
    write_exports,
)
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.continuation import recipes
from bpeline.tokenizer_core.counting import sample_texts
from bpeline.tokenizer_core.digests import canonical_json, digest_of, sealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidTokenizer,
    MissingSource,
    RegistryError,
)
from bpeline.tokenizer_core.formats import bpeline, declared_roles
from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.splitting import unicode_version
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import certify_extension

MOST_INPUTS = 50
SOURCES_TABLE = "sources/sources.json"
ROBUSTNESS_TABLE = "robustness/robustness.json"
PACKAGES = ("bpeline", "regex", "numba", "numpy", "duckdb", "mlflow")


@step(PUBLISH)
def publish(
    run: TrainingRun, trained: Trained, summary: TrainingSummary, until_ready: Callable[[], object]
) -> PublishedVersion:
    """Write the files, then register them once, whatever happens in between.

    Args:
        until_ready: waits until MLflow can be told, called when the files are written.

    Raises:
        RegistryUnreachable: MLflow does not answer; the result is kept in the outbox.
        DiskFull: no space left.
    """
    request, registry, workspace = trained.request, run.registry, run.workspace
    words, learned, evaluated = trained.words, trained.learned, trained.evaluated
    tokenizer = evaluated.tokenizer
    with workspace.temporary_directory("publish") as directory, DURABLE.passing(directory):
        figures = draw_figures(summary.name, evaluated, directory / "figures", trained.choice)
        provenance = _provenance(summary, learned, words, request)
        provenance[RULE] = run.row.left_out_rule
        if evaluated.left_out:
            provenance["left_out"] = evaluated.left_out
        files = _files(tokenizer, provenance, words, request, workspace, directory)
        measured = evaluated.record()
        screening = trained.screened.screening.as_record()
        chosen = {CHOSEN_SIZES: _chosen_sizes(summary, files)}
        write_evaluation({**measured, **chosen, "screening": screening}, files)
        contents, pages = _report(summary, request, trained, measured), directory / "pages"
        publication = Publication(
            name=request.name,
            digest=tokenizer.digest,
            tokenizer_directory=files,
            run_id=summary.run_id,
            corpus_digest=words.corpus_digest,
            counts_digest=words.table.counts_digest,
            vocab_size=tokenizer.vocab_size,
            pattern=tokenizer.pattern.title,
            params=_params(run.request, trained),
            metrics=summary.metrics,
            curve=summary.curve,
            curves=summary.curves,
            inputs=(
                *corpus_inputs(trained.plan, trained.corpus, words, request),
                *_development_inputs(learned),
                *evaluation_inputs(evaluated),
            ),
            tags=_tags(evaluated, words, request, measured),
            figures=figures,
            pages=(
                *page_files(contents, pages),
                *_sources_page(words, pages),
                *robustness_file(measured, pages),
            ),
            report=summary.as_markdown(),
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            started_at=run.row.started_at,
            started_by=this_user(),
            evaluation_set="" if evaluated.made is None else evaluated.made.digest,
            set_number=evaluated.set_number,
        )
        until_ready()
        version = publish_version(registry, publication)
        note_remarks(run, version)
        number_pages(registry, version, contents, publication.report)
        return replace(version, history=show_name_page(registry, version.name))


def note_remarks(run: TrainingRun, version: PublishedVersion) -> None:
    """Note what publishing says, and that a version's roles stay what they were."""
    for remark in version.remarks:
        run.note(remark)
    if version.newly_registered or not run.request.roles:
        return
    resolved = resolve(run.registry, parse_registered(version.reference))
    kept, asked = Lineage.of(run.registry, resolved).roles, declared_roles(run.request.roles)
    if any(kept.get(role) != token for role, token in asked.items()):
        roles = ", ".join(f"{role}={token}" for role, token in kept.items()) or "none declared"
        run.note(
            f"the roles of special tokens stay those of {version.reference}: {roles}; to export "
            "others, type `bpeline export --role`"
        )


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
    if request.extends and not request.transition_size:  # superwords take other ids
        base = load_tokenizer(request.extends, workspace)
        texts = certificate_texts(tokenizer, samples)
        certificate = asdict(certify_extension(base, tokenizer, texts))
        DURABLE.write(directory / EXTENSION, canonical_json(sealed(certificate)))
        recipe = {"base": base.digest, "new_ids": list(recipes(base, tokenizer))}
        DURABLE.write(directory / RECIPE, canonical_json(sealed(recipe)))
    bpeline.save(tokenizer, directory, provenance, samples)
    write_exports(tokenizer, request.name, directory)
    return directory


def _chosen_sizes(summary: TrainingSummary, files: Path) -> dict[str, Any]:
    """How trainings chose this number of ids, by name: those of other names share the files."""
    before = (read_evaluation(files) or {}).get(CHOSEN_SIZES, {})
    return {**before, **({summary.name: summary.chosen_size} if summary.chosen_size else {})}


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
        **({"development": list(map(asdict, learned.development))} if learned.development else {}),
        "metrics": dict(summary.metrics),
        "made_with": made_with(),
    }


def made_with() -> dict[str, str]:
    """This machine, and the versions of what a version's bytes and figures depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        **{name: installed_version(name) for name in PACKAGES},
        "unicode": unicode_version(),
    }


@cache
def installed_version(package: str) -> str:
    """Looked up once: that reads files of everything installed."""
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def _params(asked_for: RunRequest, trained: Trained) -> dict[str, Any]:
    """What was asked, as the run showed it when it began, and what became of it."""
    request, learned = trained.request, trained.learned
    words, copies = trained.words, trained.corpus.copies
    # As a parameter, too: what is compared with it shares rows with what met another one.
    config = {**asked(asked_for), CHAMPION: trained.evaluated.references.get(CHAMPION, "none")}
    if copies is not None:
        config["copied_documents"] = copies.documents
        config["copied_bytes"] = copies.text_bytes
    if request.min_word_count > 1:
        config["pruned_distinct_words"] = learned.pruned.words
        config["pruned_words"] = learned.pruned.occurrences
    if trained.choice is not None:
        config |= trained.choice.params
    if words.sources:
        weights = (f"{one.source}={decimal(one.weight)}" for one in words.sources)
        config["weights"] = ", ".join(weights)
    return config


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


def _development_inputs(learned: Learned) -> list[CorpusInput]:
    """What said which source was worst off, with digests."""
    return [
        CorpusInput(f"development-{one.name}", ", ".join(one.files), one.digest, "development")
        for one in learned.development
    ]


def evaluation_inputs(evaluated: Evaluated) -> list[CorpusInput]:
    """What was evaluated on, with digests."""
    inputs = []
    if evaluated.made is not None:
        whole = CorpusInput(
            "evaluation set", str(evaluated.made), evaluated.made.digest, "evaluation"
        )
        inputs.append(whole)
    for one in evaluated.sources:
        of_a_source = not one.files and one.name not in (HELD_OUT, TRAINING)
        name = f"{HELD_OUT}-{one.name}" if of_a_source else one.name
        inputs.append(CorpusInput(name, ", ".join(one.files) or name, one.digest, "evaluation"))
    return inputs


def _tags(
    evaluated: Evaluated,
    words: CountedWords,
    request: TrainingRequest,
    measured: Mapping[str, Any],
) -> dict[str, str]:
    extends = {"extends": request.extends} if request.extends else {}
    tables = [SOURCES_TABLE] * bool(words.sources)
    return {**tags_of(evaluated, measured, tables), **extends}


def tags_of(
    evaluated: Evaluated, measured: Mapping[str, Any], tables: Sequence[str] = ()
) -> dict[str, str]:
    """What was compared with, so that a list of runs tells; and which files are tables."""
    tags = {f"compared_with.{label}": said for label, said in evaluated.references.items()}
    # Of all figures only the `SPEEDS` depend on it, beside the seconds.
    tags["speed_of"] = f"one thread, {platform.machine()} of {thread_count(None)} processors"
    if evaluated.made is not None:
        tags[MEASURED_ON] = str(evaluated.made)
    tables = [*tables, *[ROBUSTNESS_TABLE] * bool(robustness_table(measured))]
    if tables:
        listed = [{"path": path, "type": "table"} for path in tables]
        tags["mlflow.loggedArtifacts"] = json.dumps(listed)
    return tags


def robustness_file(measured: Mapping[str, Any], directory: Path) -> tuple[Path, ...]:
    """Robustness by kind and language: a table, for it would be hundreds of metrics."""
    rows = robustness_table(measured)
    if not rows:
        return ()
    path = directory / Path(ROBUSTNESS_TABLE).name
    DURABLE.write(path, json.dumps({"columns": ROBUSTNESS_COLUMNS, "data": rows}).encode())
    return (path,)


def _sources_page(words: CountedWords, directory: Path) -> tuple[Path, ...]:
    """The statistics of named sources, in the form of tables that MLflow shows and compares."""
    if not words.sources:
        return ()
    rows = as_json(words.sources)
    path = directory / Path(SOURCES_TABLE).name
    table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    DURABLE.write(path, json.dumps(table).encode())
    return (path,)


def _report(
    summary: TrainingSummary,
    request: TrainingRequest,
    trained: Trained,
    measured: Mapping[str, Any],
) -> ReportContents:
    """The page that is registered with a version, which has no number yet."""
    tokenizer, screened = trained.evaluated.tokenizer, trained.screened
    return ReportContents(
        title=request.name,
        tokenizer=tokenizer,
        screening=screened.screening,
        facts={
            "digest": tokenizer.digest,
            "run": summary.run_id,
            "measured on": str(trained.evaluated.made or "texts of this training alone"),
        },
        parameters=request.as_config(),
        metrics=summary.metrics,
        curves={CURVE_METRIC: summary.curve, **summary.curves},
        notes=summary.notes,
        sources=as_json(summary.sources),
        development=trained.learned.development,
        use=screened.use,
        comparison=trained.evaluated.comparison,
        robustness=robustness_table(measured),
        chosen_size=summary.chosen_size,
        comparison_remark=f"When it was registered, no version of {request.name} was the champion.",
    )


def page_files(contents: ReportContents, directory: Path) -> tuple[Path, ...]:
    """Write the report of a version and its comparison to the champion, as page and as JSON."""
    report, compared = directory / "report.html", contents.comparison
    DURABLE.write(report, report_page(contents).encode(errors="backslashreplace"))
    if compared is None:
        return (report,)
    page, data = directory / "comparison.html", directory / "comparison.json"
    DURABLE.write(page, comparison_page(compared).encode(errors="backslashreplace"))
    DURABLE.write(data, canonical_json(comparison_json(compared)))
    return report, page, data


def number_pages(
    registry: Registry, version: PublishedVersion, contents: ReportContents, report: str
) -> None:
    """Write the pages of a new version again: it has a number now. In MLflow, a courtesy."""
    if not version.newly_registered:
        return
    called, compared = version.reference, contents.comparison
    numbered = replace(contents, title=called, comparison=compared and compared.called(called))
    pages = page_files(numbered, version.directory / PAGES)
    with suppress(RegistryError):
        for page in pages:
            registry.tracker.add_files(version.mlflow_run_id, [page], page.stem)
        registry.tracker.add_report(version.mlflow_run_id, f"# {called}\n\n{report}")
