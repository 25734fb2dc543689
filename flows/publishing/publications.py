"""Registering a tokenizer with its figures, pages and lineage as a version."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bpeline.flows.counting import CorpusPlan, CountedCorpus, CountedWords, as_json
from bpeline.flows.evaluation import HELD_OUT, TRAINING, Evaluated, SizeChoice, draw_figures
from bpeline.flows.learning import Learned
from bpeline.flows.pages import ReportContents, comparison_page, report_page, show_name_page
from bpeline.flows.publishing.summarizing import Trained
from bpeline.flows.publishing.summary import Summary, TrainingSummary
from bpeline.flows.requests import ImportRequest, TrainingRequest, decimal
from bpeline.flows.trainings import RunRequest, TrainingRun, asked
from bpeline.flows.wording import comparison_json
from bpeline.registry.certify import certificate_texts
from bpeline.registry.environment import this_user
from bpeline.registry.evaluation import (
    CHOSEN_SIZES,
    ROBUSTNESS_COLUMNS,
    read_evaluation,
    robustness_table,
    write_evaluation,
)
from bpeline.registry.loading import (
    EXTENSION,
    PAGES,
    RECIPE,
    is_whole,
    load_tokenizer,
    resolve,
    write_exports,
)
from bpeline.registry.opening import Registry
from bpeline.registry.publishing import publish_version
from bpeline.registry.records import (
    CHAMPION,
    CURVE_METRIC,
    MEASURED_ON,
    CorpusInput,
    Publication,
    PublishedVersion,
    parse_registered,
)
from bpeline.registry.tokens import Screening
from bpeline.registry.versions import RULE, Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.continuation import recipes
from bpeline.tokenizer_core.counting import sample_texts
from bpeline.tokenizer_core.digests import canonical_json, digest_of, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import RegistryError
from bpeline.tokenizer_core.formats import bpeline, declared_roles
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.splitting import unicode_version
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import ExtensionCertificate, certify_extension

MOST_INPUTS = 50
SOURCES_TABLE = "sources/sources.json"
ROBUSTNESS_TABLE = "robustness/robustness.json"
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # columns and rows
PACKAGES = ("bpeline", "regex", "numba", "numpy", "duckdb", "mlflow")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """The content that a training or an import registers.

    Attributes:
        evaluated: None if it was not measured.
        save: writes the files into a directory; not called if the workspace has them.
        complete: adds to the files, both new and existing ones.
        inputs, tags, tables: in addition to those of the evaluation; tables by path.
    """

    tokenizer: Tokenizer
    summary: Summary
    evaluated: Evaluated | None
    measured: Mapping[str, Any]
    contents: ReportContents
    params: Mapping[str, Any]
    save: Callable[[Path], object]
    complete: Callable[[Path], object]
    corpus_digest: str = ""
    counts_digest: str = ""
    inputs: Sequence[CorpusInput] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    choice: SizeChoice | None = None

    def publication(self, run: TrainingRun, files: Path, directory: Path) -> Publication:
        """Draw the charts and write the pages into a directory."""
        summary, evaluated = self.summary, self.evaluated
        inputs, tags, tables = [*self.inputs], {**self.tags}, {**self.tables}
        figures: tuple[Path, ...] = ()
        evaluation_set = None
        if evaluated is not None:
            if rows := robustness_table(self.measured):
                tables[ROBUSTNESS_TABLE] = list(ROBUSTNESS_COLUMNS), rows
            inputs += evaluation_inputs(evaluated)
            tags |= _evaluation_tags(evaluated)
            figures = draw_figures(summary.name, evaluated, directory / "figures", self.choice)
            evaluation_set = evaluated.made
        if tables:
            listed = [{"path": path, "type": "table"} for path in tables]
            tags["mlflow.loggedArtifacts"] = json.dumps(listed)
        pages = directory / "pages"
        return publication_of(
            self.tokenizer,
            files,
            summary.name,
            summary.run_id,
            started_at=run.row.started_at,
            corpus_digest=self.corpus_digest,
            counts_digest=self.counts_digest,
            params=self.params,
            metrics=summary.metrics,
            curve=summary.curve,
            curves=summary.curves,
            inputs=tuple(inputs),
            tags=tags,
            figures=figures,
            pages=(*page_files(self.contents, pages), *_table_files(tables, pages)),
            report=summary.as_markdown(),
            evaluation_set="" if evaluation_set is None else evaluation_set.digest,
            set_number=0 if evaluated is None else evaluated.on.set_number,
        )


def publication_of(
    tokenizer: Tokenizer, files: Path, name: str, run_id: str, started_at: str = "", **facts: Any
) -> Publication:
    """Create a `Publication` with the current time and user."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Publication(
        name=name,
        digest=tokenizer.digest,
        tokenizer_directory=files,
        run_id=run_id,
        vocab_size=tokenizer.vocab_size,
        pattern=tokenizer.pattern.title,
        created_at=now,
        started_at=started_at or now,
        started_by=this_user(),
        **facts,
    )


