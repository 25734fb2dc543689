"""A version that was deleted, as MLflow keeps it: a tag of the registered model for each number."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.tokenizer_core.redaction import in_one_line


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A version was deleted, or is to be; its number is never used again.

    Attributes:
        name, number: which version it was.
        digest: of the tokenizer.
        by, reason, at: who deleted it, why, and when (UTC, ISO 8601).
    """

    name: str
    number: int
    digest: str
    by: str = ""
    reason: str = ""
    at: str = ""

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        why = f": {self.reason}" if self.reason else ""
        return in_one_line(f"deleted on {self.at[:16].replace('T', ' ')} UTC{who}{why}")
