"""The refusal of a version by rules, as MLflow keeps it: a tag of the version for each alias."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from bpeline.tokenizer_core.arguments import check_fields
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json

_TAG = "refusal."  # and the alias that did not move
# A drift that no training ends, as long as set and rules stay.
STUCK = "drifted, and the rules refuse what was learned from it: change the set, or the rules"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Under which conditions rules refused a version, and how much new text it had learned from.

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
        return {f"{_TAG}{alias}": canonical_json(asdict(self)).decode()}


def refusals_in(tags: Mapping[str, str]) -> dict[str, Refusal]:
    """alias → refusal, of the tags of a version; those that cannot be read are left out."""
    found = {}
    for key, value in tags.items():
        if key.startswith(_TAG):
            with suppress(TypeError, ValueError):
                found[key.removeprefix(_TAG)] = check_fields(Refusal(**parse_json(value.encode())))
    return found