def register(
    run: TrainingRun, new: NewVersion, until_ready: Callable[[], object] = lambda: None
) -> PublishedVersion:
    """Write the files, then register them exactly once, even after interruptions.

    Args:
        until_ready: called when the files are written; waits until MLflow can be used.

    Raises:
        RegistryUnreachable: MLflow does not answer; the result is kept in the outbox.
    """
    workspace = run.workspace
    with workspace.temporary_directory("publish") as directory, DURABLE.passing(directory):
        files = directory
        if is_whole(workspace, new.tokenizer.digest):
            files = workspace.version_directory(new.tokenizer.digest)
        else:
            new.save(directory)
        new.complete(files)
        publication = new.publication(run, files, directory)
        until_ready()
        version = publish_version(run.registry, publication)
        _note_remarks(run, version)
        _number_pages(run.registry, version, new.contents, publication.report)
        return version


def publish(
    run: TrainingRun, trained: Trained, summary: TrainingSummary, until_ready: Callable[[], object]
) -> PublishedVersion:
    """Register a trained tokenizer; for arguments and errors see `register`."""
    sized, words, evaluated = trained.sized, trained.words, trained.evaluated
    request, learned, workspace = sized.request, sized.learned, run.workspace
    measured = evaluated.record()
    screening = trained.screened.screening
    provenance = _provenance(summary, learned, words, request)
    provenance[RULE] = run.row.left_out_rule
    if evaluated.left_out:
        provenance["left_out"] = evaluated.left_out

    def complete(files: Path) -> None:
        chosen = {CHOSEN_SIZES: _chosen_sizes(summary, files)}
        write_evaluation({**measured, **chosen, "screening": screening.as_record()}, files)

    new = NewVersion(
        tokenizer=evaluated.tokenizer,
        summary=summary,
        evaluated=evaluated,
        measured=measured,
        contents=report_contents(
            summary,
            request,
            evaluated.tokenizer,
            screening,
            evaluated,
            measured,
            sources=as_json(summary.sources),
            development=learned.development,
            use=trained.screened.use,
            chosen_size=summary.chosen_size,
        ),
        params=_params(run.request, trained),
        save=partial(_save, evaluated.tokenizer, provenance, words, request, workspace),
        complete=complete,
        corpus_digest=words.corpus_digest,
        counts_digest=words.table.counts_digest,
        inputs=(
            *corpus_inputs(trained.plan, trained.corpus, words, request),
            *_development_inputs(learned),
        ),
        tags={"extends": request.extends} if request.extends else {},
        tables=_sources_table(words),
        choice=sized.choice,
    )
    version = register(run, new, until_ready)
    return replace(version, history=show_name_page(run.registry, version.name))


def _note_remarks(run: TrainingRun, version: PublishedVersion) -> None:
    """Report remarks of publishing, and requested roles that the version does not get."""
    for remark in version.remarks:
        run.note(remark)
    if version.newly_registered or not run.request.roles:
        return
    resolved = resolve(run.registry, parse_registered(version.reference))
    current, requested = Lineage.of(run.registry, resolved).roles, declared_roles(run.request.roles)
    if any(current.get(role) != token for role, token in requested.items()):
        roles = ", ".join(f"{role}={token}" for role, token in current.items()) or "none declared"
        run.note(
            f"the roles of special tokens stay those of {version.reference}: {roles}; to export "
            "with others, type `bpeline export --role`"
        )


