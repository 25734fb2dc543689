"""What came of making a version again: values, JSON, lines for a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from bpeline.flows.steps import Check
from bpeline.flows.wording import counted

Verdict = Literal["identical", "different", "inputs changed", "inputs gone", "counts gone"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of making a version again.

    Attributes:
        reference: the version.
        verdict: what is to be said of it.
        recounted: whether the text was read and counted anew.
        inputs: the files of the corpus, in their order; empty where none were read.
        made: what was made of them, in order, as far as that went.
        counts_suffice: whether the word counts that were kept say all that merges are learned from.
    """

    reference: str
    verdict: Verdict
    recounted: bool
    inputs: tuple[Check, ...]
    made: tuple[Check, ...]
    counts_suffice: bool = True

    @property
    def holds(self) -> bool:
        """Whether the version is proven to come from its inputs."""
        return self.verdict == "identical"

    def as_dict(self) -> dict[str, Any]:
        """JSON values; of the inputs those that are not what they were, and how many there are."""
        return {
            "reference": self.reference,
            "verdict": self.verdict,
            "identical": self.holds,
            "recounted": self.recounted,
            "inputs": len(self.inputs),
            "changed_inputs": [asdict(one) for one in self.inputs if not one.holds],
            "checks": [{**asdict(one), "holds": one.holds} for one in self.made],
        }


def lines_of(verification: Verification) -> list[str]:
    """The verification for a terminal."""
    said = {
        "identical": "is identical: made again, it came out the same",
        "different": "is NOT what its inputs make",
        "inputs changed": "cannot be made again: its inputs have changed",
        "inputs gone": "cannot be made again: inputs are gone",
        "counts gone": "cannot be made again: its word counts are not in this workspace",
    }
    lines = [f"{verification.reference} {said[verification.verdict]}"]
    if verification.inputs:
        lines.append(f"inputs       {counted(len(verification.inputs), 'file')}")
    elif not verification.recounted and verification.made:
        lines.append("inputs       not read: the word counts that were kept are believed")
    if verification.inputs and not any(one.expected for one in verification.inputs):
        lines.append("  what each of them held was not kept when this version was made")
    for one in verification.inputs:
        if not one.holds:
            lines += [f"  {one.what}", f"    expected {one.expected}", f"    found    {one.found}"]
    for one in verification.made:
        if one.means_the_same:
            lines.append(f"{one.what:<12} means the same, and is only spelled otherwise today")
        elif one.holds:
            lines.append(f"{one.what:<12} {one.found}")
        else:
            lines += [f"{one.what:<12} expected {one.expected}", f"{'':<12} found    {one.found}"]
    return lines
