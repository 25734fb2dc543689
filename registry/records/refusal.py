"""The refusal of a version by rules, as MLflow keeps it: a tag of the version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from bpeline.tokenizer_core.arguments import check_fields
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json

REFUSAL = "refusal"  # the tag
# A drift that no training ends, as long as set and rules stay.
STUCK = "drifted, and the rules refuse what was learned from it: change the set, or the rules"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Under which conditions rules refused a version, and how much new text it had learned from.

    Attributes:
        alias: which did not move.
        present: digest of the version that it points to.
        rules: digest of the rules.
        evaluation_set: digest of the set that the name had; empty for none.
        locked: whether the alias was locked.
        new_bytes: text that the version learned from and the present one did not; 0 where the
            word counts of either are gone.
        drifted: whether new text has drifted from the present version since, and is not much more.
    """

    alias: str
    present: str
    rules: str
    evaluation_set: str
    locked: bool
    new_bytes: int
    drifted: bool = False

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> Refusal | None:
        """The one among the tags of a version; None where there is none that can be read."""
        try:
            return check_fields(cls(**parse_json(tags[REFUSAL].encode())))
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def tags(self) -> dict[str, str]:
        """The tag."""
        return {REFUSAL: canonical_json(asdict(self)).decode()}

    def is_same_as(self, other: Refusal | None) -> bool:
        """Whether the conditions are the same."""
        return other is not None and self == replace(
            other, new_bytes=self.new_bytes, drifted=self.drifted
        )