def _save(
    tokenizer: Tokenizer,
    provenance: dict[str, Any],
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
) -> None:
    """Write the files of a trained version."""
    between = "" if request.over_bytes else " "
    samples = sample_texts(WordCountStore(workspace).open_table(words.table), between)
    if request.extends and not request.transition_size:  # superwords change ids
        base = load_tokenizer(request.extends, workspace)
        texts = certificate_texts(tokenizer, samples)
        certificate = asdict(certify_extension(base, tokenizer, texts))
        DURABLE.write(directory / EXTENSION, canonical_json(sealed(certificate)))
        recipe = {"base": base.digest, "new_ids": list(recipes(base, tokenizer))}
        DURABLE.write(directory / RECIPE, canonical_json(sealed(recipe)))
    bpeline.save(tokenizer, directory, provenance, samples)
    write_exports(tokenizer, request.name, directory)


def extension_of(directory: str | Path) -> ExtensionCertificate | None:
    """Return the extension certificate of a version; None for other versions."""
    try:
        record = unsealed(read_json(Path(directory) / EXTENSION))
        return check_fields(ExtensionCertificate(**record))
    except (OSError, ValueError, TypeError):
        return None


def _chosen_sizes(summary: TrainingSummary, files: Path) -> dict[str, Any]:
    """Return how trainings chose this size, by name: names can share the files."""
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
    """Return the machine, and the versions that files and figures depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        **{name: installed_version(name) for name in PACKAGES},
        "unicode": unicode_version(),
    }


@cache
def installed_version(package: str) -> str:
    """Return the version of a package, cached because the lookup reads many files."""
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def _params(asked_for: RunRequest, trained: Trained) -> dict[str, Any]:
    """Return the parameters that the run showed at its start, and those known since."""
    request, learned, choice = trained.sized.request, trained.sized.learned, trained.sized.choice
    words, copies = trained.words, trained.corpus.copies
    # Also a parameter, so that MLflow's comparison of runs shows it.
    config = {**asked(asked_for), CHAMPION: trained.evaluated.references.get(CHAMPION, "none")}
    if copies is not None:
        config["copied_documents"] = copies.documents
        config["copied_bytes"] = copies.text_bytes
    if request.min_word_count > 1:
        config["pruned_distinct_words"] = learned.pruned.words
        config["pruned_words"] = learned.pruned.occurrences
    if choice is not None:
        config |= choice.params
    if words.sources:
        weights = (f"{source.source}={decimal(source.weight)}" for source in words.sources)
        config["weights"] = ", ".join(weights)
    return config


def corpus_inputs(
    plan: CorpusPlan, corpus: CountedCorpus, words: CountedWords, request: TrainingRequest
) -> list[CorpusInput]:
    """Return the sources with content digests; a single entry if there are many."""
    chunks: dict[str, list[str]] = {}
    for file, reading in zip(plan.files, corpus.readings, strict=True):
        chunks.setdefault(file.source, []).extend(chunk.digest for chunk in reading.chunks)
    if len(chunks) > MOST_INPUTS:
        first = next(iter(chunks))
        place = f"{first} and {len(chunks) - 1:,} more"
        return [CorpusInput(f"{len(chunks):,} sources", place, words.corpus_digest)]
    places = {
        source_named.name: ", ".join(source_named.files) for source_named in request.named_sources
    }
    return [
        CorpusInput(Path(source).name or source, places.get(source, source), digest_of(digests))
        for source, digests in chunks.items()
    ]


def _development_inputs(learned: Learned) -> list[CorpusInput]:
    """Return the texts of ``--parity-dev``, with digests."""
    return [
        CorpusInput(f"development-{text.name}", ", ".join(text.files), text.digest, "development")
        for text in learned.development
    ]


def evaluation_inputs(evaluated: Evaluated) -> list[CorpusInput]:
    """Return the evaluation texts, with digests."""
    inputs = []
    if evaluated.made is not None:
        whole = CorpusInput(
            "evaluation set", str(evaluated.made), evaluated.made.digest, "evaluation"
        )
        inputs.append(whole)
    for source in evaluated.sources:
        is_held_out_source = not source.files and source.name not in (HELD_OUT, TRAINING)
        name = f"{HELD_OUT}-{source.name}" if is_held_out_source else source.name
        inputs.append(
            CorpusInput(name, ", ".join(source.files) or name, source.digest, "evaluation")
        )
    return inputs


def _evaluation_tags(evaluated: Evaluated) -> dict[str, str]:
    """Return tags on the texts and the versions compared with."""
    tags = {f"compared_with.{label}": title for label, title in evaluated.references.items()}
    # Of all figures, only the `SPEEDS` and the durations depend on the machine.
    tags["speed_of"] = f"one thread, {platform.machine()} of {thread_count(None)} processors"
    if evaluated.made is not None:
        tags[MEASURED_ON] = str(evaluated.made)
    return tags


def _sources_table(words: CountedWords) -> dict[str, Table]:
    """Return the statistics of named sources as a table that MLflow can compare."""
    rows = as_json(words.sources)
    return {SOURCES_TABLE: (list(rows[0]), [list(row.values()) for row in rows])} if rows else {}


def _table_files(tables: Mapping[str, Table], directory: Path) -> Iterator[Path]:
    """Write tables in MLflow's format."""
    for name, (columns, rows) in tables.items():
        path = directory / Path(name).name
        DURABLE.write(path, json.dumps({"columns": columns, "data": rows}).encode())
        yield path


