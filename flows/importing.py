"""Steps of an import: reading, certifying, summarizing, publishing; and its plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bpeline.flows.evaluation import Evaluated, curves_of, metrics_of
from bpeline.flows.pages import show_name_page
from bpeline.flows.publishing import (
    NewVersion,
    Summary,
    installed_version,
    made_with,
    register,
    report_contents,
)
from bpeline.flows.requests import ImportRequest, evaluation_sources
from bpeline.flows.trainings import TrainingRun, alias_moves, asked, registered_as
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import Catalogue
from bpeline.registry.certify import ORIGINAL, Certificate, certify_originals
from bpeline.registry.evaluation import evaluate_version, write_evaluation
from bpeline.registry.hub import SCHEME, TOKENIZER_FILES, HubReference, fetch
from bpeline.registry.loading import certificate_path, resolve, write_exports
from bpeline.registry.opening import open_registry
from bpeline.registry.records import (
    LIBRARY,
    ByPath,
    CorpusInput,
    PublishedVersion,
    parse_reference,
    parse_registered,
)
from bpeline.registry.tokens import screen
from bpeline.registry.versions import Imported, OriginalFile, files_of, imported_in, keep_originals
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN
from bpeline.tokenizer_core.formats import DECLARED, bpeline, declared_roles, format_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_LIBRARIES = ("tokenizers", "tiktoken", "sentencepiece", "transformers", "cyllama")
_ABSENT = "unknown"


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """A tokenizer that was read, with its origin, its place, and the files to keep."""

    tokenizer: Tokenizer
    imported: Imported
    place: Path
    files: tuple[tuple[OriginalFile, Path], ...]

    @property
    def outcome(self) -> str:
        size = megabytes(sum(file.bytes for file, _ in self.files))
        return (
            f"{self.imported.format}: {self.tokenizer.vocab_size:,} ids, "
            f"{counted(len(self.files), 'file')}, {size}"
        )


def read_files(request: ImportRequest) -> ReadFiles:
    """Read a tokenizer of another library, and the digests of its files."""
    origin, licence, parsed = _found(request)
    files = files_of(parsed.path)
    format = request.algorithm or format_of(parsed.path)
    if format == "bpeline":
        raise InvalidOption(
            f"{parsed.path} is a tokenizer in bpeline's own format",
            "expected a tokenizer of another library; this one can be used without importing it",
            f"type `bpeline encode {parsed.path} TEXT`, or name it as --baseline",
        )
    details: dict[str, Any] = dict(parsed.details)
    if request.end_of_word:
        details["end_of_word"] = request.end_of_word
    tokenizer = Tokenizer.load(parsed.path, **{"format": format, **details})
    declared_roles(request.roles, tokenizer.special_tokens)
    libraries = {name: installed_version(name) for name in _LIBRARIES}
    imported = Imported(
        path=origin,
        details=details,
        format=format,
        files=tuple(file for file, _ in files),
        is_folder=parsed.path.is_dir(),
        remarks=tokenizer.spec.remarks,
        licence=licence,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        libraries={name: version for name, version in libraries.items() if version != _ABSENT},
    )
    return ReadFiles(tokenizer, imported, parsed.path, files)


def _found(request: ImportRequest) -> tuple[str, str, ByPath]:
    """Return origin, licence, and the place of the files."""
    if request.file.startswith(SCHEME):
        fetched = fetch(HubReference.parse(request.file), TOKENIZER_FILES)
        return str(fetched.reference), request.licence or fetched.licence, ByPath(fetched.path)
    parsed = parse_reference(request.file)
    assert isinstance(parsed, ByPath), "requests hold absolute paths"
    return str(parsed.path), request.licence, parsed


def certify_files(read: ReadFiles) -> Certificate:
    """Compare with the ids that the original library produces from the same files."""
    path = read.place
    certificate = certify_originals(read.tokenizer, read.imported.format, path)
    first = certificate.difference
    if first is not None:
        raise InvalidTokenizer(
            f"{certificate.library} {certificate.version} and bpeline give different ids for "
            f"{certificate.unequal:,} of {certificate.equal + certificate.unequal:,} "
            f"{certificate.unit} with {path}, first for {first.what!r}: at {first.at} "
            f"{first.theirs} instead of {first.ours}",
            "expected equal ids; nothing was registered",
            "report this message as a bug",
        )
    return certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary(Summary):
    """The result of one run of ``import_tokenizer``.

    Attributes:
        certificate: one line on the comparison with the original library.
    """

    file: str
    format: str
    files: int
    file_bytes: int
    algorithm: str
    pattern: str
    normalizer: str
    certificate: str
    licence: str = ""

    @property
    def title(self) -> str:
        """``llama3/1, imported``."""
        return f"{self.reference}, imported"

    def figures(self) -> list[tuple[str, str]]:
        """Figures known before the version is published, as (title, value)."""
        ratio = self.metrics.get(BYTES_PER_TOKEN)
        size = megabytes(self.file_bytes)
        return [
            ("imported", f"{self.file} ({self.format}, {counted(self.files, 'file')}, {size})"),
            ("vocabulary", f"{self.vocab_size:,} ids, {self.algorithm}"),
            ("pattern", self.pattern),
            ("normalizer", self.normalizer),
            ("certificate", self.certificate),
            *([("compression", f"{ratio:.4f} bytes/token")] if ratio else []),
            ("measured on", self.measured_on),
            *([("licence", self.licence)] if self.licence else []),
        ]

    def sections(self) -> list[str]:
        """Markdown lines of the notes."""
        return ["", *(f"- {note}" for note in self.notes)] if self.notes else []


def summarize_import(
    run: TrainingRun,
    request: ImportRequest,
    read: ReadFiles,
    certificate: Certificate,
    evaluated: Evaluated | None,
) -> ImportSummary:
    """Summarize an import before it is published, and report its notes."""
    tokenizer, imported = read.tokenizer, read.imported
    for remark in imported.remarks:
        run.note(f"import note: {remark}")
    if certificate.not_checked:
        run.note(f"not compared with its original library: {certificate.not_checked}")
    if evaluated is None:
        measured_on = "not measured: pass --eval"
        run.note(
            f"not measured: {request.name} has no evaluation set; pass `--eval 'NAME=FILES'`, or "
            f"type `bpeline evaluate {request.name} --set-from FILES`"
        )
    else:
        measured_on = str(evaluated.on)
        run.note(evaluated.warning)
    metrics = {} if evaluated is None else metrics_of(evaluated)
    if failures := int(metrics.get("evaluated/roundtrip_failures", 0)):
        run.note(f"decoding changes {counted(failures, 'document')} of the evaluation")
    metrics |= screen(tokenizer, run.workspace).metrics
    metrics |= {f"seconds/{name.replace(' ', '_')}": took for name, took in run.seconds.items()}
    return ImportSummary(
        name=request.name,
        run_id=run.id,
        file=imported.path,
        format=imported.format,
        files=len(read.files),
        file_bytes=sum(file.bytes for file, _ in read.files),
        vocab_size=tokenizer.vocab_size,
        algorithm=tokenizer.algorithm.name,
        pattern=tokenizer.pattern.name or tokenizer.pattern.regex,
        normalizer=tokenizer.spec.normalizer_name,
        certificate=str(certificate),
        measured_on=measured_on,
        metrics=metrics,
        curve=() if evaluated is None else _curve(evaluated),
        curves={} if evaluated is None else curves_of(evaluated),
        seconds=dict(run.seconds),
        notes=tuple(run.notes),
        licence=imported.licence,
        digest=tokenizer.digest,
    )


def publish_import(
    run: TrainingRun,
    request: ImportRequest,
    read: ReadFiles,
    certificate: Certificate,
    evaluated: Evaluated | None,
    summary: ImportSummary,
) -> PublishedVersion:
    """Write the files, including the original ones, and register them once."""
    tokenizer, registry, imported = read.tokenizer, run.registry, read.imported
    measured = {} if evaluated is None else evaluated.record()
    library = getattr(tokenizer.algorithm, "library", "")  # set if that library encodes

    def save(directory: Path) -> None:
        provenance = {
            "name": request.name,
            "run": summary.run_id,
            "imported": imported.as_record(),
            "roles": [*_roles_of(tokenizer), *request.roles],
            "notes": list(summary.notes),
            "metrics": dict(summary.metrics),
            "made_with": {**made_with(), **imported.libraries},
        }
        bpeline.save(tokenizer, directory, provenance)
        write_exports(tokenizer, request.name, directory)

    def complete(files: Path) -> None:
        if imported_in(files) is None:
            keep_originals(imported, read.files, files)
        DURABLE.write(certificate_path(files, ORIGINAL), certificate.as_json())
        if measured:
            write_evaluation(measured, files)

    new = NewVersion(
        tokenizer=tokenizer,
        summary=summary,
        evaluated=evaluated,
        measured=measured,
        contents=report_contents(
            summary,
            request,
            tokenizer,
            screen(tokenizer, run.workspace),
            evaluated,
            measured,
            {**facts_of(imported), "certificate": summary.certificate},
        ),
        params={
            **asked(request),
            "format": imported.format,
            **({LIBRARY: library} if library else {}),
        },
        save=save,
        complete=complete,
        inputs=[CorpusInput("imported files", imported.path, imported.digest, "import")],
        tags={
            "imported_from": imported.path,
            **({"licence": imported.licence} if imported.licence else {}),
        },
    )
    version = register(run, new)
    if not version.newly_registered and evaluated is not None and evaluated.made is not None:
        # The registered version may have been measured on other text, or not at all.
        evaluate_version(registry, resolve(registry, parse_registered(version.reference)))
    return replace(version, history=show_name_page(registry, version.name))


def _roles_of(tokenizer: Tokenizer) -> list[str]:
    """The roles that the files declare, as ``--role`` spells them."""
    declared = tokenizer.spec.roles.items()
    return [f"{role}={token}" for role, token in declared if role in DECLARED]


def _curve(evaluated: Evaluated) -> tuple[tuple[int, float], ...]:
    """Return bytes per token by vocab size; one point if there are no merges."""
    report = evaluated.report
    size = report.vocab_size
    return report.curve or ((size, evaluated.evaluation.slices[ALL].metrics[BYTES_PER_TOKEN]),)


def facts_of(imported: Imported) -> dict[str, str]:
    """Return facts about an imported version, for pages and `bpeline show`."""
    details = "".join(f", {key}={value}" for key, value in imported.details.items())
    return {
        "imported from": f"{imported.path}{details}",
        "format": imported.format,
        **{f"SHA-256 of {file.name}": file.sha256 for file in imported.files},
        **({"read so": "; ".join(imported.remarks)} if imported.remarks else {}),
        **({"licence": imported.licence} if imported.licence else {}),
        "libraries": ", ".join(f"{key} {value}" for key, value in imported.libraries.items()),
    }


def plan_import(request: ImportRequest, home: Path) -> dict[str, str]:
    """Describe what an import would read, measure and register: title → sentence."""
    read = read_files(request)
    tokenizer = read.tokenizer
    catalogue = None
    if Workspace.is_at(home):
        catalogue = open_registry(home, make=False).catalogue
    existing = registered_as(catalogue, request.name, tokenizer.digest)
    return {
        "file": f"{read.imported.path} ({read.outcome})",
        "files kept": ", ".join(f"{file.name} ({megabytes(file.bytes)})" for file, _ in read.files),
        "algorithm": tokenizer.algorithm.name,
        "pattern": tokenizer.pattern.name or tokenizer.pattern.regex,
        "normalizer": tokenizer.spec.normalizer_name,
        **({"read so": "; ".join(read.imported.remarks)} if read.imported.remarks else {}),
        "measured on": _measured_on(catalogue, request),
        "registered": f"nothing new: {existing} is this tokenizer" if existing else "a new version",
        "aliases": alias_moves(request.rules, existing),
    }


def _measured_on(catalogue: Catalogue | None, request: ImportRequest) -> str:
    named = None if catalogue is None else catalogue.evaluation_set(request.name)
    sources = len(evaluation_sources(request.evaluation).sources)
    if named is not None:
        return f"evaluation set {named.digest[:8]} of {request.name}"
    if sources:
        return f"{counted(sources, 'source')} of text, which becomes the set of {request.name}"
    return "not measured: pass --eval"
