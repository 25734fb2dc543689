"""What an import tells people in the end: as text, as JSON, as Markdown. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bpeline.flows.steps.promotion import Promotion
from bpeline.flows.wording import as_typed, counted, from_here, megabytes, number_text, program
from bpeline.registry.records import PublishedVersion
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The result of one run of ``import_tokenizer``.

    Attributes:
        name: the tokenizer's name.
        run_id: of the run in the catalogue.
        file: what was imported, with its details.
        format: what it is.
        files: how many files were kept, and ``file_bytes`` their size.
        vocab_size: ids it has.
        algorithm, pattern, normalizer: what it does to texts.
        certificate: what its original library makes of the same texts, in a line.
        measured_on: which evaluation set its figures are of, or why there are none.
        metrics: every measured value by name.
        curve, curves: as of a training; empty where nothing merges.
        seconds: of every step.
        notes: what people should know, remarks of the reader among them.
        licence: as whoever imported it said.
        version: its number, 0 before it is published; ``reference`` is ``name/version``.
        digest, newly_registered, candidate, directory, link, ui_command, promotion: as of a
            training.
    """

    name: str
    run_id: str
    file: str
    format: str
    files: int
    file_bytes: int
    vocab_size: int
    algorithm: str
    pattern: str
    normalizer: str
    certificate: str
    measured_on: str
    metrics: Mapping[str, float]
    curve: tuple[tuple[int, float], ...]
    curves: Mapping[str, tuple[tuple[int, float], ...]]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    licence: str = ""
    version: int = 0
    digest: str = ""
    newly_registered: bool = False
    candidate: bool = False
    directory: str = ""
    link: str = ""
    ui_command: str = ""
    promotion: Promotion | None = None

    def published(
        self,
        version: PublishedVersion,
        seconds: Mapping[str, float],
        notes: tuple[str, ...],
        promotion: Promotion | None,
    ) -> ImportSummary:
        """The same, with what publishing added."""
        return replace(
            self,
            version=version.number,
            newly_registered=version.newly_registered,
            candidate=version.candidate,
            directory=str(version.directory),
            link=version.link,
            ui_command=version.ui_command,
            promotion=promotion,
            seconds=dict(seconds),
            notes=notes,
        )

    @property
    def reference(self) -> str:
        """``llama3/1``."""
        return f"{self.name}/{self.version}" if self.version else self.name

    @property
    def title(self) -> str:
        """``llama3/1, imported``."""
        return f"{self.reference}, imported"

    def as_dict(self) -> dict[str, Any]:
        """JSON values, with ``reference``."""
        return {"reference": self.reference, **asdict(self)}

    def rows(self) -> list[tuple[str, str]]:
        """What text and Markdown show, title and value."""
        ratio = self.metrics.get(BYTES_PER_TOKEN)
        size = megabytes(self.file_bytes)
        rows = [
            ("imported", f"{self.file} ({self.format}, {counted(self.files, 'file')}, {size})"),
            ("vocabulary", f"{self.vocab_size:,} ids, {self.algorithm}"),
            ("pattern", self.pattern),
            ("normalizer", self.normalizer),
            ("certificate", self.certificate),
            *([("compression", f"{ratio:.4f} bytes/token")] if ratio else []),
            ("measured on", self.measured_on),
            *([("licence", self.licence)] if self.licence else []),
        ]
        if not self.version:
            return rows
        if self.promotion is not None:
            rows.append(("promotion", self.promotion.outcome))
        promoted = self.promotion is not None and self.promotion.promoted
        aliases = ["candidate"] * self.candidate + ["champion"] * promoted
        called = f", alias {' and '.join(aliases)}" if aliases else ""
        new = "newly registered" if self.newly_registered else "registered before: nothing new"
        hint = f"  (after `{self.ui_command}`)" if self.ui_command else ""
        return [
            ("tokenizer", f"{self.reference} ({new}){called}"),
            *rows,
            ("digest", self.digest),
            ("files", self.directory),
            ("MLflow", self.link + hint),
        ]

    def as_text(self) -> str:
        """A few lines for a terminal."""
        rows = dict(self.rows())
        if "files" in rows:
            rows["files"] = from_here(self.directory)
        width = max(map(len, rows))
        lines = [f"{title:<{width}}  {value}" for title, value in rows.items()]
        tried = f'try it:  {program()} encode {self.reference} "Hello world"'
        seen = f"see it:  {program()} show {self.reference}"
        return as_typed("\n".join(["", *lines, "", tried, seen]))

    def as_markdown(self) -> str:
        """The same with steps and metrics, for Prefect and MLflow."""
        heading = [f"# {self.reference}", ""] if self.version else []
        lines = [*heading, "| | |", "|---|---|"]
        lines += [f"| {title} | {value} |" for title, value in self.rows()]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        lines += ["", "## How long it took", "", "| step | seconds |", "|---|---:|"]
        lines += [f"| {step} | {seconds:.2f} |" for step, seconds in self.seconds.items()]
        lines += ["", "## Everything measured", "", f"Measured on {self.measured_on}.", ""]
        lines += ["| metric | value |", "|---|---:|"]
        lines += [
            f"| {key} | {number_text(value)} |" for key, value in sorted(self.metrics.items())
        ]
        return "\n".join(lines) + "\n"
