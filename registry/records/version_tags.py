"""MLflow tags of deleted versions and of versions that promotion rules rejected."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.redaction import in_one_line

_REFUSAL = "refusal."  # followed by the alias
# A drift that retraining cannot end with this evaluation set and these rules.
STUCK = "drifted, and the rules reject the retrained version: change the set, or the rules"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A version that was deleted or is being deleted; its number is never reused.

    Stored as a tag of the registered model; ``at`` is UTC, ISO 8601.
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
        user = f" by {self.by}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        return in_one_line(f"deleted on {self.at[:16].replace('T', ' ')} UTC{user}{reason}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rules rejected a version for an alias; stored as a tag of the version.

    Attributes:
        present: digest of the version that the alias points to.
        new_bytes: bytes of training text that the present version was not trained on; 0 if the
            word counts of either version are gone.
        drifted: whether new text has drifted from the present version and has not grown much since.
    """

    present: str
    rules: str
    evaluation_set: str
    locked: bool
    new_bytes: int
    drifted: bool = False

    def as_tag(self, alias: str) -> dict[str, str]:
        """The tag for an alias."""
        return {f"{_REFUSAL}{alias}": canonical_json(asdict(self)).decode()}


def refusals_in(tags: Mapping[str, str]) -> dict[str, Refusal]:
    """Return alias → refusal from a version's tags; unreadable tags are skipped."""
    refusals = {}
    for key, value in tags.items():
        if key.startswith(_REFUSAL):
            with suppress(TypeError, ValueError):
                refusals[key.removeprefix(_REFUSAL)] = check_fields(
                    Refusal(**parse_json(value.encode()))
                )
    return refusals
