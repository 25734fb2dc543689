"""The summary of an import, as text, JSON or Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.flows.publishing import Summary
from bpeline.flows.wording import counted, megabytes
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN


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
