"""What MLflow keeps in tags of a version that was deleted, and of one that rules refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.redaction import in_one_line

_REFUSAL = "refusal."  # and the alias that did not move
# A drift that no training ends, as long as set and rules stay.
STUCK = "drifted, and the rules refuse what was learned from it: change the set, or the rules"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A version was deleted, or is to be; its number is never used again.

    MLflow keeps it in a tag of the registered model for each number.

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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Under which conditions rules refused a version, and how much new text it had learned from.

    MLflow keeps it in a tag of the version for each alias.

    Attributes:
        present: digest of the version that the alias points to.
        rules: digest of the rules.
        evaluation_set: digest of the set that the name had; empty for none.
        locked: whether the alias was locked.
        new_bytes: text that the version learned from and the present one did not; 0 where the
            word counts of either are gone.
        drifted: whether new text has drifted from the present version since, and is not much more.
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
    """alias → refusal, of the tags of a version; those that cannot be read are left out."""
    found = {}
    for key, value in tags.items():
        if key.startswith(_REFUSAL):
            with suppress(TypeError, ValueError):
                found[key.removeprefix(_REFUSAL)] = check_fields(
                    Refusal(**parse_json(value.encode()))
                )
    return found