def report_contents(
    summary: Summary,
    request: TrainingRequest | ImportRequest,
    tokenizer: Tokenizer,
    screening: Screening,
    evaluated: Evaluated | None,
    measured: Mapping[str, Any],
    facts: Mapping[str, str] | None = None,
    **more: Any,
) -> ReportContents:
    """Return the contents of the report page, which has no version number yet."""
    remark = f"At registration, no version of {request.name} was the champion."
    if evaluated is None:
        remark = "The version was not measured, so it was not compared."
    return ReportContents(
        title=request.name,
        tokenizer=tokenizer,
        screening=screening,
        facts={
            "digest": tokenizer.digest,
            "run": summary.run_id,
            **(facts or {}),
            "measured on": summary.measured_on,
        },
        parameters=request.as_config(),
        metrics=summary.metrics,
        curves={CURVE_METRIC: summary.curve, **summary.curves},
        notes=summary.notes,
        comparison=None if evaluated is None else evaluated.comparison,
        robustness=robustness_table(measured),
        comparison_remark=remark,
        **more,
    )


def page_files(contents: ReportContents, directory: Path) -> tuple[Path, ...]:
    """Write the report page, and the comparison with the champion as page and JSON."""
    report, compared = directory / "report.html", contents.comparison
    DURABLE.write(report, report_page(contents).encode(errors="backslashreplace"))
    if compared is None:
        return (report,)
    page, data = directory / "comparison.html", directory / "comparison.json"
    DURABLE.write(page, comparison_page(compared).encode(errors="backslashreplace"))
    DURABLE.write(data, canonical_json(comparison_json(compared)))
    return report, page, data


def _number_pages(
    registry: Registry, version: PublishedVersion, contents: ReportContents, report: str
) -> None:
    """Write the pages of a new version again, with its number, and try MLflow too."""
    if not version.newly_registered:
        return
    reference, compared = version.reference, contents.comparison
    numbered = replace(
        contents, title=reference, comparison=compared and compared.called(reference)
    )
    pages = page_files(numbered, version.directory / PAGES)
    with suppress(RegistryError):
        shown: dict[str, Path | str] = {f"{page.stem}/{page.name}": page for page in pages}
        shown["report.md"] = f"# {reference}\n\n{report}"
        registry.tracker.runs.add_files(version.mlflow_run_id, shown)
