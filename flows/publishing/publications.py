"""A tokenizer and everything known about it become a registered version."""

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
    """What a training or an import registers; `register` adds what both have in common.

    Attributes:
        tokenizer: the version's.
        summary: its name, run, figures and report.
        evaluated: None where it was not measured.
        measured: the record of ``evaluated``.
        contents: of its report page.
        params: what was asked for.
        save: writes its files into a directory; not called if the workspace has them.
        complete: adds to its files, whether new or kept.
        corpus_digest, counts_digest: of what it was trained on.
        inputs: what was read, besides the texts of the evaluation.
        tags: besides those of the evaluation.
        tables: path → columns and rows, besides those of the evaluation.
        choice: how its number of ids was chosen.
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
        """Draw the figures and write the pages into a directory."""
        summary, evaluated = self.summary, self.evaluated
        inputs, tags, tables = [*self.inputs], {**self.tags}, {**self.tables}
        figures: tuple[Path, ...] = ()
        made = None
        if evaluated is not None:
            if rows := robustness_table(self.measured):
                tables[ROBUSTNESS_TABLE] = list(ROBUSTNESS_COLUMNS), rows
            inputs += evaluation_inputs(evaluated)
            tags |= _evaluation_tags(evaluated)
            figures = draw_figures(summary.name, evaluated, directory / "figures", self.choice)
            made = evaluated.made
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
            evaluation_set="" if made is None else made.digest,
            set_number=0 if evaluated is None else evaluated.on.set_number,
        )


def publication_of(
    tokenizer: Tokenizer, files: Path, name: str, run_id: str, started_at: str = "", **facts: Any
) -> Publication:
    """A publication of now, by this user; for ``facts`` see `Publication`."""
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
    """Write the files, then register them once, whatever happens in between.

    Args:
        until_ready: waits until MLflow can be told, called when the files are written.

    Raises:
        RegistryUnreachable: MLflow does not answer; the result is kept in the outbox.
        DiskFull: no space left.
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
    """Register what was trained; for arguments and errors see `register`."""
    request, workspace = trained.request, run.workspace
    words, learned, evaluated = trained.words, trained.learned, trained.evaluated
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
        choice=trained.choice,
    )
    version = register(run, new, until_ready)
    return replace(version, history=show_name_page(run.registry, version.name))


def _note_remarks(run: TrainingRun, version: PublishedVersion) -> None:
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
    if request.extends and not request.transition_size:  # superwords take other ids
        base = load_tokenizer(request.extends, workspace)
        texts = certificate_texts(tokenizer, samples)
        certificate = asdict(certify_extension(base, tokenizer, texts))
        DURABLE.write(directory / EXTENSION, canonical_json(sealed(certificate)))
        recipe = {"base": base.digest, "new_ids": list(recipes(base, tokenizer))}
        DURABLE.write(directory / RECIPE, canonical_json(sealed(recipe)))
    bpeline.save(tokenizer, directory, provenance, samples)
    write_exports(tokenizer, request.name, directory)


def extension_of(directory: str | Path) -> ExtensionCertificate | None:
    """What was checked of a version that extends another; None for all others."""
    try:
        record = unsealed(read_json(Path(directory) / EXTENSION))
        return check_fields(ExtensionCertificate(**record))
    except (OSError, ValueError, TypeError):
        return None


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


def _evaluation_tags(evaluated: Evaluated) -> dict[str, str]:
    """What a version was compared with and measured on."""
    tags = {f"compared_with.{label}": title for label, title in evaluated.references.items()}
    # Of all figures only the `SPEEDS` depend on it, beside the seconds.
    tags["speed_of"] = f"one thread, {platform.machine()} of {thread_count(None)} processors"
    if evaluated.made is not None:
        tags[MEASURED_ON] = str(evaluated.made)
    return tags


def _sources_table(words: CountedWords) -> dict[str, Table]:
    """The statistics of named sources, in the form of tables that MLflow shows and compares."""
    rows = as_json(words.sources)
    return {SOURCES_TABLE: (list(rows[0]), [list(row.values()) for row in rows])} if rows else {}


def _table_files(tables: Mapping[str, Table], directory: Path) -> Iterator[Path]:
    """Write tables as MLflow shows them."""
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
    """The page that is registered with a version, which has no number yet."""
    remark = f"When it was registered, no version of {request.name} was the champion."
    if evaluated is None:
        remark = "It was not measured, so it was compared with nothing."
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
    """Write the report of a version and its comparison to the champion, as page and as JSON."""
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
    """Write the pages of a new version again: it has a number now. In MLflow, a courtesy."""
    if not version.newly_registered:
        return
    called, compared = version.reference, contents.comparison
    numbered = replace(contents, title=called, comparison=compared and compared.called(called))
    pages = page_files(numbered, version.directory / PAGES)
    with suppress(RegistryError):
        shown: dict[str, Path | str] = {f"{page.stem}/{page.name}": page for page in pages}
        shown["report.md"] = f"# {called}\n\n{report}"
        registry.tracker.runs.add_files(version.mlflow_run_id, shown)
